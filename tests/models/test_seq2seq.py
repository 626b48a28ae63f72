"""The encoder-decoder: generation by a cache is the full pass, and an answer is learned."""

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, EncoderDecoderCache

from tests.models.test_decoder import VOCABULARY, tokens
from twofold.attention import Kind
from twofold.models import Seq2SeqConfig, Seq2SeqForConditionalGeneration

RECIPES = ("modern", "classic")


def config(**changes):
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    return Seq2SeqConfig(**{**sizes, "num_key_value_heads": 2, "init": "independent", **changes})


def model(**changes):
    torch.manual_seed(0)
    made = Seq2SeqForConditionalGeneration(config(**changes)).eval()
    for parameter in made.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return made


def answer():
    return torch.randint(3, VOCABULARY, (2, 6), generator=torch.Generator().manual_seed(2))


KINDS_AND_RECIPES = [*((kind, "modern") for kind in Kind), ("split_kv", "classic")]
for_each = pytest.mark.parametrize(("kind", "recipe"), KINDS_AND_RECIPES)


@for_each
def test_prefill_and_steps_are_the_full_pass(kind, recipe):
    made, ids, out = model(attention=kind, recipe=recipe), tokens(), answer()
    with torch.no_grad():
        full = made(ids, decoder_input_ids=out, use_cache=False).logits
        first = made(ids, decoder_input_ids=out[:, :3], use_cache=True)
        past, found = first.past_key_values, [first.logits]
        assert isinstance(past, EncoderDecoderCache)
        for position in range(3, 6):
            step = made(
                encoder_outputs=(first.encoder_last_hidden_state,),
                decoder_input_ids=out[:, position : position + 1],
                past_key_values=past,
            )
            found.append(step.logits)
    torch.testing.assert_close(torch.cat(found, dim=1), full, atol=2e-4, rtol=0)


@for_each
def test_the_answer_does_not_see_its_future_and_the_question_no_padding(kind, recipe):
    made, ids, out = model(attention=kind, recipe=recipe), tokens(), answer()
    other = out.clone()
    other[:, 4:] = 3
    plain = made(ids, decoder_input_ids=out).logits
    torch.testing.assert_close(made(ids, decoder_input_ids=other).logits[:, :4], plain[:, :4], atol=1e-6, rtol=0)
    padded = torch.cat([ids, torch.zeros(2, 3, dtype=torch.long)], dim=1)
    mask = (padded != 0).long()
    found = made(padded, attention_mask=mask, decoder_input_ids=out).logits
    torch.testing.assert_close(found, plain, atol=1e-5, rtol=1e-5)


@for_each
@pytest.mark.parametrize("beams", [1, 3])
def test_generation_is_the_same_with_a_cache_and_without(kind, recipe, beams):
    made, ids = model(attention=kind, recipe=recipe), tokens()
    options = {"max_new_tokens": 6, "num_beams": beams, "do_sample": False}
    expected = made.generate(ids, use_cache=False, **options)
    assert (expected[:, 0] == 1).all()
    assert torch.equal(made.generate(ids, **options), expected)
    assert torch.equal(made.generate(ids, cache_implementation="static", **options), expected)


@for_each
def test_a_saved_model_is_the_same_model(kind, recipe, tmp_path):
    made = model(attention=kind, recipe=recipe)
    made.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    options = {"decoder_input_ids": answer()}
    assert torch.equal(loaded(tokens(), **options).logits, made(tokens(), **options).logits)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("kind", ["split_key", "split_value", "split_kv"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_copied_own_weights_are_the_standard_model(kind, recipe, dtype, tolerance):
    split = Seq2SeqForConditionalGeneration(config(attention=kind, recipe=recipe, init="copy")).to(dtype).eval()
    standard = Seq2SeqForConditionalGeneration(config(attention="standard", recipe=recipe)).to(dtype).eval()
    standard.load_state_dict(split.state_dict(), strict=False)
    options = {"decoder_input_ids": answer()}
    found, expected = split(tokens(), **options).logits, standard(tokens(), **options).logits
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


@for_each
def test_maps_of_both_sides_and_across(kind, recipe):
    made = model(attention=kind, recipe=recipe)
    found = made(tokens(), decoder_input_ids=answer(), output_attentions=True)
    for weights, shape in (
        (found.encoder_attentions, (2, 4, 9, 9)),
        (found.decoder_attentions, (2, 4, 6, 6)),
        (found.cross_attentions, (2, 4, 6, 9)),
    ):
        assert len(weights) == 2
        assert tuple(weights[0].shape) == shape
        torch.testing.assert_close(weights[1].sum(-1), torch.ones(shape[:3]))


@pytest.mark.parametrize("recipe", RECIPES)
def test_learns_to_answer(recipe):
    torch.manual_seed(0)
    made = Seq2SeqForConditionalGeneration(config(recipe=recipe, init="copy")).train()
    ids = tokens(B=4, T=5)
    labels = torch.cat([ids.flip(1), torch.full((4, 1), 2)], dim=1)
    optimiser = torch.optim.AdamW(made.parameters(), lr=3e-3)
    for _ in range(150):
        optimiser.zero_grad()
        made(ids, labels=labels).loss.backward()
        optimiser.step()
    found = made.eval().generate(ids, max_new_tokens=6, do_sample=False)
    assert torch.equal(found[:, 1:], labels)


def test_labels_are_read_shifted_by_one():
    made = model()
    labels = torch.tensor([[5, 6, 2, -100]])
    assert made.prepare_decoder_input_ids_from_labels(labels).tolist() == [[1, 5, 6, 2]]
    assert made.prepare_decoder_input_ids_from_labels(torch.tensor([[5, -100, -100]])).tolist() == [[1, 5, 0]]


def test_a_bare_layer_looks_at_nothing_else():
    with pytest.raises(Exception, match="a bare layer has no place for cross-attention"):
        config(recipe="bare")


@pytest.mark.parametrize("token", [99, -1])
def test_an_answer_starts_with_a_token_of_the_vocabulary(token):
    with pytest.raises(ValueError, match=f"decoder_start_token_id must be a token of vocab_size 50, got {token}"):
        config(decoder_start_token_id=token)


def test_the_base_model_of_2017_has_63_million_parameters():
    made = Seq2SeqConfig(
        vocab_size=37_000, hidden_size=512, num_hidden_layers=6, num_attention_heads=8, attention="standard",
        recipe="classic",
    )  # fmt: skip
    with torch.device("meta"):
        count = Seq2SeqForConditionalGeneration(made).num_parameters()
    assert round(count / 1e6, 1) == 63.1


def test_a_decoder_without_anything_to_read_is_told_so():
    with pytest.raises(ValueError, match="give decoder_input_ids, decoder_inputs_embeds or labels"):
        model()(tokens())
