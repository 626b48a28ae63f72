"""Functions from a row of scores to a row of weights, for the reference: softmax, and others as source 000 allows.

A normaliser maps scores (..., S) to weights (..., S) and gives 0 to a score of -inf.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Normaliser = Callable[[Tensor], Tensor]


def softmax(scores: Tensor) -> Tensor:
    return torch.softmax(scores, dim=-1)


def sparsemax(scores: Tensor) -> Tensor:
    """The point of the simplex nearest to the scores (Martins & Astudillo 2016): weights may be exactly 0."""
    scores = scores - scores.amax(-1, keepdim=True).detach()
    ranked = scores.sort(dim=-1, descending=True).values
    count = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    # Scores of -inf never get weight; clamped, because -inf - -inf would be NaN in the cumulative sums.
    ranked = ranked.clamp_min(torch.finfo(scores.dtype).min / scores.shape[-1])
    thresholds = (ranked.cumsum(-1) - 1) / count
    size = (ranked > thresholds).sum(-1, keepdim=True).clamp_min(1)
    return (scores - thresholds.gather(-1, size - 1)).clamp_min(0)


def entmax15(scores: Tensor) -> Tensor:
    """Half way between softmax and sparsemax (Peters, Niculae & Martins 2019, alpha = 1.5), by its exact threshold."""
    halved = (scores - scores.amax(-1, keepdim=True).detach()) / 2
    ranked = halved.sort(dim=-1, descending=True).values
    # No score more than 1 below the maximum gets weight, so the clamp changes nothing but keeps the sums finite.
    ranked = ranked.clamp_min(-2.0)
    count = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    mean = ranked.cumsum(-1) / count
    variance_left = (1 - (ranked.square().cumsum(-1) - count * mean.square())) / count
    thresholds = mean - variance_left.clamp_min(torch.finfo(scores.dtype).tiny).sqrt()
    size = (ranked >= thresholds).sum(-1, keepdim=True).clamp_min(1)
    return (halved - thresholds.gather(-1, size - 1)).clamp_min(0).square()


BY_NAME: dict[str, Normaliser] = {
    "softmax": softmax,
    "sigmoid": torch.sigmoid,
    "sparsemax": sparsemax,
    "entmax15": entmax15,
}

# Those that do not change when a constant is added to the whole row.
SHIFT_FREE: tuple[Normaliser, ...] = (softmax, sparsemax, entmax15)


def normaliser_of(chosen: str | Normaliser) -> Normaliser:
    if callable(chosen):
        return chosen
    if chosen not in BY_NAME:
        raise ValueError(f"normaliser must be one of {', '.join(BY_NAME)} or a function, got {chosen!r}")
    return BY_NAME[chosen]
