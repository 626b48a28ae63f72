"""Attention with an own logit and an own value: library calls over the others, merged with it by log-sum-exp.

The others are covered by a few *parts*, each one library call on a rectangle of rows and columns:

    causal         rows 1.. over columns ..-1: the ordinary causal kernel, shifted by one, sees the strict past
    bidirectional  with the columns reversed the diagonal becomes the anti-diagonal i + j = T - 1, and a mask that
                   depends on i + j alone is one line of T + S - 1 numbers read with strides (1, 1)
                   (a library without masks: the strict past, and the strict future as the past of reversed rows)
    masked         blocks of rows, each with its own small mask, over the columns that any of its rows may see

The running softmax starts at the own term (log-sum-exp = own logit, output = own value) and merges one part after the
other. Backward: the library's backward pass of each part is right when given the *merged* output and log-sum-exp
(DESIGN.md section 4), so no gradient passes through a log-sum-exp. Memory is linear in T and S.
"""

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from twofold.kernels import library as flash
from twofold.kernels import masks
from twofold.kernels.library import empty_heads, library_for

# Rows per block of the masked case: the CPU kernel uses its widest tiles from 768 rows on. With a window fewer are
# better, because a block reads as many columns beside the window as it has rows.
BLOCK_ROWS = 768
WINDOW_BLOCK_ROWS = 256
# A block's mask has at most this many entries, unless 64 rows need more.
MASK_ENTRIES = 2**24


class Pattern(NamedTuple):
    """Who sees whom among the others."""

    attn_mask: Tensor | None
    segment_ids: Tensor | None
    window: int | None
    is_causal: bool

    @property
    def is_masked(self) -> bool:
        return self.attn_mask is not None or self.segment_ids is not None or self.window is not None


class Part(NamedTuple):
    """One library call: these queries over these keys."""

    rows: slice
    columns: slice
    mask: Literal["none", "past", "antidiagonal", "block"] = "none"
    reverse_rows: bool = False
    reverse_columns: bool = False

    def of_rows(self, tensor: Tensor) -> Tensor:
        tensor = tensor[:, :, self.rows]
        return tensor.flip(2) if self.reverse_rows else tensor

    def of_columns(self, tensor: Tensor) -> Tensor:
        tensor = tensor[:, :, self.columns]
        return tensor.flip(2) if self.reverse_columns else tensor


def parts_of(T: int, S: int, pattern: Pattern, *, takes_bias: bool) -> list[Part]:
    """Rectangles that together cover every (query, other key) pair that the pattern allows, each pair once."""
    if S == 1 or pattern.window == 0:
        return []
    if pattern.is_masked:
        return list(_blocks(T, S, pattern))
    if T == 1:
        return [Part(slice(0, 1), slice(0, S - 1))]
    all_rows, past = slice(0, T), slice(0, S - T)
    if not pattern.is_causal and takes_bias:
        return [Part(all_rows, slice(0, S), "antidiagonal", reverse_columns=True)]
    parts = [Part(all_rows, past)] if S > T else []
    parts.append(Part(slice(1, T), slice(S - T, S - 1), "past"))
    if not pattern.is_causal:
        future = slice(S - T + 1, S)
        parts.append(Part(slice(0, T - 1), future, "past", reverse_rows=True, reverse_columns=True))
    return parts


def _blocks(T: int, S: int, pattern: Pattern) -> Iterator[Part]:
    leading = [t.shape[:2] for t in (pattern.attn_mask,) if t is not None]
    leading += [(t.shape[0], 1) for t in (pattern.segment_ids,) if t is not None]
    batch, heads = torch.broadcast_shapes((1, 1), *leading)
    fits = max(MASK_ENTRIES // (batch * heads * S), 64)
    at_once = min(fits, BLOCK_ROWS if pattern.window is None else WINDOW_BLOCK_ROWS)
    for start in range(0, T, at_once):
        stop = min(start + at_once, T)
        first_slot, last_slot = S - T + start, S - T + stop - 1
        left, right = 0, last_slot if pattern.is_causal else S
        if pattern.window is not None:
            left, right = max(left, first_slot - pattern.window), min(right, last_slot + pattern.window + 1)
        if left < right:
            yield Part(slice(start, stop), slice(left, right), "block")


class Mask(NamedTuple):
    """The additive mask of one part, and which rows see nothing in it, which the library does not report."""

    bias: Tensor | None = None  # broadcasts to (B, Hq, rows, columns)
    sees: Tensor | None = None  # (B or 1, Hq or 1, rows); None: every row sees something
    shift: Tensor | None = None  # (B or 1, Hq or 1, rows): subtracted from the numbers of a float mask


def _mask(part: Part, query: Tensor, key: Tensor, pattern: Pattern) -> Mask:
    dtype, T, S = flash.lse_dtype(query.dtype), query.shape[2], key.shape[2]
    match part.mask:
        case "none" | "past":
            return Mask()
        case "antidiagonal":
            line = torch.zeros(T + S - 1, dtype=dtype, device=query.device)
            line[T - 1] = -math.inf
            return Mask(line.as_strided((1, 1, T, S), (0, 0, 1, 1)))
        case "block":
            may = masks.allowed(
                part.rows,
                part.columns,
                S - T,
                device=query.device,
                is_causal=pattern.is_causal,
                window=pattern.window,
                segment_ids=pattern.segment_ids,
                attn_mask=pattern.attn_mask,
                without_own=True,
            )
            if pattern.attn_mask is None or pattern.attn_mask.dtype == torch.bool:
                return Mask(masks.bias(may, None, dtype), may.any(-1))
            numbers = masks.cut(pattern.attn_mask, part.rows, part.columns).to(dtype)
            own = masks.own_entries(pattern.attn_mask, S - T, T).to(dtype)
            shift = masks.row_shift(may, numbers, own if own.shape[2] == 1 else own[:, :, part.rows])
            return Mask(masks.bias(may, numbers - shift, dtype), may.any(-1), shift[..., 0])


class _Own:
    """Own logits with the mask's own entries added, less the shift of the part that each row belongs to."""

    def __init__(self, own_logit: Tensor, query: Tensor, key: Tensor, pattern: Pattern) -> None:
        self._plain, self._entries = own_logit, None
        self.logit = own_logit.clone(memory_format=torch.contiguous_format)
        if pattern.attn_mask is None:
            return
        entries = masks.own_entries(pattern.attn_mask, key.shape[2] - query.shape[2], query.shape[2])
        if entries.dtype == torch.bool:
            self.logit.masked_fill_(~entries, -math.inf)
        else:
            self._entries = entries.to(own_logit.dtype).expand_as(own_logit)
            # A row in no part has only its own slot, where any finite logit gives weight 1.
            self.logit.masked_fill_(self._entries == -math.inf, -math.inf)

    def shift(self, rows: slice, shift: Tensor | None) -> None:
        """Subtract the shift from the mask's entry before adding the logit, whose digits a large entry swallows."""
        if shift is not None and self._entries is not None:
            self.logit[:, :, rows] = self._plain[:, :, rows] + (self._entries[:, :, rows] - shift)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    own_logit: Tensor,
    own_value: Tensor,
    pattern: Pattern,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp; a row that sees nothing has output 0 and log-sum-exp -inf."""
    library, groups = library_for(query), query.shape[1] // key.shape[1]
    parts = parts_of(query.shape[2], key.shape[2], pattern, takes_bias=flash.takes_bias(library))
    out = empty_heads(query)
    out.unflatten(1, (-1, groups)).copy_(own_value[:, :, None])
    running = out.to(own_logit.dtype) if len(parts) > 1 else out
    own = _Own(own_logit, query, key, pattern)
    lse = own.logit
    for part in parts:
        mask = _mask(part, query, key, pattern)
        own.shift(part.rows, mask.shift)
        part_out, part_lse = flash.forward(
            library,
            part.of_rows(query),
            part.of_columns(key),
            part.of_columns(value),
            mask.bias,
            part.mask == "past",
            scale,
        )
        if part.reverse_rows:
            part_out, part_lse = part_out.flip(2), part_lse.flip(2)
        if mask.sees is not None:
            part_lse = part_lse.masked_fill(~mask.sees, -math.inf)
        _merge(part_out, part_lse, running[:, :, part.rows], lse[:, :, part.rows])
    if running is not out:
        out.copy_(running)
    if pattern.attn_mask is not None:
        out.masked_fill_((lse == -math.inf)[..., None], 0.0)
    return out, lse


def _merge(part_out: Tensor, part_lse: Tensor, out: Tensor, lse: Tensor) -> None:
    """Merge one part's softmax into the running one, in place.

    Both shares come from the difference of the logarithms: 1 - share would lose the digits of a small one, and
    exp(lse - merged) those of a large logarithm.
    """
    merged = torch.logaddexp(lse, part_lse)
    # Where neither has seen anything the difference is -inf - -inf.
    empty = merged == -math.inf
    share = torch.sigmoid(lse - part_lse).masked_fill_(empty, 0.0)[..., None]
    part_share = torch.sigmoid(part_lse - lse).masked_fill_(empty, 0.0)[..., None]
    if out.dtype == merged.dtype:
        out.mul_(share).addcmul_(part_out.to(merged.dtype), part_share)
    else:
        out.copy_((out * share).addcmul_(part_out.to(merged.dtype), part_share))
    lse.copy_(merged)


def attend_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    own_logit: Tensor,
    own_value: Tensor,
    out: Tensor,
    lse: Tensor,
    pattern: Pattern,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value, own_logit and own_value."""
    library, groups = library_for(query), query.shape[1] // key.shape[1]
    parts = parts_of(query.shape[2], key.shape[2], pattern, takes_bias=flash.takes_bias(library))
    if pattern.attn_mask is not None:
        # A row that saw nothing has no gradient: with any finite log-sum-exp all its weights are exp(-inf) = 0.
        lse = lse.masked_fill(lse == -math.inf, 0.0)
    own = _Own(own_logit, query, key, pattern)
    for_query, for_key, for_value = (_Total(tensor, len(parts)) for tensor in (query, key, value))
    for part in parts:
        mask = _mask(part, query, key, pattern)
        own.shift(part.rows, mask.shift)
        grad_query, grad_key, grad_value = flash.backward(
            library,
            part.of_rows(grad),
            part.of_rows(query),
            part.of_columns(key),
            part.of_columns(value),
            mask.bias,
            part.of_rows(out),
            part.of_rows(lse),
            part.mask == "past",
            scale,
        )
        for_query.add(part.rows, grad_query.flip(2) if part.reverse_rows else grad_query)
        for_key.add(part.columns, grad_key.flip(2) if part.reverse_columns else grad_key)
        for_value.add(part.columns, grad_value.flip(2) if part.reverse_columns else grad_value)
    grad_own_logit, grad_own_value = _own_gradients(grad, own.logit, own_value, out, lse, groups)
    return for_query.rounded(), for_key.rounded(), for_value.rounded(), grad_own_logit, grad_own_value


def _own_gradients(
    grad: Tensor, own_logit: Tensor, own_value: Tensor, out: Tensor, lse: Tensor, groups: int
) -> tuple[Tensor, Tensor]:
    """p = exp(own logit - lse): the own value gets p do, the own logit p (do . v' - do . o)."""
    share = torch.exp(own_logit - lse)[..., None]
    grad, exact_value = grad.to(lse.dtype), own_value.to(lse.dtype)
    if groups > 1:
        exact_value = exact_value.repeat_interleave(groups, dim=1)
    grad_own_logit = share[..., 0] * torch.sub(exact_value, out.to(lse.dtype)).mul_(grad).sum(-1)
    grad_own_value = empty_heads(own_value)
    to_value = grad * share
    grad_own_value.copy_(to_value.unflatten(1, (-1, groups)).sum(2) if groups > 1 else to_value)
    return grad_own_logit, grad_own_value


class _Total:
    """A gradient summed over parts: 0 where there is no part, and rounded once however many parts there are."""

    def __init__(self, like: Tensor, parts: int) -> None:
        self._dtype = like.dtype
        dtype = flash.lse_dtype(like.dtype) if parts > 1 else like.dtype
        self._sum = empty_heads(like, dtype)
        if parts != 1:
            self._sum.zero_()
        self._is_sum = parts > 1

    def add(self, where: slice, term: Tensor) -> None:
        if self._is_sum:
            self._sum[:, :, where].add_(term)
            return
        self._sum[:, :, : where.start].zero_()
        self._sum[:, :, where].copy_(term)
        self._sum[:, :, where.stop :].zero_()

    def rounded(self) -> Tensor:
        return self._sum.to(self._dtype)
