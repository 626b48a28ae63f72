"""Every encoder-decoder's loss is torch's cross-entropy, smoothed or not, whatever it is divided by."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from twofold.models import (
    RecurrentConfig,
    RecurrentForConditionalGeneration,
    Seq2SeqConfig,
    Seq2SeqForConditionalGeneration,
)
from twofold.models.captioner import CaptionerConfig, CaptionerForConditionalGeneration

SIZES = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 1}


def transformer():
    return Seq2SeqForConditionalGeneration(Seq2SeqConfig(**SIZES, num_attention_heads=2))


def recurrent():
    return RecurrentForConditionalGeneration(RecurrentConfig(**SIZES))


def captioner():
    return CaptionerForConditionalGeneration(CaptionerConfig(decoder=Seq2SeqConfig(**SIZES, num_attention_heads=2)))


@pytest.mark.parametrize("make", [transformer, recurrent, captioner])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("count", [None, 20])
def test_the_loss_is_that_of_torch(make, smoothing, count):
    torch.manual_seed(0)
    model = make().eval()
    labels = torch.tensor([[3, 4, 5, 2], [6, 2, -100, -100], [2, -100, -100, -100]])
    given = {"pixel_values": torch.randn(3, 3, 16, 16)} if make is captioner else {"input_ids": labels.clamp(min=0)}
    found = model(**given, labels=labels, smoothing=smoothing, num_items_in_batch=count)
    expected = cross_entropy(found.logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing)
    # By hand as well: a share of the mean over the vocabulary, the rest of the label, at each of the 7 labels.
    taught = labels != -100
    sure = found.logits[taught].log_softmax(-1)
    by_hand = (1 - smoothing) * sure.gather(-1, labels[taught][:, None]).mean() + smoothing * sure.mean()
    torch.testing.assert_close(expected, -by_hand)
    torch.testing.assert_close(found.loss, expected if count is None else expected * 7 / count)


def test_nothing_is_smoothed_unless_asked_for():
    torch.manual_seed(0)
    model, labels = transformer().eval(), torch.tensor([[3, 4, 2]])
    plain = model(input_ids=labels, labels=labels).loss
    assert torch.equal(plain, model(input_ids=labels, labels=labels, smoothing=0.0).loss)
    assert not torch.equal(plain, model(input_ids=labels, labels=labels, smoothing=0.1).loss)
