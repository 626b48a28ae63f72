"""What holds for the decoder, the encoder and the encoder-decoder alike, in every recipe that they have."""

import re
import subprocess
import sys

import pytest
import torch
from torch.export import Dim
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from tests.models import test_decoder, test_encoder, test_seq2seq
from tests.models.test_decoder import tokens
from twofold.attention import Kind
from twofold.models import DecoderConfig, EmbeddingConfig, EncoderConfig, EncoderForMaskedLM, Seq2SeqConfig
from twofold.models.configs import POSITIONS, RECIPES

FAMILIES = {
    "decoder": test_decoder.model,
    "encoder": lambda **changes: test_encoder.made(EncoderForMaskedLM, **changes),
    "seq2seq": test_seq2seq.model,
}
AUTOS = {"decoder": AutoModelForCausalLM, "encoder": AutoModelForMaskedLM, "seq2seq": AutoModelForSeq2SeqLM}
CASES = [
    (family, recipe) for family in FAMILIES for recipe in RECIPES if not (family == "seq2seq" and recipe == "bare")
]
# Every kind in one recipe, and every recipe of one kind.
KINDS = [
    (family, recipe, kind) for family, recipe in CASES for kind in Kind if recipe == "modern" or kind == Kind.SPLIT_KV
]
every_kind = pytest.mark.parametrize(("family", "recipe", "kind"), KINDS)
every_case = pytest.mark.parametrize(("family", "recipe"), CASES)


def inputs(family, T=9):
    """A batch with labels; the encoder-decoder's answer has its own length."""
    ids = tokens(T=T)
    labels = test_seq2seq.answer() if family == "seq2seq" else ids
    return {"input_ids": ids, "labels": labels} | ({} if family == "encoder" else {"use_cache": False})


def gradients(model, given, run=None):
    model.zero_grad()
    out = (model if run is None else run)(**given)
    out.loss.backward()
    return out.logits.detach(), {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@every_kind
def test_gradient_checkpointing_changes_no_gradient(family, recipe, kind):
    model, given = FAMILIES[family](attention=kind, recipe=recipe).train(), inputs(family)
    expected = gradients(model, given)
    model.gradient_checkpointing_enable()
    assert all(layer.gradient_checkpointing for layer in model.modules() if type(layer).__name__ == "Layer")
    torch.testing.assert_close(gradients(model, given), expected)


@every_case
def test_compiles_to_one_graph_forwards_and_backwards(family, recipe):
    torch.compiler.reset()
    model, given = FAMILIES[family](attention="split_kv", recipe=recipe, num_hidden_layers=1), inputs(family)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(**given).logits, model(**given).logits)
    model.train()
    torch.testing.assert_close(gradients(model, given, compiled), gradients(model, given))
    torch.compiler.reset()


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_exports_with_dynamic_batch_and_length(family, padded):
    model = FAMILIES[family](attention="split_kv", num_hidden_layers=1)

    def given(B, T):
        made = {"input_ids": torch.randint(3, 20, (B, T))}
        if padded:
            made["attention_mask"] = (torch.arange(T) < torch.randint(1, T + 1, (B, 1))).long()
        if family == "seq2seq":
            made["decoder_input_ids"] = torch.randint(3, 20, (B, T))
        return made | ({} if family == "encoder" else {"use_cache": False})

    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=1024)}
    shapes = {name: sizes if isinstance(value, torch.Tensor) else None for name, value in given(3, 10).items()}
    program = torch.export.export(model, (), given(3, 10), dynamic_shapes=shapes).module()
    for B, T in ((1, 2), (5, 33), (2, 130)):
        new = given(B, T)
        torch.testing.assert_close(program(**new).logits, model(**new).logits)


@every_kind
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_nothing(family, recipe, kind, side):
    model, ids = FAMILIES[family](attention=kind, recipe=recipe), tokens(T=6)

    def padded(ids):
        nothing = torch.zeros(len(ids), 3, dtype=torch.long)
        wide = torch.cat([nothing, ids] if side == "left" else [ids, nothing], dim=1)
        mask = (wide != 0).long()
        own = slice(3, None) if side == "left" else slice(0, ids.shape[1])
        return wide, mask, (mask.cumsum(-1) - 1).clamp(min=0), own

    wide, mask, places, own = padded(ids)
    options, other = {}, {}
    if family == "seq2seq":
        options["decoder_input_ids"] = test_seq2seq.answer()
        names = ("decoder_input_ids", "decoder_attention_mask", "decoder_position_ids")
        *found, own = padded(options["decoder_input_ids"])
        other = dict(zip(names, found, strict=True))
    with torch.no_grad():
        found = model(wide, attention_mask=mask, position_ids=places, **other).logits[:, own]
        torch.testing.assert_close(found, model(ids, **options).logits, atol=1e-5, rtol=1e-5)


@every_kind
def test_a_row_of_padding_alone_is_finite_and_so_are_its_gradients(family, recipe, kind):
    model, given = FAMILIES[family](attention=kind, recipe=recipe).train(), inputs(family)
    given["attention_mask"] = torch.tensor([[1] * 9, [0] * 9])
    logits, found = gradients(model, given)
    assert logits.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in found.values())


@every_kind
def test_one_token_is_a_sequence(family, recipe, kind):
    """Alone, a token keeps all of itself, so only the own values show."""
    model, given = FAMILIES[family](attention=kind, recipe=recipe), inputs(family, T=1)
    found = model(**given, output_attentions=True)
    maps = found.encoder_attentions if family == "seq2seq" else found.attentions
    # A decoder has nothing to foresee.
    assert found.loss.isfinite() == (family != "decoder")
    for weights in maps:
        torch.testing.assert_close(weights, torch.ones(2, 4, 1, 1))


@every_case
def test_a_configuration_asks_for_maps_as_the_keyword_does(family, recipe, tmp_path):
    model, given = FAMILIES[family](recipe=recipe), inputs(family)
    sides = ("encoder_attentions", "decoder_attentions", "cross_attentions") if family == "seq2seq" else ("attentions",)
    expected = model(**given, output_attentions=True)
    assert getattr(model(**given), sides[0]) is None
    model.save_pretrained(tmp_path)
    loaded = AUTOS[family].from_pretrained(tmp_path, output_attentions=True, attn_implementation="eager").eval()
    model.set_attn_implementation("eager")
    model.config.output_attentions = True
    for one in (model, loaded):
        for told in ({}, {"output_attentions": None}):
            found = one(**given, **told)
            for side in sides:
                assert len(found[side]) == 2
                torch.testing.assert_close(found[side], expected[side])
        found = one(**given, output_attentions=False)
        assert all(getattr(found, side) is None for side in sides)


def test_a_configuration_asks_heads_for_maps(tmp_path):
    for config in (test_decoder.config(), test_encoder.config()):
        for auto in (
            AutoModelForSequenceClassification,
            AutoModelForTokenClassification,
            AutoModelForQuestionAnswering,
        ):
            model = auto.from_config(config).eval()
            expected = model(tokens(), output_attentions=True).attentions
            model.save_pretrained(tmp_path)
            model = auto.from_pretrained(tmp_path, output_attentions=True, attn_implementation="eager").eval()
            assert len(expected) == 2
            torch.testing.assert_close(model(tokens()).attentions, expected)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_positions_are_one_for_each_token(family, positions):
    model, given = FAMILIES[family](positions=positions), inputs(family)
    names = ("position_ids", "decoder_position_ids") if family == "seq2seq" else ("position_ids",)
    for name, T in zip(names, (9, 6), strict=False):
        for places in (torch.arange(T), torch.arange(T - 1)[None], torch.arange(T).expand(3, T)):
            message = f"position_ids must have shape (B, T) = {(2, T)}, got {tuple(places.shape)}"
            with pytest.raises(ValueError, match=re.escape(message)):
                model(**given, **{name: places})
        expected = model(**given).logits
        torch.testing.assert_close(model(**given, **{name: torch.arange(T)[None]}).logits, expected)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("saved", "opened"), [("standard", "split_kv"), ("split_key", "split_kv")])
def test_a_checkpoint_without_own_weights_is_no_split_model(family, saved, opened, tmp_path):
    FAMILIES[family](attention=saved).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"no weights for a token's own keys and values \(.*self_(key|value).* more\)"):
        AUTOS[family].from_pretrained(tmp_path, attention=opened)


def test_without_this_package_no_checkpoint_opens(tmp_path):
    for family, build in FAMILIES.items():
        build().save_pretrained(tmp_path / family)
    code = """
import sys, transformers
for family, auto in zip(sys.argv[2:], ("CausalLM", "MaskedLM", "Seq2SeqLM"), strict=True):
    for name in ("AutoConfig", "AutoModel", "AutoModelFor" + auto):
        try:
            getattr(transformers, name).from_pretrained(f"{sys.argv[1]}/{family}")
        except ValueError as error:
            sys.stdout.write(f"{name} refused {family}: " + str("twofold_" + family in str(error)) + chr(10))
assert "twofold" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path, *FAMILIES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{name} refused {family}: True"
        for family, auto in zip(FAMILIES, ("CausalLM", "MaskedLM", "Seq2SeqLM"), strict=True)
        for name in ("AutoConfig", "AutoModel", f"AutoModelFor{auto}")
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_and_shards_survive_saving(family, tmp_path):
    model = FAMILIES[family]().to(torch.bfloat16)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    loaded = AUTOS[family].from_pretrained(tmp_path)
    assert loaded.dtype == torch.bfloat16
    torch.testing.assert_close(loaded.state_dict(), model.state_dict(), atol=0, rtol=0)
    assert torch.equal(loaded(**inputs(family)).logits, model(**inputs(family)).logits)


@pytest.mark.parametrize("config", [DecoderConfig, EncoderConfig, Seq2SeqConfig])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention": "double"}, "attention must be one of standard, split_key, split_value, split_kv, got 'double'"),
        ({"recipe": "new"}, "recipe must be one of modern, classic, bare, got 'new'"),
        ({"positions": "none at all"}, "positions must be one of rotary, sinusoidal, learned, none, got 'none at all'"),
        ({"num_key_value_heads": 3}, "num_key_value_heads must divide num_attention_heads 8, got 3"),
        ({"num_hidden_layers": 0}, "num_hidden_layers must be at least 1, got 0"),
        ({"initializer_range": float("nan")}, "initializer_range must be a finite number of at least 0, got nan"),
        ({"max_position_embeddings": -5}, "max_position_embeddings must be at least 1, got -5"),
        ({"pad_token_id": -1}, "pad_token_id must be a token of vocab_size 32000, got -1"),
        (
            {"hidden_size": 25, "num_attention_heads": 5, "recipe": "classic"},
            "hidden_size must be even for sinusoidal positions, got 25",
        ),
        ({"rope_parameters": {"rope_type": ["yarn"]}}, r"rope_type must be one of .*, got \['yarn'\]"),
        ({"rope_parameters": {"rope_type": "linear", "factor": "4"}}, "factor of rope_parameters must be a number"),
        ({"rope_parameters": {"rope_type": "linear", "factor": float("nan")}}, "factor must be a finite number"),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 0.0}},
            "attention_factor must be a finite number above 0, got 0.0",
        ),
        ({"rope_theta": float("inf")}, "base must be a finite number above 1, got inf"),
    ],
)
def test_bad_configurations_are_value_errors(config, changes, message):
    with pytest.raises(ValueError, match=message):
        config(**changes)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf")])
def test_temperatures_are_above_zero(temperature):
    with pytest.raises(ValueError, match=r"^similarity_temperature must be a finite number above 0"):
        EmbeddingConfig(similarity_temperature=temperature)


def test_whole_numbers_are_numbers():
    """As in the configurations of transformers' own models."""
    made = DecoderConfig(attention_dropout=0, norm_eps=0, rope_parameters={"rope_type": "default", "rope_theta": 5000})
    assert (made.attention_dropout, made.rope_theta) == (0, 5000)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (DecoderConfig, "sliding_window must be at least 2, got 1"),
        (EncoderConfig, "sliding_window is for decoders, EncoderConfig must leave it None"),
        (Seq2SeqConfig, "sliding_window is for decoders, Seq2SeqConfig must leave it None"),
    ],
)
def test_windows_are_for_decoders(config, message):
    window = 1 if config is DecoderConfig else 4
    with pytest.raises(ValueError, match=message):
        config(sliding_window=window)
