"""Confidences that mean what they say: a temperature, a threshold, and how far off they are."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

BINS = 15


def best_temperature(logits: Tensor, truth: Tensor) -> float:
    """What to divide logits by so that the truth is likeliest, to within 2 %; between 0.05 and 20.

    After Platt: as if of two examples more one were wrong, so that a few that are all right make nobody sure.
    """
    candidates = torch.logspace(-1.3, 1.3, 261, dtype=torch.float64)
    # What is spread over all classes the right one has a share of, too.
    classes = logits.shape[1]
    doubt = min(1.0, classes / max(classes - 1, 1) / (len(truth) + 2))
    losses = [cross_entropy(logits.double() / one, truth, label_smoothing=doubt).item() for one in candidates]
    return float(candidates[min(range(len(losses)), key=losses.__getitem__)])


def best_threshold(confidence: Sequence[float], right: Sequence[bool], outside: Sequence[bool]) -> float:
    """Where to stop believing: most utterances right, rejecting what is outside. 0 where nothing is outside."""
    if not any(outside):
        return 0.0
    ranked = sorted(zip(confidence, right, outside, strict=True))
    accepted = sum(right)
    best, threshold = accepted, 0.0
    rejected = 0
    for place, (low, is_right, is_outside) in enumerate(ranked):
        accepted -= is_right
        rejected += is_outside
        high = ranked[place + 1][0] if place + 1 < len(ranked) else math.inf
        # Equal ones are accepted or rejected together.
        if high > low and accepted + rejected > best:
            best = accepted + rejected
            threshold = math.nextafter(low, math.inf) if high == math.inf else (low + high) / 2
    return threshold


class Bin(NamedTuple):
    """What is in a bin of confidences: how many, their mean, and the share that was right."""

    count: int
    confidence: float
    accuracy: float


def reliability(confidence: Sequence[float], right: Sequence[bool]) -> list[Bin]:
    """Confidence beside accuracy, in bins of equal width; 0 where a bin is empty."""
    sure, hit = torch.tensor(confidence, dtype=torch.float64), torch.tensor(right, dtype=torch.float64)
    bins = (sure * BINS).long().clamp(max=BINS - 1)
    totals = torch.zeros(3, BINS, dtype=torch.float64)
    for row, what in zip(totals, (torch.ones_like(sure), sure, hit), strict=True):
        row.index_add_(0, bins, what)
    return [Bin(int(n), conf / max(n, 1), acc / max(n, 1)) for n, conf, acc in totals.T.tolist()]


def expected_calibration_error(confidence: Sequence[float], right: Sequence[bool]) -> float:
    """The mean distance between confidence and accuracy over bins of equal width, weighted by what is in them."""
    found = reliability(confidence, right)
    return sum(one.count * abs(one.confidence - one.accuracy) for one in found) / len(confidence)
