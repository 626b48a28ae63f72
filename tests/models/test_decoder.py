"""The decoder, every kind and recipe: generation by any cache is the full pass, and a checkpoint is what was saved."""

import json

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, StaticCache

from twofold.attention import Kind
from twofold.models import DecoderConfig, DecoderForCausalLM, DecoderModel, matched
from twofold.models.configs import RECIPES

VOCABULARY = 50


def config(**changes):
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    return DecoderConfig(**{**sizes, "num_key_value_heads": 2, "init": "independent", **changes})


def model(**changes):
    torch.manual_seed(0)
    made = DecoderForCausalLM(config(**changes)).eval()
    # Larger than usual, so that mistakes show.
    for parameter in made.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return made


def tokens(B=2, T=9):
    return torch.randint(3, VOCABULARY, (B, T), generator=torch.Generator().manual_seed(1))


# Every kind in one recipe and every recipe of one kind: recipes change what is around attention, not inside.
KINDS_AND_RECIPES = [*((kind, "modern") for kind in Kind), *(("split_kv", recipe) for recipe in ("classic", "bare"))]
for_each = pytest.mark.parametrize(("kind", "recipe"), KINDS_AND_RECIPES)


@for_each
@pytest.mark.parametrize("cache", ["dynamic", "static", "sliding"])
@pytest.mark.parametrize("chunks", [(5, 4), (1,) * 9, (3, 1, 5)], ids=str)
def test_prefill_and_steps_are_the_full_pass(kind, recipe, cache, chunks):
    made, ids = model(attention=kind, recipe=recipe, sliding_window=4 if cache == "sliding" else None), tokens()
    with torch.no_grad():
        full = made(ids, use_cache=False).logits
        past = StaticCache(config=made.config, max_cache_len=11) if cache == "static" else None
        start, found = 0, []
        for chunk in chunks:
            out = made(ids[:, start : start + chunk], past_key_values=past, use_cache=True)
            past, start = out.past_key_values, start + chunk
            found.append(out.logits)
    torch.testing.assert_close(torch.cat(found, dim=1), full, atol=2e-4, rtol=0)


@for_each
def test_outputs_do_not_depend_on_the_future(kind, recipe):
    made, ids = model(attention=kind, recipe=recipe), tokens()
    other = ids.clone()
    other[:, 6:] = 3
    assert torch.equal(made(ids).logits[:, :6], made(other).logits[:, :6])


@for_each
@pytest.mark.parametrize("beams", [1, 3])
def test_generation_is_the_same_with_any_cache_and_with_none(kind, recipe, beams):
    made, ids = model(attention=kind, recipe=recipe), tokens()
    ids[0, :4] = 0
    options = {"max_new_tokens": 6, "num_beams": beams, "do_sample": False, "attention_mask": (ids != 0).long()}
    expected = made.generate(ids, use_cache=False, **options)
    assert torch.equal(made.generate(ids, **options), expected)
    assert torch.equal(made.generate(ids, cache_implementation="static", **options), expected)


@for_each
def test_a_saved_model_is_the_same_model(kind, recipe, tmp_path):
    made, ids = model(attention=kind, recipe=recipe), tokens()
    made.save_pretrained(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert torch.equal(loaded(ids).logits, made(ids).logits)
    assert AutoConfig.from_pretrained(tmp_path).attention == kind


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("kind", ["split_key", "split_value", "split_kv"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_copied_own_weights_are_the_standard_model(kind, recipe, dtype, tolerance):
    split = DecoderForCausalLM(config(attention=kind, recipe=recipe, init="copy")).to(dtype).eval()
    standard = DecoderForCausalLM(config(attention="standard", recipe=recipe)).to(dtype).eval()
    missing = standard.load_state_dict(split.state_dict(), strict=False)
    assert not missing.missing_keys
    assert all(".self_key." in key or ".self_value." in key for key in missing.unexpected_keys)
    torch.testing.assert_close(split(tokens()).logits, standard(tokens()).logits, atol=tolerance, rtol=0)


@for_each
def test_attentions_are_the_true_split_weights(kind, recipe):
    made, ids = model(attention=kind, recipe=recipe), tokens()
    full = made(ids, output_attentions=True).attentions
    assert len(full) == 2
    for weights in full:
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 9))
        assert (weights.triu(1) == 0).all()
    for past in (None, StaticCache(config=made.config, max_cache_len=12)):
        first = made(ids[:, :6], past_key_values=past, use_cache=True, output_attentions=True)
        second = made(ids[:, 6:], past_key_values=first.past_key_values, output_attentions=True)
        torch.testing.assert_close(second.attentions[1][..., :9], full[1][:, :, 6:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("act", ["relu2", "swiglu"])
@pytest.mark.parametrize("kv_heads", [8, 2])
@pytest.mark.parametrize("recipe", ["modern", "classic"])
@pytest.mark.parametrize("kind", ["split_key", "split_value", "split_kv"])
def test_matched_models_have_equal_parameters(kind, recipe, kv_heads, act):
    sizes = {"hidden_size": 128, "num_attention_heads": 8, "num_key_value_heads": kv_heads, "hidden_act": act}
    standard = config(attention="standard", recipe=recipe, intermediate_size=512, **sizes)
    counts = [DecoderForCausalLM(c).num_parameters() for c in (standard, matched(standard, kind))]
    assert abs(counts[1] / counts[0] - 1) < 1e-3
    back = matched(matched(standard, kind), "standard")
    assert back.intermediate_size == standard.intermediate_size


@pytest.mark.parametrize("width", [24, 40, 48, 56])
@pytest.mark.parametrize("act", ["silu", "relu"])
def test_matched_models_are_as_near_as_whole_columns_allow_biases_counted_in(act, width):
    biases = {"attention_bias": True, "mlp_bias": True, "hidden_act": act, "num_key_value_heads": None}
    standard = config(attention="standard", hidden_size=width, intermediate_size=4 * width, **biases)
    wider = config(attention="standard", hidden_size=width, intermediate_size=4 * width + 1, **biases)
    split = matched(standard, "split_kv")
    plain, column, other = (DecoderForCausalLM(one).num_parameters() for one in (standard, wider, split))
    assert abs(other - plain) <= (column - plain) / 2


def test_what_cannot_be_matched_is_refused():
    with pytest.raises(ValueError, match="no feed-forward that could be narrowed"):
        matched(config(recipe="bare"), "standard")
    with pytest.raises(ValueError, match="intermediate_size must leave room"):
        matched(config(attention="standard", intermediate_size=8), "split_kv")


def test_the_auto_classes_know_it(tmp_path):
    made = config()
    made.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "twofold_decoder"
    assert isinstance(AutoModel.from_config(AutoConfig.from_pretrained(tmp_path)), DecoderModel)


def test_learns_to_spell():
    """hello: the example of source 004, character by character."""
    torch.manual_seed(0)
    letters = "helo"
    made = DecoderForCausalLM(config(vocab_size=8, hidden_size=32, init="copy")).train()
    word = torch.tensor([[1, *(letters.index(letter) + 3 for letter in "hello"), 2]])
    optimiser = torch.optim.AdamW(made.parameters(), lr=1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        made(word, labels=word).loss.backward()
        optimiser.step()
    assert made.eval().generate(word[:, :2], max_new_tokens=5, do_sample=False).tolist() == word.tolist()


def test_tokens_or_vectors_but_one_of_them():
    made, ids = model(), tokens()
    vectors = made.get_input_embeddings()(ids)
    torch.testing.assert_close(made(inputs_embeds=vectors).logits, made(ids).logits)
    for given in ({}, {"input_ids": ids, "inputs_embeds": vectors}):
        with pytest.raises(ValueError, match="give exactly one of input_ids and inputs_embeds"):
            made(**given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sliding_window": 1}, "sliding_window must be at least 2, got 1"),
        ({"pad_token_id": -1}, "pad_token_id must be a token"),
        ({"norm_eps": -1.0}, "norm_eps must be a finite number"),
        ({"pooling": "evil"}, "pooling must be one of"),
    ],
)
def test_what_a_configuration_refuses_a_checkpoint_cannot_be_told(change, message, tmp_path):
    model().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=message):
        DecoderForCausalLM.from_pretrained(tmp_path, **change)


@pytest.mark.parametrize(("window", "kinds"), [(None, "full_attention"), (4, "sliding_attention")])
def test_layers_are_all_of_the_kind_that_the_window_says(window, kinds):
    assert config(sliding_window=window, layer_types=[kinds] * 2).layer_types == [kinds] * 2
    with pytest.raises(ValueError, match=f"layer_types must all be {kinds}, as sliding_window says, got"):
        config(sliding_window=window, layer_types=["full_attention", "sliding_attention"])


def test_heads_of_an_odd_width_cannot_turn():
    with pytest.raises(ValueError, match="head_dim must be even for rotary positions, got 7"):
        config(hidden_size=28, num_attention_heads=4, head_dim=None)


@pytest.mark.parametrize("options", [{}, {"use_cache": False}])
def test_positions_with_gaps_are_of_one_text(options):
    """As they are shifted, or stretched, with one text behind the other: only where they go down another begins."""
    made, ids = model(), tokens(B=1)
    whole = made(ids, position_ids=torch.tensor([[0, 1, 2, 5, 6, 9, 10, 20, 40]]), **options).logits
    ids_before = ids.clone()
    ids_before[:, 0] = 3
    assert ids[0, 0] != 3
    other = made(ids_before, position_ids=torch.tensor([[0, 1, 2, 5, 6, 9, 10, 20, 40]]), **options).logits
    assert (whole - other)[:, -1].abs().max() > 1e-4
    both = made(ids, position_ids=torch.tensor([[0, 7, 9, 9, 11, 5, 6, 7, 20]]), **options).logits
    for part, places in ((slice(0, 3), [0, 7, 9]), (slice(3, 5), [9, 11]), (slice(5, 9), [5, 6, 7, 20])):
        alone = made(ids[:, part], position_ids=torch.tensor([places]), use_cache=True).logits
        torch.testing.assert_close(both[:, part], alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("options", [{}, {"use_cache": False}, {"use_cache": True}])
@pytest.mark.parametrize("window", [None, 3])
def test_packed_texts_do_not_see_each_other_whether_or_not_a_cache_is_made(options, window):
    made, ids = model(sliding_window=window), tokens(B=1)
    places = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]])
    packed = made(ids, position_ids=places, **options).logits
    alone = torch.cat([made(ids[:, :4]).logits, made(ids[:, 4:]).logits], dim=1)
    torch.testing.assert_close(packed, alone, atol=1e-5, rtol=1e-4)
