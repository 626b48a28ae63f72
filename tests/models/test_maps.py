"""Self weights of a whole model are the diagonals of its attention maps."""

from functools import partial

import pytest
import torch
from torch import nn

from tests.models import test_decoder, test_encoder, test_seq2seq
from tests.models.test_decoder import tokens
from twofold import split_attention
from twofold.attention import Kind
from twofold.kernels import reference
from twofold.models import EncoderModel, self_weights


def diagonals(maps):
    return [weights.diagonal(dim1=-2, dim2=-1) for weights in maps]


@pytest.mark.parametrize("padded", [False, True])
@test_decoder.for_each
def test_a_decoders(kind, recipe, padded):
    model, ids = test_decoder.model(attention=kind, recipe=recipe), tokens()
    options = {"attention_mask": (torch.arange(9) >= 3).long().expand(2, 9)} if padded else {}
    expected = model(ids, output_attentions=True, use_cache=False, **options).attentions
    torch.testing.assert_close(self_weights(model, ids, **options), diagonals(expected), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", Kind)
def test_encoder_and_both_sides_of_an_encoder_decoder(kind):
    model = test_encoder.made(EncoderModel, attention=kind)
    expected = diagonals(model(tokens(), output_attentions=True).attentions)
    torch.testing.assert_close(self_weights(model, tokens()), expected, atol=1e-5, rtol=1e-4)
    model, answer = test_seq2seq.model(attention=kind), test_seq2seq.answer()
    maps = model(tokens(), decoder_input_ids=answer, output_attentions=True)
    expected = diagonals([*maps.encoder_attentions, *maps.decoder_attentions])
    found = self_weights(model, tokens(), decoder_input_ids=answer)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_nothing_is_left_behind():
    model = test_decoder.model()
    before = model(tokens()).logits
    self_weights(model, tokens())
    with pytest.raises(TypeError):
        self_weights(model, tokens(), tokens(), tokens(), tokens(), tokens(), tokens(), tokens(), tokens(), tokens())
    assert torch.equal(model(tokens()).logits, before)
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_a_model_that_was_compiled_before():
    model = test_decoder.model()
    expected = self_weights(model, tokens())
    model.compile(backend="eager")
    with torch.no_grad():
        model(tokens(), use_cache=False)
    torch.testing.assert_close(self_weights(model, tokens()), expected)


def test_a_foreign_model_is_refused():
    with pytest.raises(ValueError, match="must have split self-attention layers of this package, got Linear"):
        self_weights(nn.Linear(2, 2), torch.zeros(1, 2))


def test_maps_are_of_the_attention_that_runs_or_of_none():
    """A backend computes the same weights; another normaliser has others, which nobody would show."""
    model, ids = test_decoder.model(), tokens()
    expected = self_weights(model, ids)
    for layer in model.model.layers:
        layer.self_attn.attend = partial(split_attention, backend="reference")
    torch.testing.assert_close(self_weights(model, ids), expected, atol=1e-6, rtol=1e-5)
    for other in (partial(reference.attend, normaliser="sparsemax"), partial(split_attention, softcap=0.5)):
        model.model.layers[1].self_attn.attend = other
        for look in (lambda: self_weights(model, ids), lambda: model(ids, output_attentions=True)):
            with pytest.raises(ValueError, match=r"attend must be split_attention, .*, for its weights to be shown"):
                look()
        assert model(ids).logits.isfinite().all()
