"""Device functions of forward and backward: loading and storing rows, scores of a tile, masks and dropout.

Prefixes in these kernels: `p_` pointer, `s_` stride, `rows` and `columns` positions of queries and keys, `slots`
the keys' positions that the rows own. Scores live in base 2, so exp2 and log2 replace exp and log.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _addresses(pointer, first, stride, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """Of a tile: a 64-bit offset for its first row, then 32-bit offsets that are the same in every tile."""
    d = tl.arange(0, WIDTH)
    return pointer + tl.cast(first, tl.int64) * stride + (tl.arange(0, COUNT)[:, None] * stride + d[None, :])


@triton.jit
def load_rows(
    pointer, first, stride, limit, width,
    COUNT: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr, CHECKED: tl.constexpr,
):  # fmt: skip
    """Rows first .. first + COUNT of a tensor whose last dimension is dense; 0 outside. Not CHECKED: all are inside."""
    address = _addresses(pointer, first, stride, COUNT, WIDTH)
    positions, d = first + tl.arange(0, COUNT), tl.arange(0, WIDTH)
    if CHECKED and EXACT_WIDTH:
        tile = tl.load(address, mask=(positions < limit)[:, None], other=0.0)
    elif CHECKED:
        tile = tl.load(address, mask=(positions < limit)[:, None] & (d < width)[None, :], other=0.0)
    elif EXACT_WIDTH:
        tile = tl.load(address)
    else:
        tile = tl.load(address, mask=(d < width)[None, :], other=0.0)
    return tile


@triton.jit
def load_head(
    pointer, batch, head, s_b, s_h, s_t, first, limit, width,
    COUNT: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr, CHECKED: tl.constexpr,
):  # fmt: skip
    """`load_rows` of one head of one example."""
    return load_rows(pointer + batch * s_b + head * s_h, first, s_t, limit, width, COUNT, WIDTH, EXACT_WIDTH, CHECKED)


@triton.jit
def store_rows(
    pointer, tile, first, stride, limit, width, COUNT: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr
):
    positions, d = first + tl.arange(0, COUNT), tl.arange(0, WIDTH)
    inside = (positions < limit)[:, None]
    if not EXACT_WIDTH:
        inside = inside & (d < width)[None, :]
    tl.store(_addresses(pointer, first, stride, COUNT, WIDTH), tile.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def capped(scores, softcap, SOFTCAP: tl.constexpr):
    """softcap * tanh(scores / softcap), by an exponential that cannot overflow into NaN."""
    if SOFTCAP:
        scores = softcap * (1.0 - 2.0 / (tl.exp2(scores * (2.0 * LOG2E / softcap)) + 1.0))
    return scores


@triton.jit
def cap_slope(scores, softcap, SOFTCAP: tl.constexpr):
    """The derivative of `capped` where it has the value `scores`; 1 without a softcap."""
    slope = scores * 0.0 + 1.0
    if SOFTCAP:
        bent = scores / softcap
        slope = 1.0 - bent * bent
    return slope


@triton.jit
def mask_numbers(p_mask, s_row, s_column, rows, columns, T, S):
    """A float mask's numbers at these (row, column) pairs, natural base; -inf outside."""
    inside = (rows < T) & (columns < S)
    address = p_mask + rows.to(tl.int64) * s_row + columns.to(tl.int64) * s_column
    return tl.load(address, mask=inside, other=float("-inf")).to(tl.float32)


@triton.jit
def mask_entries(p_mask, s_row, s_column, rows, columns, shift, T, S, MASK: tl.constexpr):
    """What attn_mask adds to these (row, column) pairs, in base 2: 0 or -inf for a bool mask.

    `shift` is taken off a float mask's numbers; what was finite stays finite.
    """
    if MASK == "bool":
        inside = (rows < T) & (columns < S)
        address = p_mask + rows.to(tl.int64) * s_row + columns.to(tl.int64) * s_column
        added = tl.where(tl.load(address, mask=inside, other=0) != 0, 0.0, float("-inf"))
    else:
        numbers = mask_numbers(p_mask, s_row, s_column, rows, columns, T, S)
        added = tl.where(numbers == float("-inf"), numbers, tl.maximum((numbers - shift) * LOG2E, -3.0e38))
    return added


@triton.jit
def may_meet(
    rows, columns, p_segments, T, S, window, IS_CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr
):
    """Which queries may see which other keys, attn_mask aside; `rows` and `columns` broadcast, in either order."""
    slots = rows + (S - T)
    may = (columns != slots) & (columns < S) & (rows < T)
    if IS_CAUSAL:
        may = may & (columns < slots)
    if WINDOW:
        may = may & (columns >= slots - window) & (columns <= slots + window)
    if SEGMENTS:
        here = tl.load(p_segments + rows, mask=rows < T, other=-1)
        there = tl.load(p_segments + columns, mask=columns < S, other=-2)
        may = may & (here == there)
    return may


@triton.jit
def other_scores(
    scores, rows, columns, shift, p_mask, s_mask_row, s_mask_column, p_segments, T, S, window,
    IS_CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    """Base-2 scores of a tile with -inf for pairs that may not meet and for every row's own slot."""
    if MASK != "none":
        scores = scores + mask_entries(p_mask, s_mask_row, s_mask_column, rows, columns, shift, T, S, MASK)
    return tl.where(
        may_meet(rows, columns, p_segments, T, S, window, IS_CAUSAL, WINDOW, SEGMENTS), scores, float("-inf")
    )


@triton.jit
def row_shift(
    left, right, rows, p_mask, s_mask_row, s_mask_column, p_segments, T, S, window,
    COLUMNS: tl.constexpr, IS_CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr,
):  # fmt: skip
    """The maximum of a float mask over what each row may see, the own entry included; 0 where all are -inf.

    Subtracting it does not change softmax, but keeps the digits of scores in a row of finfo.min.
    """
    greatest = mask_numbers(p_mask, s_mask_row, s_mask_column, rows, rows + (S - T), T, S)
    for first in range(left, right, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        numbers = mask_numbers(p_mask, s_mask_row, s_mask_column, rows[:, None], columns[None, :], T, S)
        may = may_meet(rows[:, None], columns[None, :], p_segments, T, S, window, IS_CAUSAL, WINDOW, SEGMENTS)
        greatest = tl.maximum(greatest, tl.max(tl.where(may, numbers, float("-inf")), 1))
    return tl.where(greatest == float("-inf"), 0.0, greatest)


@triton.jit
def kept(seed, rows, columns, S, dropout):
    """1 / (1 - dropout) for weights that stay, 0 for dropped ones; the same in every call with the same seed."""
    drawn = tl.rand(seed, rows * S + columns)
    return tl.where(drawn >= dropout, 1.0 / (1.0 - dropout), 0.0)


@triton.jit
def column_range(
    first_row, last_row, S, first_own, window, BLOCK: tl.constexpr, IS_CAUSAL: tl.constexpr, WINDOW: tl.constexpr
):
    """Columns that any of the rows may see, the left end rounded down to a multiple of BLOCK."""
    left = 0
    right = S
    if IS_CAUSAL:
        right = tl.minimum(S, last_row + first_own)
    if WINDOW:
        left = tl.maximum(0, first_row + first_own - window) // BLOCK * BLOCK
        right = tl.minimum(right, last_row + first_own + window + 1)
    return left, right


@triton.jit
def row_range(
    first_column, last_column, T, first_own, window, BLOCK: tl.constexpr, IS_CAUSAL: tl.constexpr, WINDOW: tl.constexpr
):
    """Rows that may see any of the columns, the upper end rounded down to a multiple of BLOCK."""
    top = 0
    bottom = T
    if IS_CAUSAL:
        top = tl.maximum(0, first_column - first_own + 1) // BLOCK * BLOCK
    if WINDOW:
        top = tl.maximum(top, (tl.maximum(0, first_column - first_own - window)) // BLOCK * BLOCK)
        bottom = tl.minimum(T, last_column - first_own + window + 1)
    return top, bottom
