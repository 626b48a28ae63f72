"""Which query may see which key: is_causal, window, segment_ids and attn_mask as one tensor.

Works on a block of rows and columns, so that a caller that iterates over blocks never holds T x S entries. Query i owns
slot i + S - T; `rows` and `columns` count queries and keys from 0.
"""

import math
from functools import reduce
from operator import and_

import torch
from torch import Tensor

from twofold.kernels.checks import Call


def allowed(
    rows: slice,
    columns: slice,
    first_own: int,
    *,
    device: torch.device,
    is_causal: bool = False,
    window: int | None = None,
    segment_ids: Tensor | None = None,
    attn_mask: Tensor | None = None,
    without_own: bool = False,
) -> Tensor:
    """A bool tensor (True = may attend) that broadcasts to (B, Hq, rows, columns).

    Of a float mask only the -inf entries count here; `bias` adds its numbers. `without_own` hides every query's own
    slot.
    """
    conditions = []
    if is_causal or without_own or window is not None:
        slot = torch.arange(rows.start, rows.stop, device=device)[:, None] + first_own
        column = torch.arange(columns.start, columns.stop, device=device)[None, None, None]
        if is_causal:
            conditions.append(column <= slot)
        if without_own:
            conditions.append(column != slot)
        if window is not None:
            conditions.append((column - slot).abs() <= window)
    if segment_ids is not None:
        conditions.append((segment_ids[:, rows, None] == segment_ids[:, None, columns])[:, None])
    if attn_mask is not None:
        block = cut(attn_mask, rows, columns)
        conditions.append(block if block.dtype == torch.bool else block != -math.inf)
    return reduce(and_, conditions) if conditions else torch.ones((1, 1, 1, 1), dtype=torch.bool, device=device)


def allowed_by(call: Call, rows: slice | None = None, *, without_own: bool = False) -> Tensor:
    """`allowed` for all columns of a call, and these rows or all."""
    return allowed(
        slice(0, call.queries) if rows is None else rows,
        slice(0, call.keys),
        call.keys - call.queries,
        device=call.query.device,
        is_causal=call.is_causal,
        window=call.window,
        segment_ids=call.segment_ids,
        attn_mask=call.attn_mask,
        without_own=without_own,
    )


def cut(mask: Tensor, rows: slice, columns: slice) -> Tensor:
    """The block of a broadcastable mask; a dimension of size 1 stays as it is."""
    if mask.shape[2] != 1:
        mask = mask[:, :, rows]
    if mask.shape[3] != 1:
        mask = mask[..., columns]
    return mask


def bias(may: Tensor, attn_mask: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The additive mask: a float mask's numbers, and -inf wherever `may` is False."""
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        # Clamped, so that an allowed entry does not become -inf by overflow.
        return attn_mask.to(dtype).clamp_min(torch.finfo(dtype).min).masked_fill(~may, -math.inf)
    return torch.zeros((), dtype=dtype, device=may.device).masked_fill(~may, -math.inf)


def own_entries(mask: Tensor, first_own: int, queries: int) -> Tensor:
    """Entry (i, own slot of i) of a broadcastable mask: broadcasts to (B, Hq, T)."""
    if mask.shape[3] == 1:
        return mask[..., 0]
    if mask.shape[2] == 1:
        return mask[..., 0, first_own : first_own + queries]
    # Cut first: an offset would pin S - T to one number in an exported graph.
    return mask[..., first_own : first_own + queries].diagonal(dim1=-2, dim2=-1)


def row_shift(may: Tensor, numbers: Tensor, own: Tensor | None = None) -> Tensor:
    """The maximum of each row over the allowed entries and the own one, 0 where all are -inf: (..., rows, 1).

    Subtracting it from the row does not change softmax, sparsemax or entmax, but keeps the digits of the scores in a
    row where the mask is finfo.min throughout.
    """
    if 0 in (numbers.shape[-1], may.shape[-1]):
        # torch has no maximum of an empty dimension.
        numbers, may = numbers.new_full((*numbers.shape[:-1], 1), -math.inf), may.new_ones(())
    greatest = numbers.detach().masked_fill(~may, -math.inf).amax(-1, keepdim=True)
    if own is not None:
        greatest = torch.maximum(greatest, own.detach()[..., None])
    return greatest.masked_fill(greatest == -math.inf, 0.0)
