"""Which examples a step sees: a pure function of settings and epoch, so a resumed run jumps to any batch at once."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twofold.training.settings import Settings
from twofold.training.streaming import Numbered

# Batches whose examples are sorted by length together: many make batches even, few keep them random.
POOL = 50
# Steps of an epoch where the data has no end.
STREAM_STEPS = 1000


def lengths_of(settings: Settings, train: Sequence[Mapping[str, Any]] | Numbered) -> list[int] | None:
    """Tokens of every example, where batches are made by them. Rows of a stream are all of one length."""
    if isinstance(train, Numbered) or not (settings.buckets or settings.batch_tokens is not None):
        return None
    return [len(features["input_ids"]) for features in train]


def epoch_batches(
    settings: Settings, examples: int | None, lengths: Sequence[int] | None, epoch: int
) -> list[list[int]]:
    """The batches of an epoch as indices, whatever the number of processes. Lengths are needed only to sort by them.

    Every example comes exactly once. Only the last batch of fixed size, before they are shuffled, may be smaller.
    A stream has no number of examples: its rows are counted on from epoch to epoch.
    """
    if examples is None:
        steps, size = range(epoch * STREAM_STEPS, (epoch + 1) * STREAM_STEPS), settings.batch_size
        return [list(range(step * size, (step + 1) * size)) for step in steps]
    draw = np.random.default_rng([settings.seed, epoch])
    order = draw.permutation(examples)
    if not settings.buckets and settings.batch_tokens is None:
        return _cut(order, settings.batch_size)
    if lengths is None:
        raise ValueError("lengths must be given for buckets and for batch_tokens, got None")
    size = np.asarray(lengths, dtype=np.int64)
    if settings.buckets:
        order = _sorted_in_pools(order, size, settings)
    if settings.batch_tokens is None:
        batches = _cut(order, settings.batch_size)
    else:
        batches = _filled(order, size, settings.batch_tokens)
    if settings.buckets:
        batches = [batches[number] for number in draw.permutation(len(batches))]
    return batches


def total_steps(settings: Settings, examples: int | None, lengths: Sequence[int] | None) -> int:
    """Steps of a whole run."""
    if settings.steps is not None:
        return settings.steps
    if examples is None:
        raise ValueError("steps must be given where the data is a stream, which has no end, got None")
    if settings.batch_tokens is None:
        return _whole(settings.epochs * math.ceil(examples / settings.batch_size))
    # Batches by tokens differ in number from epoch to epoch.
    whole, part = int(settings.epochs), settings.epochs % 1
    steps = sum(len(epoch_batches(settings, examples, lengths, epoch)) for epoch in range(whole))
    return steps + (_whole(part * len(epoch_batches(settings, examples, lengths, whole))) if part else 0)


def _whole(steps: float) -> int:
    """Rounded up, after the rounding error of a product is removed: 0.07 * 100 is 7."""
    return max(1, math.ceil(round(steps, 9)))


def shares(batch: Sequence[int], rank: int, processes: int, pieces: int) -> list[list[int]]:
    """A process's share of a batch, in as many pieces on every process; the last is empty where examples are few."""
    pieces = min(pieces, math.ceil(len(batch) / processes))
    parts = pieces * processes
    return [list(batch[piece * processes + rank :: parts]) for piece in range(pieces)]


def _cut(order: np.ndarray, size: int) -> list[list[int]]:
    return [order[start : start + size].tolist() for start in range(0, len(order), size)]


def _sorted_in_pools(order: np.ndarray, size: np.ndarray, settings: Settings) -> np.ndarray:
    if settings.batch_tokens is None:
        pool = POOL * settings.batch_size
    else:
        pool = max(1, round(POOL * settings.batch_tokens / max(1.0, float(size.mean()))))
    pools = [order[start : start + pool] for start in range(0, len(order), pool)]
    # Stable: examples of one length keep their random order.
    return np.concatenate([part[np.argsort(size[part], kind="stable")] for part in pools])


def _filled(order: np.ndarray, size: np.ndarray, tokens: int) -> list[list[int]]:
    """Batches whose padded size stays within `tokens`; an example that is longer by itself is a batch."""
    batches: list[list[int]] = [[]]
    longest = 0
    for example in order.tolist():
        longest = max(longest, int(size[example]))
        if batches[-1] and longest * (len(batches[-1]) + 1) > tokens:
            batches.append([])
            longest = int(size[example])
        batches[-1].append(example)
    return batches
