"""Arms start paired, at equal parameters, learn, compile, and are never mistaken for one another on disk."""

import math
import sys
from importlib import import_module
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM

import twofold
from tests.lab.small import CALCULATIONS, FAMILIES, VOCABULARY, batch, shaken, standard, tokens
from twofold.attention.rotary import Rotary
from twofold.lab import rivals
from twofold.lab.arms import ARMS, Arm, Wide, build, config_of, parameters
from twofold.lab.arms_from_file import digest_of_own
from twofold.models import CaptionerConfig, CaptionerForConditionalGeneration, DecoderForCausalLM, RecurrentConfig
from twofold.models.layers import SelfAttention
from twofold.models.loading import load, load_as

DOCS = Path(__file__).parents[2] / "docs"
each_arm = pytest.mark.parametrize("name", ARMS)
RIVALS = [name for name, arm in ARMS.items() if arm.attention is not SelfAttention]
each_rival = pytest.mark.parametrize("name", RIVALS)
each_calculation = pytest.mark.parametrize("name", CALCULATIONS)
each_family = pytest.mark.parametrize("family", FAMILIES)


def made(name, family="decoder", *, matched=None, seed=0, **changes):
    arm = ARMS[name]
    matched = arm.can_match if matched is None else matched
    return build(arm, standard(family, **changes), FAMILIES[family][1], matched=matched, seed=seed)


def test_every_arm_says_where_it_comes_from():
    assert all(arm.source for arm in ARMS.values())
    assert all(name == arm.name for name, arm in ARMS.items())


class TestSize:
    @each_arm
    @pytest.mark.parametrize(
        ("family", "changes"),
        [("decoder", {}), ("decoder", {"hidden_act": "swiglu"}), ("encoder", {"recipe": "classic"}), ("seq2seq", {})],
        ids=str,
    )
    def test_matched_is_equal_to_half_a_column_a_layer(self, name, family, changes):
        wanted = parameters(standard(family, **changes), FAMILIES[family][1])
        if not ARMS[name].can_match:
            with pytest.raises(ValueError, match="matched must be False for wide: its size is what it tests"):
                made(name, family, matched=True, **changes)
            return
        model = made(name, family, **changes)
        assert model.num_parameters() == sum(parameter.numel() for parameter in model.parameters())
        column = (3 if changes.get("hidden_act") else 2) * 32 + (changes.get("recipe") == "classic")
        layers = 4 if family == "seq2seq" else 2
        assert abs(model.num_parameters() - wanted) <= column * layers / 2

    def test_split_kv_pays_with_a_quarter_of_its_feed_forward(self):
        assert made("split_kv").config.intermediate_size == 96
        assert made("split_kv").num_parameters() == made("standard").num_parameters()

    def test_raw_keeps_the_width_and_wide_has_what_split_kv_has_more(self):
        assert made("split_kv", matched=False).config.intermediate_size == 128
        assert made("wide").config.intermediate_size == 160
        assert made("wide").config.attention == "standard"
        assert made("wide").num_parameters() == made("split_kv", matched=False).num_parameters()

    def test_counting_makes_no_weights(self):
        large = standard(hidden_size=4096, num_hidden_layers=8, num_attention_heads=64, vocab_size=100_000)
        before = getrusage(RUSAGE_SELF).ru_maxrss
        assert parameters(large, DecoderForCausalLM) > 2e9
        config = config_of(ARMS["split_kv"], large, DecoderForCausalLM, matched=True)
        assert (large.intermediate_size, config.intermediate_size) == (16384, 12288)
        # KiB on Linux, bytes elsewhere; the weights would take 8 GB.
        assert getrusage(RUSAGE_SELF).ru_maxrss - before < 2e6 * (1 if sys.platform == "linux" else 1024)

    def test_the_standard_configuration_stays_as_it_is(self):
        given = standard()
        before = given.to_dict()
        for arm in ARMS.values():
            build(arm, given, DecoderForCausalLM, matched=False, seed=0)
        assert given.to_dict() == before

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"attention": "split_kv"}, "standard_config must have standard attention, got 'split_kv'"),
            ({"intermediate_size": 8}, "intermediate_size must leave room for the arm: 8 and -32 more"),
            ({"recipe": "bare"}, "a bare layer has no feed-forward that could be fitted"),
        ],
    )
    def test_what_cannot_be_compared_is_refused(self, changes, message):
        with pytest.raises(ValueError, match=message):
            made("split_kv", **changes)

    def test_recurrent_models_have_no_arms(self):
        with pytest.raises(ValueError, match="must be of a transformer of this package, got RecurrentConfig"):
            build(ARMS["gated"], RecurrentConfig(), DecoderForCausalLM, matched=False, seed=0)

    def test_a_captioner_changes_in_what_writes(self):
        config = CaptionerConfig(decoder=standard("seq2seq"), channels=(4,))
        models = [
            build(ARMS[name], config, CaptionerForConditionalGeneration, matched=True, seed=0)
            for name in ("standard", "split_kv", "gated")
        ]
        assert len({model.num_parameters() for model in models}) == 1
        assert models[2].decoder.layers[0].self_attn.gate.weight.std() > 0
        for name, tensor in models[0].named_parameters():
            if "feed_forward" not in name:
                assert torch.equal(tensor, models[1].get_parameter(name))


class TestPairing:
    @each_family
    @each_arm
    def test_shared_tensors_are_equal_for_a_seed_and_differ_between_seeds(self, name, family):
        ours, theirs = made(name, family).state_dict(), made("standard", family).state_dict()
        other = made(name, family, seed=1).state_dict()
        same = {key for key in ours.keys() & theirs.keys() if ours[key].shape == theirs[key].shape}
        assert len(same) >= 19
        changed = {key for key in same if not torch.equal(ours[key], theirs[key])}
        # The patent draws the keys for the others anew.
        expected = {key for key in same if name == "split_kv_patent" and key.endswith("self_attn.key.weight")}
        assert changed == expected
        drawn = {key for key in ours if ours[key].unique().numel() > 1}
        assert drawn
        assert not [key for key in drawn if torch.equal(ours[key], other[key])]

    @each_calculation
    @pytest.mark.parametrize("act", [None, "swiglu"])
    def test_feed_forwards_share_the_neurons_that_both_have(self, name, act):
        ours, theirs = (made(arm, hidden_act=act, hidden_size=64).model for arm in (name, "standard"))
        for mine, other in zip(ours.layers, theirs.layers, strict=True):
            shared = min(mine.feed_forward.up.out_features, other.feed_forward.up.out_features)
            assert torch.equal(mine.feed_forward.up.weight[:shared], other.feed_forward.up.weight[:shared])
            assert torch.equal(mine.feed_forward.down.weight[:, :shared], other.feed_forward.down.weight[:, :shared])
            if act:
                assert torch.equal(mine.feed_forward.gate.weight[:shared], other.feed_forward.gate.weight[:shared])

    @pytest.mark.parametrize("changes", [{}, {"recipe": "classic"}, {"positions": "learned"}], ids=str)
    def test_weights_are_distributed_as_those_of_any_model(self, changes):
        """The same means and deviations, tensor by tensor; what starts at a fixed value does so here."""
        changes |= {"hidden_size": 128, "vocab_size": 300}
        usual = DecoderForCausalLM(standard(**changes)).state_dict()
        for key, tensor in made("standard", **changes).state_dict().items():
            assert abs(tensor.mean() - usual[key].mean()) < 1e-3
            assert tensor.std().item() == pytest.approx(usual[key].std().item(), rel=0.05)
            assert torch.equal(tensor == 0, usual[key] == 0)
            flat = tensor.flatten()
            assert flat.unique().numel() == 1 or flat.unique().numel() > 0.95 * (flat != 0).sum()

    def test_no_two_tensors_are_drawn_alike(self):
        found = made("split_kv_independent").state_dict()
        starts = [tuple(tensor.flatten()[-8:].tolist()) for key, tensor in found.items() if "norm" not in key]
        # The head is the embedding.
        assert len(set(starts)) == len(starts) - 1

    def test_own_weights_start_as_copies_of_that_seeds_weights(self):
        layer = made("split_kv", seed=5).model.layers[1].self_attn
        assert torch.equal(layer.self_key.weight, layer.key.weight)
        assert torch.equal(layer.self_value.weight, made("standard", seed=5).model.layers[1].self_attn.value.weight)

    def test_a_self_start_is_where_an_aligned_one_puts_the_own_score(self):
        """Under QK-norm, before anything is learned: the mean own score less the mean score with others."""

        def lead(name):
            config = standard(hidden_size=512, num_attention_heads=4, num_key_value_heads=4)
            layer = build(ARMS[name], config, DecoderForCausalLM, matched=False, seed=0).model.layers[0].self_attn
            new = layer.project(torch.randn(4, 16, 512, generator=torch.Generator().manual_seed(0)))
            own_key = new.key if new.self_key is None else new.self_key
            own = (new.query * own_key).sum(-1).mean() / math.sqrt(layer.head_width)
            return (own - (new.query @ new.key.mT).mean() / math.sqrt(layer.head_width)).item()

        assert lead("self_start") == pytest.approx(8.0, abs=0.5)  # D = 128
        assert lead("split_key_aligned") == lead("split_kv_aligned") == pytest.approx(8.0, abs=0.5)
        assert lead("split_kv") == pytest.approx(0.0, abs=0.5)

    @pytest.mark.parametrize("name", ["tied", "split_key", "split_kv", "self_bias", "low_rank_8", "linear_path"])
    def test_raw_these_start_as_the_standard_model(self, name):
        ids = tokens()
        with torch.no_grad():
            found, expected = (made(one, matched=False).eval()(ids).logits for one in (name, "standard"))
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)

    def test_other_generators_go_on_as_if_nothing_was_drawn(self):
        before = torch.get_rng_state()
        made("gated")
        assert torch.equal(torch.get_rng_state(), before)

    @pytest.mark.parametrize("seed", [-1, 1.5, True])
    def test_a_seed_is_a_whole_number(self, seed):
        with pytest.raises(ValueError, match="seed must be a whole number of at least 0, got"):
            made("standard", seed=seed)


def loss_of(model, given):
    """In the model's own precision: transformers' losses are float32, however exact the model is."""
    logits, labels = model(**given).logits, given["labels"]
    if type(model) is DecoderForCausalLM:
        logits, labels = logits[:, :-1], labels[:, 1:]
    return cross_entropy(logits.flatten(0, 1), labels.flatten())


def curve(model, steps, lr, given):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for step in range(steps):
        loss = loss_of(model, given(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


class TestTraining:
    @each_family
    @pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-10), (torch.float32, 1e-4)], ids=str)
    def test_tied_weights_with_the_split_path_follow_the_standard_curve(self, family, dtype, within):
        def given(step):
            if family == "decoder":  # without a mask, by the kernels' shortest way
                ids = tokens(seed=step % 3)
                return {"input_ids": ids, "labels": ids, "use_cache": False}
            told = batch(family)
            return {**told, "input_ids": tokens(seed=step) * told["attention_mask"]}

        found, expected = (curve(made(name, family).to(dtype), 20, 3e-3, given) for name in ("tied", "standard"))
        assert expected[-1] < expected[0] - 0.05
        assert ((found - expected).abs() / expected).max() < within

    @each_arm
    def test_thirty_steps_lower_the_loss(self, name):
        """Counting up from anywhere: the next token is known from the last."""

        def given(step):
            start = torch.randint(0, 34, (8, 1), generator=torch.Generator().manual_seed(step))
            ids = (start + torch.arange(12)) % 34 + 3
            return {"input_ids": ids, "labels": ids, "use_cache": False}

        losses = curve(made(name), 30, 1e-2, given)
        assert losses[:2].mean() > 3
        assert losses[-5:].mean() < losses[:5].mean() - 1

    @pytest.mark.parametrize(
        ("name", "masked"),
        [(name, False) for name in RIVALS if name != "low_rank_32"] + [("self_bias", True), ("masked_diagonal", True)],
    )
    def test_compiles_to_one_graph_forwards_and_backwards(self, name, masked):
        """The layer alone: what is around it compiles with any kind (tests/models)."""
        torch.compiler.reset()
        layer = shaken(made(name), scale=0.1).model.layers[0].self_attn
        x, rotary_table = torch.randn(2, 9, 32, requires_grad=True), Rotary(width=8).at(torch.arange(9), torch.float32)
        mask = (torch.arange(9) < torch.tensor([[9], [6]]))[:, None, None] if masked else None

        def gradients(run):
            out, _ = run(x, rotary_table, mask)
            found = torch.autograd.grad(out.square().sum(), [x, *layer.parameters()])
            return out.detach(), found

        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(gradients(compiled), gradients(layer), atol=1e-5, rtol=1e-4)
        torch.compiler.reset()

    @each_rival
    @pytest.mark.parametrize("family", ["encoder", "seq2seq"])
    def test_half_precision_and_checkpointing_work(self, name, family):
        model, given = shaken(made(name, family), scale=0.1), batch(family)
        with torch.autocast("cpu", torch.bfloat16):
            rough = model(**given).loss
        exact = model(**given).loss
        torch.testing.assert_close(rough, exact, atol=0.05, rtol=0.01)
        exact.backward()
        expected = {key: tensor.grad.clone() for key, tensor in model.named_parameters()}
        model.zero_grad()
        model.gradient_checkpointing_enable()
        model(**given).loss.backward()
        torch.testing.assert_close({key: tensor.grad for key, tensor in model.named_parameters()}, expected)


class TestCheckpoints:
    @each_calculation
    def test_a_saved_model_comes_back_as_its_arm(self, name, tmp_path):
        model = shaken(made(name)).eval()
        model.save_pretrained(tmp_path)
        kind = {"attention_class": ARMS[name].attention}
        for loaded in (load(tmp_path, **kind), AutoModelForCausalLM.from_pretrained(tmp_path, **kind)):
            assert type(loaded.model.layers[0].self_attn) is ARMS[name].attention
            torch.testing.assert_close(loaded.state_dict(), model.state_dict(), atol=0, rtol=0)
            assert torch.equal(loaded(tokens()).logits, model(tokens()).logits)

    @pytest.mark.parametrize("name", ["exclusive", "gated"])
    def test_without_its_class_it_does_not_open(self, name, tmp_path):
        """Not even those that have no parameter of their own, which would pass for a standard model."""
        made(name).save_pretrained(tmp_path)
        for opened in (twofold.load, AutoModelForCausalLM.from_pretrained):
            with pytest.raises(ValueError, match=f"attention_class .*{name.capitalize()}"):
                opened(tmp_path)
        with pytest.raises(ValueError, match="attention_class"):
            load(tmp_path, attention_class=rivals.Tied)

    @pytest.mark.parametrize("family", FAMILIES)
    def test_every_family_takes_the_class(self, family, tmp_path):
        model = made("exclusive", family=family)
        parts = [module for module in model.modules() if isinstance(module, SelfAttention)]
        assert parts
        assert {type(part) for part in parts} == {rivals.Exclusive}
        model.save_pretrained(tmp_path)
        with pytest.raises(ValueError, match="attention_class"):
            load_as(tmp_path, type(model))
        assert load_as(tmp_path, type(model), attention_class=rivals.Exclusive).num_parameters() > 0


OWN = "from twofold.lab.rivals import Gated\n\n\nclass Mine(Gated):\n    pass\n"


class TestOwn:
    def test_what_is_of_this_package_has_no_digest(self):
        assert digest_of_own(ARMS.values()) is None

    def test_whatever_makes_an_arm_is_in_its_digest(self, tmp_path, monkeypatch):
        def digest(extra="", **told):
            (tmp_path / "mine_of_a_test.py").write_text(f"{OWN}{extra}")
            monkeypatch.delitem(sys.modules, "mine_of_a_test", raising=False)
            kind = import_module("mine_of_a_test").Mine
            return digest_of_own([Arm(**{"name": "mine", "source": "me", "attention": kind} | told), ARMS["gated"]])

        monkeypatch.syspath_prepend(tmp_path)
        made = [digest(), digest("# more"), digest(fields={"init": "aligned"}), digest(name="another")]
        assert len(set(made)) == 4
        assert digest() == made[0]
        assert digest(source="somebody else") == made[0]
        assert digest(can_match=False) != made[0]
        monkeypatch.delitem(sys.modules, "mine_of_a_test")

    def test_an_arm_of_this_package_s_parts_has_a_digest_as_well(self):
        parts = [rivals.Gated, rivals.Exclusive]
        found = {digest_of_own([Arm(name="gated", source="me", attention=part)]) for part in parts}
        assert len(found | {None}) == 3
        assert digest_of_own([Wide(name="wide", source="me")]) != digest_of_own([Arm(name="wide", source="me")])

    def test_a_base_beside_it_is_in_its_digest(self, tmp_path, monkeypatch):
        def digest(extra=""):
            (tmp_path / "base_of_a_test.py").write_text(f"{OWN}{extra}")
            monkeypatch.delitem(sys.modules, "base_of_a_test", raising=False)

            class Further(import_module("base_of_a_test").Mine):
                pass

            return digest_of_own([Arm(name="mine", source="me", attention=Further)])

        monkeypatch.syspath_prepend(tmp_path)
        assert digest() == digest() != digest("# more")
        monkeypatch.delitem(sys.modules, "base_of_a_test")

    def test_fields_are_what_a_configuration_can_say(self):
        with pytest.raises(ValueError, match=r"fields of an arm must be what JSON can say, .* of type object"):
            digest_of_own([Arm(name="mine", source="me", fields={"init": object()})])

    def test_what_stands_in_no_file_is_refused(self):
        told: dict = {"__name__": "nowhere"}
        exec(OWN, told)  # noqa: S102
        with pytest.raises(ValueError, match="arm 'mine' must stand in a file, so that runs can say what made them"):
            digest_of_own([Arm(name="mine", source="me", attention=told["Mine"])])

    def test_what_a_part_draws_when_it_is_made_hangs_on_the_seed(self):
        class Drawn(SelfAttention):
            def __init__(self, config, layer_idx, *, is_causal):
                super().__init__(config, layer_idx, is_causal=is_causal)
                self.drawn = nn.Parameter(torch.randn(4))

        def drawn(seed):
            arm = Arm(name="drawn", source="me", attention=Drawn)
            model = build(arm, standard(), DecoderForCausalLM, matched=True, seed=seed)
            return model.model.layers[0].self_attn.drawn

        first = drawn(3)
        torch.manual_seed(99)
        assert torch.equal(drawn(3), first)
        assert not torch.equal(drawn(4), first)


def test_the_arm_in_the_documentation_works(tmp_path):
    """docs/arms.md as it is printed, then trained, saved and loaded."""
    text = (DOCS / "arms.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    told: dict = {}
    exec(compile(code, "docs/arms.md", "exec"), told)  # noqa: S102
    model = told["model"]
    assert model.config.vocab_size > VOCABULARY
    ids = tokens()
    before = model(input_ids=ids, labels=ids).loss
    curve(model, 3, 1e-2, lambda step: {"input_ids": ids, "labels": ids})
    assert model(input_ids=ids, labels=ids).loss < before
    model.save_pretrained(tmp_path)
    loaded = load(tmp_path, attention_class=told["ScaledOwnValue"])
    assert torch.equal(loaded(ids).logits, model.eval()(ids).logits)
