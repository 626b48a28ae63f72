"""The encoder and the heads, every kind and recipe: padding is nothing, and every head learns a small task."""

import pytest
import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from tests.models.test_decoder import VOCABULARY, for_each, tokens
from twofold.attention import Kind
from twofold.models import (
    DecoderConfig,
    EncoderConfig,
    EncoderForGoal,
    EncoderForMaskedLM,
    EncoderForSentenceEmbedding,
    EncoderModel,
    GoalConfig,
    heads,
)
from twofold.models.bag import Bag
from twofold.models.configs import RECIPES
from twofold.models.heads import pooled

AUTOS = {
    "masked": AutoModelForMaskedLM,
    "sequence": AutoModelForSequenceClassification,
    "token": AutoModelForTokenClassification,
    "span": AutoModelForQuestionAnswering,
}


def config(cls=EncoderConfig, **changes):
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    return cls(**{**sizes, "num_key_value_heads": 2, "init": "independent", **changes})


def made(cls, **changes):
    torch.manual_seed(0)
    if hasattr(cls, "from_config"):
        model = cls.from_config(config(**changes))
    else:
        model = cls(config(cls.config_class, **changes))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


@for_each
def test_every_token_sees_every_other(kind, recipe):
    model, ids = made(EncoderModel, attention=kind, recipe=recipe), tokens(B=1, T=6)
    weights = model(ids, output_attentions=True).attentions
    assert len(weights) == 2
    assert (weights[0] > 0).all()
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(1, 4, 6))
    other = ids.clone()
    other[:, -1] = 3 if ids[0, -1] != 3 else 4
    changed = (model(other).last_hidden_state - model(ids).last_hidden_state).abs().amax(-1)
    assert (changed > 1e-6).all()


@for_each
def test_a_saved_model_is_the_same_model(kind, recipe, tmp_path):
    model = made(EncoderForMaskedLM, attention=kind, recipe=recipe)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    assert torch.equal(loaded(tokens()).logits, model(tokens()).logits)


@pytest.mark.parametrize("family", [EncoderConfig, DecoderConfig])
@pytest.mark.parametrize("head", ["sequence", "token", "span"])
def test_a_saved_head_is_the_same_head(head, family, tmp_path):
    model = AUTOS[head].from_config(config(family, num_labels=3)).eval()
    model.save_pretrained(tmp_path)
    loaded = AUTOS[head].from_pretrained(tmp_path).eval()
    assert type(loaded) is type(model)
    name = "end_logits" if head == "span" else "logits"
    assert torch.equal(loaded(tokens())[name], model(tokens())[name])


@pytest.mark.parametrize("by_tokens", [False, True])
@pytest.mark.parametrize("cls", [EncoderForGoal, EncoderForSentenceEmbedding])
def test_a_saved_head_of_our_own_is_the_same_head(cls, by_tokens, tmp_path):
    own = {"num_slot_labels": 4, "goal_by_tokens": by_tokens}
    model = made(cls, num_labels=3, **own if cls is EncoderForGoal else {"similarity_temperature": 0.5})
    model.save_pretrained(tmp_path)
    names = ("goal_logits", "slot_logits") if cls is EncoderForGoal else ("pooler_output",)
    found, expected = (one(tokens()) for one in (cls.from_pretrained(tmp_path), model))
    for name in names:
        assert torch.equal(found[name], expected[name])


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("kind", ["split_key", "split_value", "split_kv"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_copied_own_weights_are_the_standard_model(kind, recipe, dtype, tolerance):
    split = EncoderModel(config(attention=kind, recipe=recipe, init="copy")).to(dtype).eval()
    standard = EncoderModel(config(attention="standard", recipe=recipe)).to(dtype).eval()
    standard.load_state_dict(split.state_dict(), strict=False)
    found, expected = split(tokens()).last_hidden_state, standard(tokens()).last_hidden_state
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("family", [EncoderConfig, DecoderConfig])
@pytest.mark.parametrize("head", ["sequence", "token", "span"])
def test_heads_are_neutral_to_padding_and_learn(head, family):
    torch.manual_seed(0)
    model = AUTOS[head].from_config(config(family, num_labels=3, init="copy"))
    ids = tokens(B=6, T=7)
    labels = {
        "sequence": {"labels": ids[:, -1] % 3},
        "token": {"labels": ids % 3},
        "span": {"start_positions": torch.arange(6), "end_positions": torch.arange(6)},
    }[head]
    model.eval()
    padded = torch.cat([ids, torch.zeros(6, 2, dtype=torch.long)], dim=1)
    mask = (torch.arange(9) < 7).long().expand(6, 9)
    plain, wide = model(ids), model(padded, attention_mask=mask)
    name = "start_logits" if head == "span" else "logits"
    found = wide[name] if head == "sequence" else wide[name][:, :7]
    torch.testing.assert_close(found, plain[name], atol=1e-5, rtol=1e-5)
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(40):
        optimiser.zero_grad()
        loss = model(ids, **labels).loss
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


@pytest.mark.parametrize("recipe", RECIPES)
def test_cues_are_added_to_a_tokens_vector_and_padding_adds_nothing(recipe):
    model, ids = made(EncoderModel, recipe=recipe).eval(), tokens(2, 5)
    # As it starts, and as it stays: padding has no gradient.
    torch.nn.init.zeros_(model.embedding.tokens.weight[model.config.pad_token_id])
    plain = model(ids).last_hidden_state
    none = torch.zeros(2, 5, 3, dtype=torch.long)
    torch.testing.assert_close(model(ids, cue_ids=none).last_hidden_state, plain)
    cues = none.clone()
    cues[0, 2, :2] = torch.tensor([7, 9])
    vectors = model.embedding.tokens(ids)
    vectors[0, 2] += model.embedding.tokens.weight[[7, 9]].sum(0)
    told = model(ids, cue_ids=cues).last_hidden_state
    torch.testing.assert_close(told, model(inputs_embeds=vectors).last_hidden_state)
    torch.testing.assert_close(model(inputs_embeds=model.embedding.tokens(ids), cue_ids=cues).last_hidden_state, told)
    assert not torch.allclose(told[0], plain[0])


def test_masked_tokens_are_learned():
    torch.manual_seed(0)
    model, ids = EncoderForMaskedLM(config(init="copy")), tokens(B=4, T=8)
    hidden = ids.clone()
    hidden[:, 3] = 1
    labels = torch.where(hidden == ids, -100, ids)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        model(hidden, labels=labels).loss.backward()
        optimiser.step()
    assert torch.equal(model.eval()(hidden).logits[:, 3].argmax(-1), ids[:, 3])


class TestGoal:
    def model(self, **changes):
        torch.manual_seed(0)
        return EncoderForGoal(config(GoalConfig, num_labels=4, num_slot_labels=3, init="copy", **changes))

    def test_goal_and_slots_are_learned_together(self):
        model, ids = self.model(), tokens(B=6, T=7)
        labels, slot_labels = ids[:, 0] % 4, ids % 3
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(60):
            optimiser.zero_grad()
            model(ids, labels=labels, slot_labels=slot_labels).loss.backward()
            optimiser.step()
        found = model.eval()(ids)
        assert torch.equal(found.goal_logits.argmax(-1), labels)
        assert torch.equal(found.slot_logits.argmax(-1), slot_labels)

    def test_labels_may_be_missing(self):
        model, ids = self.model(), tokens()
        nothing = torch.full_like(ids, -100)
        assert model(ids).loss is None
        assert model(ids, labels=torch.tensor([-100, -100]), slot_labels=nothing).loss is None
        assert model(ids, labels=torch.tensor([-100, 1]), slot_labels=nothing).loss.isfinite()

    def test_slots_must_be_counted(self):
        with pytest.raises(ValueError, match="num_slot_labels must be at least 1"):
            EncoderForGoal(config(GoalConfig, num_labels=4))

    def test_the_configuration_must_be_that_of_goals(self):
        with pytest.raises(ValueError, match="config must be a GoalConfig, got EncoderConfig"):
            EncoderForGoal(config(num_labels=4, num_slot_labels=3))

    @pytest.mark.parametrize("recipe", RECIPES)
    @pytest.mark.parametrize("kind", ["standard", "split_kv"])
    def test_the_bag_says_nothing_at_first(self, kind, recipe):
        plain, double = (self.model(attention=kind, recipe=recipe, goal_by_tokens=given) for given in (False, True))
        assert double.load_state_dict(plain.state_dict(), strict=False).missing_keys == ["bag.weight"]
        ids, labels = tokens(), torch.tensor([1, 3])
        before, after = plain.eval()(ids, labels=labels), double.eval()(ids, labels=labels)
        assert not double.bag.weight.any()
        assert torch.equal(after.slot_logits, before.slot_logits)
        torch.testing.assert_close(after.goal_logits.softmax(-1), before.goal_logits.softmax(-1))
        # Its own loss is that of a guess.
        torch.testing.assert_close(after.loss - before.loss, torch.tensor(4.0).log())

    def test_both_judges_of_a_goal_are_taught_apart(self):
        double = made(EncoderForGoal, num_labels=4, num_slot_labels=3, goal_by_tokens=True)
        ids, labels = tokens(), torch.tensor([1, 3])
        double(ids, labels=labels).loss.backward()
        found = double.bag.weight.grad.clone()
        torch.nn.functional.cross_entropy(double.bag(ids), labels).backward()
        torch.testing.assert_close(double.bag.weight.grad, 2 * found)
        assert found[ids.unique()].any(-1).all()
        assert double.goal.weight.grad.any()

    @pytest.mark.parametrize("side", ["left", "right"])
    @pytest.mark.parametrize("length", [1, 5])
    def test_padding_says_nothing_to_either_judge(self, side, length):
        double = made(EncoderForGoal, num_labels=4, num_slot_labels=3, goal_by_tokens=True)
        double.bag.weight.data[0] = 0
        ids, cues = tokens(T=length), tokens(T=3 * length).reshape(2, length, 3)
        # What stands under the mask must not matter, so it is no padding here.
        more = torch.full((2, 3), 7)
        parts, seen = [ids, more], [torch.ones_like(ids), torch.zeros_like(more)]
        more_cues = [cues, more[..., None].expand(2, 3, 3)]
        order = slice(None, None, -1) if side == "left" else slice(None)
        wide = {
            "input_ids": torch.cat(parts[order], 1),
            "attention_mask": torch.cat(seen[order], 1),
            "cue_ids": torch.cat(more_cues[order], 1),
        }
        found, expected = double(**wide).goal_logits, double(ids, cue_ids=cues).goal_logits
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)

    def test_a_bag_needs_tokens_and_padding(self):
        double = self.model(goal_by_tokens=True)
        with pytest.raises(ValueError, match="goal_by_tokens needs input_ids, got None"):
            double(inputs_embeds=torch.zeros(1, 2, 32))
        with pytest.raises(ValueError, match="goal_by_tokens needs a pad_token_id, got None"):
            self.model(goal_by_tokens=True, pad_token_id=None)


def test_a_bag_adds_what_its_tokens_say_in_any_order():
    bag = Bag(9, 3, padding_idx=0)
    assert torch.equal(bag(torch.zeros(2, 4, dtype=torch.long)), torch.zeros(2, 3))
    assert torch.equal(bag(torch.tensor([[5]])), bag.weight[[5]])
    torch.testing.assert_close(bag(torch.tensor([[2, 0, 5, 2]])), bag(torch.tensor([[5, 2, 2, 0]])))
    torch.testing.assert_close(bag(torch.tensor([[2, 5, 2]]))[0], 2 * bag.weight[2] + bag.weight[5])


@pytest.mark.parametrize("how", ["mean", "first", "last"])
def test_one_vector_a_sentence(how):
    x = torch.randn(2, 5, 3)
    mask = torch.tensor([[0, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
    expected = {"mean": [x[0, 1:4].mean(0), x[1].mean(0)], "first": [x[0, 1], x[1, 0]], "last": [x[0, 3], x[1, 4]]}
    torch.testing.assert_close(pooled(x, mask, how), torch.stack(expected[how]))
    torch.testing.assert_close(pooled(x[1:], None, how)[0], expected[how][1])


@pytest.mark.parametrize("masked", [False, True])
def test_a_long_text_in_half_precision_has_a_mean(masked):
    """Its sum has no place there."""
    x = torch.full((1, 8192, 1), 20.0, dtype=torch.float16)
    mask = (torch.arange(8192) < 8000).long()[None] if masked else None
    found = pooled(x, mask, "mean")
    assert (found.dtype, found.item()) == (torch.float16, 20.0)


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_sentence_embeddings_have_length_one(pooling):
    vectors = made(EncoderForSentenceEmbedding, pooling=pooling)(tokens()).pooler_output
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(2))


@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_sentence_embeddings_learn_which_document_is_theirs(temperature):
    model = made(EncoderForSentenceEmbedding, similarity_temperature=temperature)
    sentences, documents = tokens(), tokens(B=3, T=7)
    given = {"document_input_ids": documents, "labels": torch.tensor([2, 0])}
    nearness = model(sentences).pooler_output @ model(documents).pooler_output.mT / temperature
    expected = torch.nn.functional.cross_entropy(nearness, given["labels"])
    torch.testing.assert_close(model(sentences, **given).loss, expected)
    # What is right as well is as if it were not there.
    also = torch.tensor([[False, True, False], [False, True, False]])
    expected = torch.nn.functional.cross_entropy(nearness[:, [0, 2]], torch.tensor([1, 0]))
    torch.testing.assert_close(model(sentences, **given, also_right=also).loss, expected)
    # A whole table of what is right has a sentence's own document in it.
    also[[0, 1], given["labels"]] = True
    assert model(sentences, **given | {"labels": torch.tensor([2, -100])}, also_right=also).loss.isfinite()
    torch.testing.assert_close(model(sentences, **given, also_right=also).loss, expected)
    assert model(sentences).loss is None


@pytest.mark.parametrize("side", ["left", "right"])
def test_sentence_embeddings_are_learned_in_groups_of_like_lengths(side, monkeypatch):
    """The same loss and gradients, whatever stands together; a text without a token is one too."""
    model = made(EncoderForSentenceEmbedding).double()
    given = {"labels": torch.arange(20).flip(0)}
    for name in ("", "document_"):
        given[f"{name}input_ids"] = tokens(B=20, T=30)
        mask = torch.arange(30) < torch.randint(0, 31, (20, 1))
        given[f"{name}attention_mask"] = (mask.flip(1) if side == "left" else mask).long()
    widths = []
    model.model.register_forward_pre_hook(
        lambda module, args, options: widths.append(options["input_ids"].shape[1]), with_kwargs=True
    )

    def learned(together):
        monkeypatch.setattr(heads, "TOGETHER", together)
        loss = model(**given).loss
        return loss, torch.autograd.grad(loss, list(model.parameters()))

    torch.testing.assert_close(learned(3), learned(20))
    assert len(widths) == 2 * 7 + 2
    assert (sum(widths[:7]) < 0.75 * 7 * 30) == (side == "right")


@pytest.mark.parametrize("kind", Kind)
def test_learned_positions_end_somewhere(kind):
    model = made(EncoderModel, attention=kind, recipe="classic", positions="learned", max_position_embeddings=9)
    assert model(tokens(T=9)).last_hidden_state.shape == (2, 9, 32)
    with pytest.raises(ValueError, match="positions must lie below max_position_embeddings 9, got 9"):
        model(tokens(T=10))
    with pytest.raises(ValueError, match="position_ids must be at least 0 for learned positions, got -1"):
        model(tokens(T=9), position_ids=torch.arange(9)[None] - 1)


def test_cues_of_padding_add_nothing_once_its_vector_has_learned():
    model, ids = made(EncoderForMaskedLM), tokens()
    with torch.no_grad():
        model.model.embedding.tokens.weight[model.config.pad_token_id] = 1.0
    nothing = torch.full((*ids.shape, 2), model.config.pad_token_id)
    torch.testing.assert_close(model(ids, cue_ids=nothing).logits, model(ids).logits, atol=0, rtol=0)


@pytest.mark.parametrize("cls", [AutoModelForSequenceClassification, AutoModelForTokenClassification, EncoderForGoal])
def test_no_labels_are_too_few(cls):
    with pytest.raises(ValueError, match="num_labels must be at least 1, got 0"):
        made(cls, num_labels=0, **{"num_slot_labels": 2} if cls is EncoderForGoal else {})
