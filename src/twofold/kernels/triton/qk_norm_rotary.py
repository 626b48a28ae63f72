"""QK norm and rotary positions: one kernel for queries, keys and own keys, forward and backward.

A program holds TOKENS tokens and loops over HEADS heads of them. The two halves of a head are separate tiles, since a
rotation mixes feature j with feature j + D/2.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from twofold.kernels.library import empty_heads, unit_stride
from twofold.kernels.triton.launch import launch, strides

# Elements of half a tile, a program's heads where there are many tokens, and the kernels' warps: the fastest of a sweep
# (H200, bfloat16, LOG.md).
ELEMENTS, HEADS, FORWARD_WARPS, BACKWARD_WARPS = 512, 8, 2, 1
# From this many programs on, one program loops over several heads.
MANY = 64


@triton.jit
def _halves(pointer, offsets, half, mask, HALF: tl.constexpr):
    """Both halves of rows that begin at `offsets`, in float32."""
    d = tl.arange(0, HALF)[None, :]
    first = tl.load(pointer + offsets[:, None] + d, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(pointer + offsets[:, None] + half + d, mask=mask, other=0.0).to(tl.float32)
    return first, second


@triton.jit
def _store_halves(pointer, offsets, first, second, half, mask, HALF: tl.constexpr):
    d = tl.arange(0, HALF)[None, :]
    tl.store(pointer + offsets[:, None] + d, first.to(pointer.dtype.element_ty), mask=mask)
    tl.store(pointer + offsets[:, None] + half + d, second.to(pointer.dtype.element_ty), mask=mask)


@triton.jit
def _gain_halves(pointer, half, HALF: tl.constexpr):
    d = tl.arange(0, HALF)
    first = tl.load(pointer + d, mask=d < half, other=0.0).to(tl.float32)
    second = tl.load(pointer + half + d, mask=d < half, other=0.0).to(tl.float32)
    return first[None, :], second[None, :]


@triton.jit
def _heads_forward(
    p_x, p_y, p_gain, p_cos, p_sin, s_b, s_h, s_t, s_cos_b, s_cos_t, first_head, heads, T, total, half, eps,
    NORM: tl.constexpr, TOKENS: tl.constexpr, HALF: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    tokens = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    batch, t = (tokens // T).to(tl.int64), (tokens % T).to(tl.int64)
    mask = (tokens < total)[:, None] & (tl.arange(0, HALF) < half)[None, :]
    cos_first, cos_second = _halves(p_cos, batch * s_cos_b + t * s_cos_t, half, mask, HALF)
    sin_first, sin_second = _halves(p_sin, batch * s_cos_b + t * s_cos_t, half, mask, HALF)
    if NORM:
        gain_first, gain_second = _gain_halves(p_gain, half, HALF)
    for near_head in range(first_head, tl.minimum(first_head + HEADS, heads)):
        head = tl.cast(near_head, tl.int64)
        x_first, x_second = _halves(p_x, batch * s_b + head * s_h + t * s_t, half, mask, HALF)
        if NORM:
            mean = (tl.sum(x_first * x_first, 1) + tl.sum(x_second * x_second, 1)) / (2 * half)
            inverse = tl.rsqrt(mean + eps)[:, None]
            x_first, x_second = x_first * inverse * gain_first, x_second * inverse * gain_second
        y_first = x_first * cos_first - x_second * sin_first
        y_second = x_second * cos_second + x_first * sin_second
        rows = (tokens.to(tl.int64) * heads + head) * (2 * half)
        _store_halves(p_y, rows, y_first, y_second, half, mask, HALF)


@triton.jit
def forward_kernel(
    p_query, p_key, p_self_key, p_out_query, p_out_key, p_out_self_key, p_query_gain, p_key_gain, p_cos, p_sin,
    s_query_b, s_query_h, s_query_t, s_key_b, s_key_h, s_key_t, s_self_key_b, s_self_key_h, s_self_key_t,
    s_cos_b, s_cos_t, query_heads, key_heads, T, total, half, eps,
    NORM: tl.constexpr, TOKENS: tl.constexpr, HALF: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    share, query_shares, key_shares = tl.program_id(1), tl.cdiv(query_heads, HEADS), tl.cdiv(key_heads, HEADS)
    if share < query_shares:
        _heads_forward(
            p_query, p_out_query, p_query_gain, p_cos, p_sin, s_query_b, s_query_h, s_query_t, s_cos_b, s_cos_t,
            share * HEADS, query_heads, T, total, half, eps, NORM, TOKENS, HALF, HEADS,
        )  # fmt: skip
    elif share < query_shares + key_shares:
        _heads_forward(
            p_key, p_out_key, p_key_gain, p_cos, p_sin, s_key_b, s_key_h, s_key_t, s_cos_b, s_cos_t,
            (share - query_shares) * HEADS, key_heads, T, total, half, eps, NORM, TOKENS, HALF, HEADS,
        )  # fmt: skip
    else:
        _heads_forward(
            p_self_key, p_out_self_key, p_key_gain, p_cos, p_sin, s_self_key_b, s_self_key_h, s_self_key_t,
            s_cos_b, s_cos_t, (share - query_shares - key_shares) * HEADS, key_heads, T, total, half, eps,
            NORM, TOKENS, HALF, HEADS,
        )  # fmt: skip


@triton.jit
def _heads_backward(
    p_grad, p_x, p_out, p_gain, p_of_gain, p_cos, p_sin, s_grad_b, s_grad_h, s_grad_t, s_b, s_h, s_t, s_cos_b, s_cos_t,
    first_head, heads, T, total, half, eps,
    NORM: tl.constexpr, TOKENS: tl.constexpr, HALF: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    tokens = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    batch, t = (tokens // T).to(tl.int64), (tokens % T).to(tl.int64)
    mask = (tokens < total)[:, None] & (tl.arange(0, HALF) < half)[None, :]
    cos_first, cos_second = _halves(p_cos, batch * s_cos_b + t * s_cos_t, half, mask, HALF)
    sin_first, sin_second = _halves(p_sin, batch * s_cos_b + t * s_cos_t, half, mask, HALF)
    if NORM:
        gain_first, gain_second = _gain_halves(p_gain, half, HALF)
        of_gain_first = tl.zeros((HALF,), dtype=tl.float32)
        of_gain_second = tl.zeros((HALF,), dtype=tl.float32)
    for near_head in range(first_head, tl.minimum(first_head + HEADS, heads)):
        head = tl.cast(near_head, tl.int64)
        dy_first, dy_second = _halves(p_grad, batch * s_grad_b + head * s_grad_h + t * s_grad_t, half, mask, HALF)
        dx_first = dy_first * cos_first + dy_second * sin_second
        dx_second = dy_second * cos_second - dy_first * sin_first
        if NORM:
            x_first, x_second = _halves(p_x, batch * s_b + head * s_h + t * s_t, half, mask, HALF)
            mean = (tl.sum(x_first * x_first, 1) + tl.sum(x_second * x_second, 1)) / (2 * half)
            inverse = tl.rsqrt(mean + eps)[:, None]
            x_first, x_second = x_first * inverse, x_second * inverse
            of_gain_first += tl.sum(dx_first * x_first, 0)
            of_gain_second += tl.sum(dx_second * x_second, 0)
            dx_first, dx_second = dx_first * gain_first, dx_second * gain_second
            along = (tl.sum(dx_first * x_first, 1) + tl.sum(dx_second * x_second, 1))[:, None] / (2 * half)
            dx_first, dx_second = (dx_first - x_first * along) * inverse, (dx_second - x_second * along) * inverse
        rows = (tokens.to(tl.int64) * heads + head) * (2 * half)
        _store_halves(p_out, rows, dx_first, dx_second, half, mask, HALF)
    if NORM:
        d = tl.arange(0, HALF)
        blocks = tl.num_programs(0)
        p_of_gain += tl.program_id(1) * (2 * half) * blocks + tl.program_id(0)
        tl.store(p_of_gain + d * blocks, of_gain_first, mask=d < half)
        tl.store(p_of_gain + (half + d) * blocks, of_gain_second, mask=d < half)


@triton.jit
def backward_kernel(
    p_grad_query, p_grad_key, p_grad_self_key, p_query, p_key, p_self_key, p_of_query, p_of_key, p_of_self_key,
    p_query_gain, p_key_gain, p_of_gain, p_cos, p_sin,
    s_grad_query_b, s_grad_query_h, s_grad_query_t, s_grad_key_b, s_grad_key_h, s_grad_key_t,
    s_grad_self_key_b, s_grad_self_key_h, s_grad_self_key_t,
    s_query_b, s_query_h, s_query_t, s_key_b, s_key_h, s_key_t, s_self_key_b, s_self_key_h, s_self_key_t,
    s_cos_b, s_cos_t, query_heads, key_heads, T, total, half, eps,
    NORM: tl.constexpr, TOKENS: tl.constexpr, HALF: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    """Besides the gradients, each program's part of the gains' gradients: (shares of heads, D, token blocks)."""
    share, query_shares, key_shares = tl.program_id(1), tl.cdiv(query_heads, HEADS), tl.cdiv(key_heads, HEADS)
    if share < query_shares:
        _heads_backward(
            p_grad_query, p_query, p_of_query, p_query_gain, p_of_gain, p_cos, p_sin,
            s_grad_query_b, s_grad_query_h, s_grad_query_t, s_query_b, s_query_h, s_query_t, s_cos_b, s_cos_t,
            share * HEADS, query_heads, T, total, half, eps, NORM, TOKENS, HALF, HEADS,
        )  # fmt: skip
    elif share < query_shares + key_shares:
        _heads_backward(
            p_grad_key, p_key, p_of_key, p_key_gain, p_of_gain, p_cos, p_sin,
            s_grad_key_b, s_grad_key_h, s_grad_key_t, s_key_b, s_key_h, s_key_t, s_cos_b, s_cos_t,
            (share - query_shares) * HEADS, key_heads, T, total, half, eps, NORM, TOKENS, HALF, HEADS,
        )  # fmt: skip
    else:
        _heads_backward(
            p_grad_self_key, p_self_key, p_of_self_key, p_key_gain, p_of_gain, p_cos, p_sin,
            s_grad_self_key_b, s_grad_self_key_h, s_grad_self_key_t, s_self_key_b, s_self_key_h, s_self_key_t,
            s_cos_b, s_cos_t, (share - query_shares - key_shares) * HEADS, key_heads, T, total, half, eps,
            NORM, TOKENS, HALF, HEADS,
        )  # fmt: skip


def forward(
    query: Tensor,
    key: Tensor,
    self_key: Tensor | None,
    query_gain: Tensor | None,
    key_gain: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    tensors = [unit_stride(tensor) for tensor in (query, key, key if self_key is None else self_key)]
    out = [empty_heads(tensor) for tensor in tensors]
    grid, switches = _launch(query, key, self_key, query_gain)
    cos, sin, *table_strides = _table(query, cos, sin)
    launch(
        forward_kernel, grid,
        (*tensors, *out, *_gains(query_gain, key_gain, cos), cos, sin),
        (*strides(*tensors), *table_strides, *_sizes(query, key), eps),
        **switches, num_warps=FORWARD_WARPS,
    )  # fmt: skip
    return out[0], out[1], key.new_empty(0) if self_key is None else out[2]


def backward(
    grad_query: Tensor,
    grad_key: Tensor,
    grad_self_key: Tensor | None,
    query: Tensor,
    key: Tensor,
    self_key: Tensor | None,
    query_gain: Tensor | None,
    key_gain: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    grads = [unit_stride(tensor) for tensor in (grad_query, grad_key, grad_key if self_key is None else grad_self_key)]
    tensors = [unit_stride(tensor) for tensor in (query, key, key if self_key is None else self_key)]
    out = [empty_heads(tensor) for tensor in tensors]
    grid, switches = _launch(query, key, self_key, query_gain)
    D = query.shape[-1]
    blocks, shares = grid
    of_gain = torch.empty((shares, D if switches["NORM"] else 0, blocks), dtype=torch.float32, device=query.device)
    cos, sin, *table_strides = _table(query, cos, sin)
    launch(
        backward_kernel, grid,
        (*grads, *tensors, *out, *_gains(query_gain, key_gain, cos), of_gain, cos, sin),
        (*strides(*grads, *tensors), *table_strides, *_sizes(query, key), eps),
        **switches, num_warps=BACKWARD_WARPS,
    )  # fmt: skip
    query_shares = triton.cdiv(query.shape[1], switches["HEADS"])
    # Along the contiguous dimension first, then the few that are left.
    of_gain = of_gain.sum(-1)
    of_gains = of_gain[:query_shares].sum(0), of_gain[query_shares:].sum(0)
    return out[0], out[1], key.new_empty(0) if self_key is None else out[2], *of_gains


def _launch(
    query: Tensor, key: Tensor, self_key: Tensor | None, gain: Tensor | None
) -> tuple[tuple[int, int], dict[str, Any]]:
    half = triton.next_power_of_2(query.shape[-1] // 2)
    total = query.shape[0] * query.shape[2]
    tokens = min(max(ELEMENTS // half, 1), triton.next_power_of_2(total))
    heads = HEADS if total > MANY * tokens else 1
    shares = triton.cdiv(query.shape[1], heads) + triton.cdiv(key.shape[1], heads) * (1 if self_key is None else 2)
    switches = {"NORM": gain is not None, "TOKENS": tokens, "HALF": half, "HEADS": heads}
    return (triton.cdiv(total, tokens), shares), switches


def _gains(query_gain: Tensor | None, key_gain: Tensor | None, stand_in: Tensor) -> list[Tensor]:
    """The gains, or a stand-in for each that a kernel without norm never reads."""
    return [stand_in if gain is None else gain.contiguous() for gain in (query_gain, key_gain)]


def _table(query: Tensor, cos: Tensor, sin: Tensor) -> tuple[Any, ...]:
    """cos and sin as (B or 1, 1, T, D), dense along D and with equal strides, and those of batch and tokens."""
    cos, sin = (tensor.expand(query.shape[0], 1, *tensor.shape[-2:]) for tensor in (cos, sin))
    cos, sin = unit_stride(cos), unit_stride(sin)
    if cos.stride() != sin.stride():
        cos, sin = cos.contiguous(), sin.contiguous()
    return cos, sin, cos.stride(0), cos.stride(2)


def _sizes(query: Tensor, key: Tensor) -> tuple[int, int, int, int, int]:
    B, H, T, D = query.shape
    return H, key.shape[1], T, B * T, D // 2
