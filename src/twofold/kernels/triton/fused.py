"""The fused kernels' launches: tile sizes, strides, and what is allocated."""

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from twofold.kernels.library import empty_heads, unit_stride
from twofold.kernels.triton.backward import columns_kernel, own_kernel, rows_kernel
from twofold.kernels.triton.forward import forward_kernel
from twofold.kernels.triton.launch import launch, strides
from twofold.kernels.triton.options import KernelOptions, softmax_numbers


class Tiles(NamedTuple):
    rows: int
    columns: int
    warps: int
    stages: int


# The fastest of three sweeps on an H200 in bfloat16 (LOG.md) for D = 64 and 128; the others are guesses that fit the chip.


def forward_tiles(width: int, dtype: torch.dtype, is_causal: bool) -> Tiles:
    if dtype == torch.float32:
        return Tiles(64, 32, 4, 2)
    if width > 128:
        return Tiles(64, 32, 4, 2)
    return Tiles(64, 64, 4, 3) if is_causal else Tiles(128, 64, 8, 3)


def rows_tiles(width: int, dtype: torch.dtype) -> Tiles:
    """Of the backward kernel that loops over the columns for a tile of rows."""
    if dtype == torch.float32:
        return Tiles(32, 32, 4, 2)
    if width <= 64:
        return Tiles(64, 64, 4, 3)
    return Tiles(128, 64, 8, 3) if width <= 128 else Tiles(64, 32, 4, 2)


def columns_tiles(width: int, dtype: torch.dtype, is_causal: bool) -> Tiles:
    """Of the backward kernel that loops over the rows for a tile of columns."""
    if dtype == torch.float32:
        return Tiles(32, 32, 4, 2)
    if width <= 64 or (width <= 128 and is_causal):
        return Tiles(32, 64, 4, 3)
    return Tiles(64, 128, 8, 3) if width <= 128 else Tiles(32, 64, 4, 2)


def attend(
    query: Tensor, key: Tensor, value: Tensor, self_key: Tensor, self_value: Tensor, options: KernelOptions
) -> tuple[Tensor, Tensor]:
    """Output (B, Hq, T, D) and, for the backward pass, `softmax_numbers` per row."""
    query, key, value, self_key, self_value = map(unit_stride, (query, key, value, self_key, self_value))
    B, H, T, D = query.shape
    out = empty_heads(query)
    softmax = torch.empty((softmax_numbers(options.attn_mask), B, H, T), dtype=torch.float32, device=query.device)
    tiles = forward_tiles(D, query.dtype, options.is_causal)
    launch(
        forward_kernel, (triton.cdiv(T, tiles.rows), B * H),
        (query, key, value, self_key, self_value, out, softmax, *_pointers(options, query)),
        (*strides(query, key, value, self_key, self_value, out), *_mask_strides(options, query, key),
         H, T, key.shape[2], D, *_numbers(options)),
        **_switches(options, query, key, tiles),
    )  # fmt: skip
    return out, softmax


def attend_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    self_key: Tensor,
    self_value: Tensor,
    out: Tensor,
    softmax: Tensor,
    options: KernelOptions,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value, self_key and self_value."""
    grad, query, key, value, self_key, self_value = map(unit_stride, (grad, query, key, value, self_key, self_value))
    B, H, T, D = query.shape
    S, groups = key.shape[2], H // key.shape[1]
    delta = torch.empty_like(softmax[0])
    grad_query = empty_heads(query)
    grad_self_key, grad_self_value = empty_heads(self_key), empty_heads(self_value)
    tiles = rows_tiles(D, query.dtype)
    launch(
        rows_kernel, (triton.cdiv(T, tiles.rows), B * H),
        (query, key, value, self_key, self_value, out, grad, softmax, delta, *_pointers(options, query),
         grad_query, grad_self_key, grad_self_value),
        (*strides(query, key, value, self_key, self_value, out, grad), *_mask_strides(options, query, key),
         *strides(grad_query), H, T, S, D, *_numbers(options)),
        **_switches(options, query, key, tiles),
    )  # fmt: skip
    grad_key, grad_value = empty_heads(key), empty_heads(value)
    tiles = columns_tiles(D, query.dtype, options.is_causal)
    launch(
        columns_kernel, (triton.cdiv(S, tiles.columns), B * key.shape[1]),
        (query, key, value, grad, softmax, delta, *_pointers(options, query), grad_key, grad_value),
        (*strides(query, key, value, grad), *_mask_strides(options, query, key), *strides(grad_key),
         H, T, S, D, *_numbers(options)),
        **_switches(options, query, key, tiles),
    )  # fmt: skip
    if groups > 1:
        tiles = Tiles(32, 32, 4, 1)
        launch(
            own_kernel, (triton.cdiv(T, tiles.rows), B * key.shape[1]),
            (query, self_key, self_value, grad, softmax, delta, *_pointers(options, query), grad_self_key, grad_self_value),
            (*strides(query, self_key, self_value, grad), *_mask_strides(options, query, key), *strides(grad_self_key),
             H, T, S, D, *_numbers(options)),
            **_switches(options, query, key, tiles),
        )  # fmt: skip
    return grad_query, grad_key, grad_value, grad_self_key, grad_self_value


def _pointers(options: KernelOptions, stand_in: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mask, segments and seed. An absent one is replaced by `stand_in`, which the kernel never reads."""
    mask = stand_in if options.attn_mask is None else options.attn_mask
    mask = mask.view(torch.uint8) if mask.dtype == torch.bool else mask
    segments = stand_in if options.segment_ids is None else options.segment_ids.contiguous()
    return mask, segments, stand_in if options.seed is None else options.seed


def _mask_strides(options: KernelOptions, query: Tensor, key: Tensor) -> tuple[int, ...]:
    """Strides of the mask over (B, Hq, T, S), and from one of the stored numbers to the next."""
    if options.attn_mask is None:
        strides = (0, 0, 0, 0)
    else:
        strides = options.attn_mask.expand(*query.shape[:3], key.shape[2]).stride()
    return *strides, query.shape[0] * query.shape[1] * query.shape[2]


def _numbers(options: KernelOptions) -> tuple[float, float, float, int]:
    return options.scale, options.softcap or 1.0, options.dropout_p, options.window or 0


def _switches(options: KernelOptions, query: Tensor, key: Tensor, tiles: Tiles) -> dict[str, object]:
    width = max(triton.next_power_of_2(query.shape[-1]), 16)
    if options.attn_mask is None:
        mask = "none"
    else:
        mask = "bool" if options.attn_mask.dtype == torch.bool else "float"
    return {
        "GROUPS": query.shape[1] // key.shape[1],
        "WIDTH": width,
        "EXACT_WIDTH": width == query.shape[-1],
        "ROWS": tiles.rows,
        "COLUMNS": tiles.columns,
        # Every tile is full, so that loads need no bounds.
        "WHOLE": query.shape[2] % tiles.rows == 0 and key.shape[2] % tiles.columns == 0,
        "IS_CAUSAL": options.is_causal,
        "WINDOW": options.window is not None,
        "SEGMENTS": options.segment_ids is not None,
        "MASK": mask,
        "SOFTCAP": options.softcap is not None,
        "DROPOUT": options.dropout_p > 0,
        # float32 means float32: no tf32.
        "PRECISION": "ieee",
        "num_warps": tiles.warps,
        "num_stages": tiles.stages,
    }
