"""What users of torch and transformers do to any model: export, adapt, quantise, resize, draft with some layers."""

import threading
from functools import partial

import pytest
import torch
from torch import nn
from torch.export import Dim, export
from torch.nn.utils import parametrize
from transformers import AutoModelForSequenceClassification

from tests.models import test_seq2seq
from tests.models.test_captioner import WORDS, built, images
from tests.models.test_decoder import VOCABULARY, model, tokens
from tests.models.test_encoder import made
from tests.models.test_every_family import FAMILIES
from twofold.models import (
    DecoderConfig,
    EncoderForGoal,
    EncoderForSentenceEmbedding,
    EncoderModel,
    RecurrentConfig,
    RecurrentForCausalLM,
    RecurrentForConditionalGeneration,
)
from twofold.models.heads import pooled
from twofold.models.maps import self_weights

BATCH, LENGTH, ANSWER = Dim("batch", min=1, max=64), Dim("length", min=2, max=1024), Dim("answer", min=2, max=500)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("tokens", [256, 301, 5000])
def test_long_texts_are_pooled_where_they_end(tokens, dtype):
    """Half precision cannot count so far."""
    number = torch.arange(tokens)
    x = torch.stack([number // 128, number % 128], -1).to(dtype).repeat(2, 1, 1)
    mask = torch.ones(2, tokens, dtype=torch.long)
    mask[1, -2:] = 0
    assert pooled(x, mask, "last").tolist() == x[[0, 1], [tokens - 1, tokens - 3]].tolist()
    assert pooled(x, mask.flip(1), "first").tolist() == x[[0, 1], [0, 2]].tolist()
    assert pooled(x, None, "last").tolist() == x[:, -1].tolist()


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_the_last_token_is_no_padding_even_without_a_mask(kind):
    config = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_labels": 3}
    kinds = {"transformer": DecoderConfig(**config, num_attention_heads=4), "recurrent": RecurrentConfig(**config)}
    made = AutoModelForSequenceClassification.from_config(kinds[kind]).eval()
    ids = tokens()
    ids[0, 5:] = made.config.pad_token_id
    torch.testing.assert_close(made(ids).logits[0], made(ids[:1, :5]).logits[0])
    torch.testing.assert_close(made(ids).logits[1], made(ids[1:]).logits[0])


class Wrapped(nn.Module):
    def __init__(self, model, **options):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, given):
        out = self.model(**given, **self.options)
        return out.pooler_output if "pooler_output" in out else out.logits


def check_exported(model, given, sizes, **options):
    """What is exported with the first input answers as the model does for two others."""
    whole = Wrapped(model, **options)
    program = export(whole, (given(0),), dynamic_shapes=(sizes,)).module()
    for number in (1, 2):
        new = given(number)
        torch.testing.assert_close(program(new), whole(new), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("copies", [False, True])
def test_an_exported_answer_may_be_longer_than_its_source(copies):
    made = test_seq2seq.model(attention="split_kv", copies=copies, num_hidden_layers=1)

    def given(number):
        B, T, answer = [(2, 9, 5), (1, 4, 30), (3, 40, 2)][number]
        ids = tokens(B=B, T=T)
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "decoder_input_ids": tokens(B=B, T=answer),
        }

    sizes = {name: {0: BATCH, 1: ANSWER if "decoder" in name else LENGTH} for name in given(0)}
    check_exported(made, given, sizes, use_cache=False)


def test_a_captioner_exports_for_every_length_of_its_answer():
    def given(number):
        B, T = [(2, 5), (1, 30), (3, 2)][number]
        return {"pixel_values": images(B), "decoder_input_ids": torch.randint(3, len(WORDS), (B, T))}

    check_exported(
        built(), given, {"pixel_values": {0: BATCH}, "decoder_input_ids": {0: BATCH, 1: ANSWER}}, use_cache=False
    )


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_every_pooling_exports_with_a_dynamic_batch(pooling):
    def given(number):
        ids = tokens(*[(2, 9), (1, 4), (5, 30)][number])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    sizes = {name: {0: BATCH, 1: LENGTH} for name in given(0)}
    check_exported(made(EncoderForSentenceEmbedding, pooling=pooling, num_hidden_layers=1), given, sizes)


def test_generation_goes_on_from_what_the_encoder_gave():
    made = test_seq2seq.model(attention="split_kv")
    ids = tokens()
    expected = made.generate(ids, max_new_tokens=4, do_sample=False)
    encoded = made.get_encoder()(ids)
    assert torch.equal(made.generate(encoder_outputs=encoded, max_new_tokens=4, do_sample=False), expected)


def recurrent_seq2seq(**changes):
    return RecurrentForConditionalGeneration(
        RecurrentConfig(vocab_size=VOCABULARY, hidden_size=32, is_encoder_decoder=True, **changes)
    )


@pytest.mark.parametrize("family", [test_seq2seq.model, recurrent_seq2seq])
@pytest.mark.parametrize("tied", [False, True])
def test_both_sides_keep_their_tables_when_those_grow(family, tied):
    made = family(tie_word_embeddings=tied).eval()
    given = {"input_ids": tokens(), "decoder_input_ids": tokens(T=4)}
    with torch.no_grad():
        before = made(**given).logits
        made.resize_token_embeddings(VOCABULARY + 5)
        torch.testing.assert_close(made(**given).logits[..., :VOCABULARY], before)
        made(input_ids=tokens() + 5, decoder_input_ids=tokens() + 5)


def test_a_goals_second_judge_grows_with_the_vocabulary(tmp_path):
    goal = made(EncoderForGoal, num_slot_labels=3, num_labels=4, goal_by_tokens=True)
    nn.init.normal_(goal.bag.weight)
    before = goal(tokens()).goal_logits
    goal.resize_token_embeddings(VOCABULARY + 5)
    torch.testing.assert_close(goal(tokens()).goal_logits, before)
    assert goal.bag.weight[VOCABULARY:].eq(0).all()
    goal.save_pretrained(tmp_path)
    loaded = EncoderForGoal.from_pretrained(tmp_path)
    new = torch.full((1, 3), VOCABULARY + 4)
    torch.testing.assert_close(loaded(new).goal_logits, goal(new).goal_logits)
    goal.resize_token_embeddings(VOCABULARY - 2)
    assert goal.bag.num_embeddings == VOCABULARY - 2


class Adapter(nn.Module):
    """By hand: no weight, no bias, no in_features."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.more = layer, nn.Linear(layer.in_features, layer.out_features)

    def forward(self, x):
        return self.layer(x) + self.more(x)


@pytest.mark.parametrize("name", ["query", "key", "value", "output"])
@pytest.mark.parametrize("part", ["self_attn", "cross_attn"])
def test_any_projection_may_be_an_adapter(part, name):
    made = test_seq2seq.model(attention="split_kv")
    attention = getattr(made.model.decoder.layers[0], part)
    given = {"input_ids": tokens(), "decoder_input_ids": tokens(T=4)}
    before = made(**given).logits
    adapter = Adapter(getattr(attention, name))
    setattr(attention, name, adapter)
    for parameter in adapter.more.parameters():
        nn.init.zeros_(parameter)
    torch.testing.assert_close(made(**given).logits, before)
    nn.init.normal_(adapter.more.weight)
    assert (made(**given).logits - before).abs().max() > 1e-3


def test_a_parametrized_weight_is_computed_once():
    made, calls = model(), []

    class Counted(nn.Module):
        def forward(self, weight):
            calls.append(1)
            return weight

    parametrize.register_parametrization(made.model.layers[0].self_attn.query, "weight", Counted())
    calls.clear()
    made(tokens())
    assert len(calls) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("family", ["decoder", "seq2seq", "lstm", "gru"])
def test_quantised_models_still_answer(family):
    made = {
        **{name: partial(FAMILIES[name], attention="split_kv") for name in ("decoder", "seq2seq")},
        **{
            name: partial(RecurrentForCausalLM, RecurrentConfig(vocab_size=VOCABULARY, hidden_size=32, cell=name))
            for name in ("lstm", "gru")
        },
    }[family]().eval()
    quantised = torch.ao.quantization.quantize_dynamic(made, {nn.Linear, nn.LSTM, nn.GRU})
    assert not any(type(module) is nn.Linear for module in quantised.modules())
    given = {"input_ids": tokens()} | ({"decoder_input_ids": tokens(T=4)} if family == "seq2seq" else {})
    with torch.no_grad():
        found, expected = (one(**given).logits.flatten() for one in (quantised, made))
        assert torch.cosine_similarity(found, expected, dim=0) > 0.99
        # Step by step, over a cache or a state.
        length = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False}
        assert quantised.generate(tokens(), **length).shape == made.generate(tokens(), **length).shape


def test_a_model_may_draft_with_its_first_layers():
    made = model(num_hidden_layers=3).eval()
    expected = made.generate(tokens(B=1), max_new_tokens=5, do_sample=False)
    found = made.generate(tokens(B=1), max_new_tokens=5, do_sample=False, assistant_early_exit=1)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("positions", ["rotary", "learned", "sinusoidal"])
def test_shapes_are_told_without_weights(positions):
    encoder = made(EncoderModel, positions=positions).to("meta")
    assert encoder(tokens().to("meta")).last_hidden_state.shape == (2, 9, 32)


def test_autocast_leaves_float64_alone():
    exact = model().double()
    expected = exact(tokens()).logits
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(exact(tokens()).logits, expected)


def test_two_threads_look_at_one_model():
    decoder = model()
    expected = {T: self_weights(decoder, tokens(T=T)) for T in (5, 8)}
    wrong = []

    def look(T):
        for _ in range(10):
            found = self_weights(decoder, tokens(T=T))
            decoder(tokens(T=T))
            if len(found) != 2 or not all(map(torch.equal, found, expected[T])):
                wrong.append(T)

    threads = [threading.Thread(target=look, args=(T,)) for T in (5, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"intermediate_size": -3}, "intermediate_size must be at least 1, got -3"),
        ({"hidden_act": "nope"}, "hidden_act must be one of swiglu, geglu, .*, got 'nope'"),
        ({"pad_token_id": 99}, f"pad_token_id must be a token of vocab_size {VOCABULARY}, got 99"),
        ({"hidden_dropout": float("nan")}, "hidden_dropout must be from 0 to 1, got nan"),
        ({"norm_eps": -1.0}, "norm_eps must be a finite number of at least 0, got -1.0"),
    ],
)
def test_what_no_model_can_be_made_of_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        model(**changes)
