"""Tests of a GPU's libraries against float64, run once per process before their results are used."""

import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# The largest relative error that rounding to bfloat16 explains; wrong gradients have been seen to err by 1.
LIMIT = 0.02


class Exact(NamedTuple):
    """Attention in float64 with its gradients, by hand: inside an op there is no autograd."""

    out: Tensor
    lse: Tensor
    grad_query: Tensor
    grad_key: Tensor
    grad_value: Tensor


def drawn(count: int, tokens: int, device: torch.device) -> list[Tensor]:
    """Tensors (2, 2, tokens, 64) in bfloat16 that are (B, T, H, D) in memory, as our layers produce them."""
    generator = torch.Generator(device).manual_seed(0)
    shape, dtype = (2, tokens, 2, 64), torch.bfloat16
    return [torch.randn(shape, generator=generator, device=device, dtype=dtype).transpose(1, 2) for _ in range(count)]


def exact(query: Tensor, key: Tensor, value: Tensor, grad: Tensor, may: Tensor, scale: float) -> Exact:
    """may: bool (T, S), True = may attend."""
    q, k, v, do = (tensor.double() for tensor in (query, key, value, grad))
    scores = (q @ k.mT * scale).masked_fill(~may, -torch.inf)
    weights = scores.softmax(-1)
    grad_weights = do @ v.mT
    grad_scores = weights * (grad_weights - (grad_weights * weights).sum(-1, keepdim=True)) * scale
    return Exact(weights @ v, scores.logsumexp(-1), grad_scores @ k, grad_scores.mT @ q, weights.mT @ do)


def errors_of(found: Sequence[Tensor], expected: Sequence[Tensor]) -> list[float]:
    """Relative, one for each tensor."""
    return [((a - b).norm() / b.norm()).item() for a, b in zip(found, expected, strict=True)]


def passes(what: str, errors: Callable[[], list[float]]) -> bool:
    """Whether all errors are those of rounding; a warning if not, or if the library raises."""
    try:
        found = errors()
        why = f"relative errors {', '.join(f'{error:.2g}' for error in found)}"
    except Exception as error:  # whatever the library raises: other backends serve
        found, why = [torch.inf], f"{type(error).__name__}: {error}"
    # Check each error: max() can hide a NaN.
    if all(error < LIMIT for error in found):
        return True
    warnings.warn(f"{what} fails its self-test ({why:.200}); not used", RuntimeWarning, stacklevel=3)
    return False
