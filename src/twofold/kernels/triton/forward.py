"""The forward kernel: an ordinary flash loop whose running softmax starts at the own slot.

A program holds ROWS queries of one head: greatest score m = own score, sum l = 1, output = own value; then it loops
over the other keys. Unless attn_mask hides the own slot no row is ever empty, and nothing is merged afterwards.
"""

import triton
import triton.language as tl

from twofold.kernels.triton.tiles import (
    LOG2E,
    capped,
    column_range,
    kept,
    load_head,
    load_rows,
    mask_entries,
    other_scores,
    row_shift,
    store_rows,
)


@triton.jit
def _walk(
    start, stop, gap_at, gap, m, l, out, query, shift, p_key, s_key, p_value, s_value, rows, p_mask, s_mask_row, s_mask_column,
    p_segments, seed, T, S, width, scale, softcap, dropout, window,
    MASKED: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
    IS_CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, MASK: tl.constexpr,
    SOFTCAP: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Add the keys and values from start to stop to the running softmax. MASKED: some pairs are hidden.

    From gap_at on, `gap` columns are skipped: a single loop over the columns left and right of the own slots keeps its
    pipeline full.
    """
    for step in range(start, stop, COLUMNS):
        first = step if MASKED else tl.where(step < gap_at, step, step + gap)
        columns = first + tl.arange(0, COLUMNS)
        limit = S if MASKED else first + COLUMNS
        key = load_rows(p_key, first, s_key, limit, width, COLUMNS, WIDTH, EXACT_WIDTH, MASKED)
        value = load_rows(p_value, first, s_value, limit, width, COLUMNS, WIDTH, EXACT_WIDTH, MASKED)
        products = tl.dot(query, key.T, input_precision=PRECISION)
        if SOFTCAP:
            scores = capped(products * scale, softcap, SOFTCAP) * LOG2E
        else:
            scores = products * (scale * LOG2E)
        if MASKED:
            scores = other_scores(
                scores, rows[:, None], columns[None, :], shift[:, None], p_mask, s_mask_row, s_mask_column, p_segments,
                T, S, window, IS_CAUSAL, WINDOW, SEGMENTS, MASK,
            )  # fmt: skip
        if MASKED or SOFTCAP:
            highest = tl.max(scores, 1)
        else:
            # A scale is never below 0, so the greatest score is that of the greatest product: one factor a row.
            highest = tl.max(products, 1) * (scale * LOG2E)
        greatest = tl.maximum(m, highest)
        # A row that has seen nothing yet: exp2(-inf - -inf) would be NaN.
        base = tl.where(greatest == float("-inf"), 0.0, greatest) if MASKED else greatest
        weights = tl.exp2(scores - base[:, None])
        shrink = tl.exp2(m - base)
        l = l * shrink + tl.sum(weights, 1)
        if DROPOUT:
            weights = weights * kept(seed, rows[:, None], columns[None, :], S, dropout)
        out = tl.dot(weights.to(value.dtype), value, out * shrink[:, None], input_precision=PRECISION)
        m = greatest
    return m, l, out


@triton.jit
def forward_kernel(
    p_query, p_key, p_value, p_self_key, p_self_value, p_out, p_softmax, p_mask, p_segments, p_seed,
    s_query_b, s_query_h, s_query_t, s_key_b, s_key_h, s_key_t, s_value_b, s_value_h, s_value_t,
    s_self_key_b, s_self_key_h, s_self_key_t, s_self_value_b, s_self_value_h, s_self_value_t,
    s_out_b, s_out_h, s_out_t, s_mask_b, s_mask_h, s_mask_row, s_mask_column, s_softmax,
    H, T, S, width, scale, softcap, dropout, window,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    WHOLE: tl.constexpr, IS_CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, MASK: tl.constexpr,
    SOFTCAP: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    # The last rows of a causal call have the most work: start with them.
    block = tl.num_programs(0) - 1 - tl.program_id(0) if IS_CAUSAL else tl.program_id(0)
    batch, head = (tl.program_id(1) // H).to(tl.int64), (tl.program_id(1) % H).to(tl.int64)
    kv_head = head // GROUPS
    first_own = S - T
    first_row = block * ROWS
    rows = first_row + tl.arange(0, ROWS)
    last_row = tl.minimum(first_row + ROWS, T) - 1
    p_key += batch * s_key_b + kv_head * s_key_h
    p_value += batch * s_value_b + kv_head * s_value_h
    p_mask += batch * s_mask_b + head * s_mask_h
    p_segments += batch * T
    p_softmax += tl.program_id(1).to(tl.int64) * T
    seed = 0
    if DROPOUT:
        seed = tl.load(p_seed) + tl.program_id(1)
    left, right = column_range(first_row, last_row, S, first_own, window, COLUMNS, IS_CAUSAL, WINDOW)

    query = load_head(
        p_query, batch, head, s_query_b, s_query_h, s_query_t, first_row, T, width, ROWS, WIDTH, EXACT_WIDTH, not WHOLE
    )  # fmt: skip
    self_key = load_head(
        p_self_key, batch, kv_head, s_self_key_b, s_self_key_h, s_self_key_t, first_row, T, width,
        ROWS, WIDTH, EXACT_WIDTH, not WHOLE
    )  # fmt: skip
    m = capped(tl.sum(query.to(tl.float32) * self_key.to(tl.float32), 1) * scale, softcap, SOFTCAP) * LOG2E
    shift = m * 0.0
    if MASK != "none":
        if MASK == "float":
            shift = row_shift(
                left, right, rows, p_mask, s_mask_row, s_mask_column, p_segments, T, S, window,
                COLUMNS, IS_CAUSAL, WINDOW, SEGMENTS,
            )  # fmt: skip
            tl.store(p_softmax + s_softmax + rows, shift, mask=rows < T)
        m += mask_entries(p_mask, s_mask_row, s_mask_column, rows, rows + first_own, shift, T, S, MASK)
    l = tl.where(m == float("-inf"), 0.0, 1.0)
    self_value = load_head(
        p_self_value, batch, kv_head, s_self_value_b, s_self_value_h, s_self_value_t, first_row, T, width,
        ROWS, WIDTH, EXACT_WIDTH, not WHOLE
    )  # fmt: skip
    out = self_value.to(tl.float32) * l[:, None]
    if DROPOUT:
        out = out * kept(seed, rows, rows + first_own, S, dropout)[:, None]

    # Blocks with own slots lie between near and far; outside them, without masks, nothing is hidden.
    ALL_MASKED: tl.constexpr = WINDOW or SEGMENTS or MASK != "none"
    near, far = left, right
    whole = right
    if not ALL_MASKED:
        near = (first_row + first_own) // COLUMNS * COLUMNS
        far = tl.minimum(right, tl.cdiv(last_row + first_own + 1, COLUMNS) * COLUMNS)
        whole = far if IS_CAUSAL else tl.maximum(far, S // COLUMNS * COLUMNS)
        m, l, out = _walk(
            left, whole - (far - near), near, far - near, m, l, out, query, shift, p_key, s_key_t, p_value, s_value_t, rows,
            p_mask, s_mask_row, s_mask_column, p_segments, seed, T, S, width, scale, softcap, dropout, window,
            False, WIDTH, EXACT_WIDTH, COLUMNS, IS_CAUSAL, WINDOW, SEGMENTS, MASK, SOFTCAP, DROPOUT, PRECISION,
        )  # fmt: skip
    m, l, out = _walk(
        near, far, 0, 0, m, l, out, query, shift, p_key, s_key_t, p_value, s_value_t, rows,
        p_mask, s_mask_row, s_mask_column, p_segments, seed, T, S, width, scale, softcap, dropout, window,
        True, WIDTH, EXACT_WIDTH, COLUMNS, IS_CAUSAL, WINDOW, SEGMENTS, MASK, SOFTCAP, DROPOUT, PRECISION,
    )  # fmt: skip
    if not (IS_CAUSAL or ALL_MASKED or WHOLE):
        m, l, out = _walk(
            whole, S, 0, 0, m, l, out, query, shift, p_key, s_key_t, p_value, s_value_t, rows,
            p_mask, s_mask_row, s_mask_column, p_segments, seed, T, S, width, scale, softcap, dropout, window,
            True, WIDTH, EXACT_WIDTH, COLUMNS, IS_CAUSAL, WINDOW, SEGMENTS, MASK, SOFTCAP, DROPOUT, PRECISION,
        )  # fmt: skip

    if MASK != "none":
        # Only here can a row have seen nothing at all: output 0, and every weight exp2(-inf - inf) = 0.
        empty = l == 0.0
        l = tl.where(empty, 1.0, l)
        m = tl.where(empty, float("inf"), m)
    store_rows(
        p_out + batch * s_out_b + head * s_out_h,
        out / l[:, None],
        first_row,
        s_out_t,
        T,
        width,
        ROWS,
        WIDTH,
        EXACT_WIDTH,
    )
    tl.store(p_softmax + rows, m + tl.log2(l), mask=rows < T)
