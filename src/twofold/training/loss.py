"""The loss of a batch that is computed in parts: on several processes, in several pieces.

A model's loss is a mean over labels that are not -100 (for a causal language model without the first of each row, which
is never predicted), or else over examples. Each part is weighted by its count, so the parts add up to the mean over the
whole batch. That is exact where a loss is one such mean. A loss that is a sum of means over different things (a goal
and its slots) is weighted by the first. A loss in which examples meet each other (in-batch negatives) sees those of its
own part only. With parts of equal counts the first kind is exact too, the second never is.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from twofold.training.packing import NO_LABEL

Batch = Mapping[str, Any]


def count(batch: Batch, model: PreTrainedModel) -> int:
    """What the mean over this batch would be divided by."""
    labels = batch.get("labels")
    if not isinstance(labels, Tensor) or labels.is_floating_point():
        return len(next(value for value in batch.values() if isinstance(value, Tensor)))
    if labels.ndim > 1 and model.loss_type == "ForCausalLM":
        labels = labels[..., 1:]
    return int((labels != NO_LABEL).sum())


def part_of_loss(shared: nn.Module, batch: Batch, share: float, options: Mapping[str, Any]) -> Tensor:
    """The loss of one part of a batch, times its share of the whole batch."""
    loss = shared(**batch, **options).loss
    if loss is None:
        raise ValueError(f"train must have labels: the model gives no loss for a batch of {', '.join(batch)}")
    # Nothing to count on makes a mean of 0 / 0. Its gradient is 0, and so is its part.
    return loss.float() * share if share else loss.float().nan_to_num() * 0.0
