"""One step of generation over a cache: one new token per sequence attends to its past and, by its own pair, to itself.

Two kernel launches, which read the filled part of the cache and nothing beyond it, and write nothing. This file says
when they serve and defines the torch.library op; the kernels are in `triton/decode`.
"""

import torch
from torch import Tensor

from twofold.kernels import fused
from twofold.kernels.checks import have_tangents
from twofold.kernels.eager import op
from twofold.kernels.library import empty_heads


def serves_step(query: Tensor, key_cache: Tensor, value_cache: Tensor, attn_mask: Tensor | None = None) -> bool:
    """Whether `attend_filled` takes these: query (B, Hq, 1, D), caches (B, Hkv, capacity, D).

    attn_mask: bool, one row for all heads, (B or 1, 1, 1, capacity).
    """
    has_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key_cache, value_cache))
    return bool(
        fused.INSTALLED
        and query.is_cuda
        and query.dtype in (torch.bfloat16, torch.float16)
        and key_cache.dtype == value_cache.dtype == query.dtype
        and query.shape[2] == 1
        and query.shape[-1] == value_cache.shape[-1] <= 128
        and query.numel() > 0
        and query.shape[1] % key_cache.shape[1] == 0
        and key_cache.stride(-1) == value_cache.stride(-1) == 1
        and (attn_mask is None or _is_one_row(attn_mask, query.shape[0], key_cache.shape[2]))
        and not has_gradient
        and not have_tangents(query, key_cache, value_cache)
    )


def _is_one_row(attn_mask: Tensor, batch: int, capacity: int) -> bool:
    return attn_mask.dtype == torch.bool and tuple(attn_mask.shape) in ((batch, 1, 1, capacity), (1, 1, 1, capacity))


def attend_filled(
    query: Tensor,
    self_key: Tensor,
    self_value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    length: int | Tensor,
    attn_mask: Tensor | None = None,
) -> Tensor:
    """Attend from one token per sequence to the first `length` slots and, by (self_key, self_value), to itself.

    Args:
        query: (B, Hq, 1, D); self_key, self_value (B, Hkv, 1, D).
        key_cache: (B, Hkv, capacity, D); value_cache likewise.
        length: filled slots; an int, or a tensor with one number on the device, read at each replay of a CUDA graph.
        attn_mask: as in `serves_step`; column `length` says whether the token sees itself.

    Returns:
        (B, Hq, 1, D).
    """
    number, counter = (0, length) if isinstance(length, Tensor) else (length, None)
    scale = query.shape[-1] ** -0.5
    return _attend_filled(query, self_key, self_value, key_cache, value_cache, number, counter, attn_mask, scale)


@op("twofold::attend_filled")
def _attend_filled(
    query: Tensor,
    self_key: Tensor,
    self_value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    number: int,
    counter: Tensor | None,
    attn_mask: Tensor | None,
    scale: float,
) -> Tensor:
    from twofold.kernels.triton.decode import step

    length = number if counter is None else counter
    with torch.cuda.device_of(query):
        return step(query, self_key, self_value, key_cache, value_cache, length, scale, attn_mask)


@_attend_filled.register_fake
def _(query, *_):  # noqa: ANN001, ANN002, ANN202
    return empty_heads(query)
