"""The backward kernels: one per tile of rows (gradients of queries and, without groups, of own keys and values), one per
tile of columns (keys and values), and with grouped heads a third for own keys and values.

None needs atomics, so results are deterministic. With the final softmax every weight p is known at once, and
ds = p (kept * do . v - delta) with delta = do . o; the rows kernel computes delta and stores it for the other.
"""

import triton
import triton.language as tl

from twofold.kernels.triton.tiles import (
    LOG2E,
    cap_slope,
    capped,
    column_range,
    kept,
    load_head,
    load_rows,
    mask_entries,
    other_scores,
    row_range,
    store_rows,
)


@triton.jit
def _weights(
    raw, rows, columns, lse, shift, p_mask, s_mask_row, s_mask_column, p_segments, T, S, scale, softcap,
    window, MASKED: tl.constexpr, IS_CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr,
    MASK: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    """Weights of a tile of products q . k, and the slope of the softcap there; the rows' numbers broadcast."""
    slope = 1.0
    if SOFTCAP:
        bent = capped(raw * scale, softcap, SOFTCAP)
        slope = cap_slope(bent, softcap, SOFTCAP)
        scores = bent * LOG2E
    else:
        scores = raw * (scale * LOG2E)
    if MASKED:
        scores = other_scores(
            scores, rows, columns, shift, p_mask, s_mask_row, s_mask_column, p_segments, T, S, window, IS_CAUSAL,
            WINDOW, SEGMENTS, MASK,
        )  # fmt: skip
    return tl.exp2(scores - lse), slope


@triton.jit
def _walk_columns(
    start, stop, gap_at, gap, grad_query, query, grad, delta, lse, shift, p_key, s_key, p_value, s_value, rows,
    p_mask, s_mask_row, s_mask_column, p_segments, seed, T, S, width, scale, softcap, dropout, window,
    MASKED: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
    IS_CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, MASK: tl.constexpr,
    SOFTCAP: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What the keys from start to stop add to the gradient of a tile of queries; gap as in the forward kernel."""
    for step in range(start, stop, COLUMNS):
        first = step if MASKED else tl.where(step < gap_at, step, step + gap)
        columns = first + tl.arange(0, COLUMNS)
        limit = S if MASKED else first + COLUMNS
        key = load_rows(p_key, first, s_key, limit, width, COLUMNS, WIDTH, EXACT_WIDTH, MASKED)
        value = load_rows(p_value, first, s_value, limit, width, COLUMNS, WIDTH, EXACT_WIDTH, MASKED)
        raw = tl.dot(query, key.T, input_precision=PRECISION)
        weights, slope = _weights(
            raw, rows[:, None], columns[None, :], lse[:, None], shift[:, None], p_mask,
            s_mask_row, s_mask_column, p_segments, T, S, scale, softcap, window,
            MASKED, IS_CAUSAL, WINDOW, SEGMENTS, MASK, SOFTCAP,
        )  # fmt: skip
        grad_weights = tl.dot(grad, value.T, input_precision=PRECISION)
        if DROPOUT:
            grad_weights = grad_weights * kept(seed, rows[:, None], columns[None, :], S, dropout)
        grad_scores = weights * (grad_weights - delta[:, None]) * slope
        grad_query = tl.dot(grad_scores.to(key.dtype), key, grad_query, input_precision=PRECISION)
    return grad_query


@triton.jit
def _own_gradients(
    query, grad, self_key, self_value, delta, lse, shift, rows, p_mask, s_mask_row, s_mask_column, seed, T, S, scale,
    softcap, dropout, MASK: tl.constexpr, SOFTCAP: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """Of a tile of rows: the own weight as the value meets it, and the gradient of the own score before its scale."""
    own = capped(tl.sum(query.to(tl.float32) * self_key, 1) * scale, softcap, SOFTCAP)
    slope = cap_slope(own, softcap, SOFTCAP)
    own = own * LOG2E
    if MASK != "none":
        own += mask_entries(p_mask, s_mask_row, s_mask_column, rows, rows + (S - T), shift, T, S, MASK)
    weight = tl.exp2(own - lse)
    stays = weight * 0.0 + 1.0
    if DROPOUT:
        stays = kept(seed, rows, rows + (S - T), S, dropout)
    grad_own = weight * (stays * tl.sum(grad.to(tl.float32) * self_value, 1) - delta) * slope
    return weight * stays, grad_own


@triton.jit
def rows_kernel(
    p_query, p_key, p_value, p_self_key, p_self_value, p_out, p_grad, p_softmax, p_delta, p_mask, p_segments, p_seed,
    p_grad_query, p_grad_self_key, p_grad_self_value,
    s_query_b, s_query_h, s_query_t, s_key_b, s_key_h, s_key_t, s_value_b, s_value_h, s_value_t,
    s_self_key_b, s_self_key_h, s_self_key_t, s_self_value_b, s_self_value_h, s_self_value_t,
    s_out_b, s_out_h, s_out_t, s_grad_b, s_grad_h, s_grad_t, s_mask_b, s_mask_h, s_mask_row, s_mask_column, s_softmax,
    s_new_b, s_new_h, s_new_t,
    H, T, S, width, scale, softcap, dropout, window,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    WHOLE: tl.constexpr, IS_CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, MASK: tl.constexpr,
    SOFTCAP: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradient of query, one tile of rows of one query head; without groups those of self_key and self_value too."""
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
    new = batch * s_new_b + head * s_new_h
    seed = 0
    if DROPOUT:
        seed = tl.load(p_seed) + tl.program_id(1)

    query = load_head(
        p_query, batch, head, s_query_b, s_query_h, s_query_t, first_row, T, width, ROWS, WIDTH, EXACT_WIDTH, not WHOLE
    )  # fmt: skip
    grad = load_head(
        p_grad, batch, head, s_grad_b, s_grad_h, s_grad_t, first_row, T, width, ROWS, WIDTH, EXACT_WIDTH, not WHOLE
    )  # fmt: skip
    out = load_head(
        p_out, batch, head, s_out_b, s_out_h, s_out_t, first_row, T, width, ROWS, WIDTH, EXACT_WIDTH, not WHOLE
    )  # fmt: skip
    delta = tl.sum(grad.to(tl.float32) * out.to(tl.float32), 1)
    tl.store(p_delta + tl.program_id(1).to(tl.int64) * T + rows, delta, mask=rows < T)
    lse = tl.load(p_softmax + rows, mask=rows < T, other=0.0)
    shift = lse * 0.0
    if MASK == "float":
        shift = tl.load(p_softmax + s_softmax + rows, mask=rows < T, other=0.0)

    self_key = load_head(
        p_self_key, batch, kv_head, s_self_key_b, s_self_key_h, s_self_key_t, first_row, T, width,
        ROWS, WIDTH, EXACT_WIDTH, not WHOLE
    ).to(tl.float32)  # fmt: skip
    self_value = load_head(
        p_self_value, batch, kv_head, s_self_value_b, s_self_value_h, s_self_value_t, first_row, T, width,
        ROWS, WIDTH, EXACT_WIDTH, not WHOLE
    ).to(tl.float32)  # fmt: skip
    own_weight, grad_own = _own_gradients(
        query, grad, self_key, self_value, delta, lse, shift, rows, p_mask, s_mask_row, s_mask_column, seed, T, S,
        scale, softcap, dropout, MASK, SOFTCAP, DROPOUT,
    )  # fmt: skip
    if GROUPS == 1:
        grad_value = own_weight[:, None] * grad.to(tl.float32)
        store_rows(p_grad_self_value + new, grad_value, first_row, s_new_t, T, width, ROWS, WIDTH, EXACT_WIDTH)
        grad_key = (grad_own * scale)[:, None] * query.to(tl.float32)
        store_rows(p_grad_self_key + new, grad_key, first_row, s_new_t, T, width, ROWS, WIDTH, EXACT_WIDTH)
    grad_query = grad_own[:, None] * self_key

    left, right = column_range(first_row, last_row, S, first_own, window, COLUMNS, IS_CAUSAL, WINDOW)
    ALL_MASKED: tl.constexpr = WINDOW or SEGMENTS or MASK != "none"
    near, far = left, right
    whole = right
    if not ALL_MASKED:
        near = (first_row + first_own) // COLUMNS * COLUMNS
        far = tl.minimum(right, tl.cdiv(last_row + first_own + 1, COLUMNS) * COLUMNS)
        whole = far if IS_CAUSAL else tl.maximum(far, S // COLUMNS * COLUMNS)
        grad_query = _walk_columns(
            left, whole - (far - near), near, far - near, grad_query, query, grad, delta, lse, shift,
            p_key, s_key_t, p_value, s_value_t, rows, p_mask, s_mask_row, s_mask_column, p_segments, seed, T, S, width,
            scale, softcap, dropout, window,
            False, WIDTH, EXACT_WIDTH, COLUMNS, IS_CAUSAL, WINDOW, SEGMENTS, MASK, SOFTCAP, DROPOUT, PRECISION,
        )  # fmt: skip
    grad_query = _walk_columns(
        near, far, 0, 0, grad_query, query, grad, delta, lse, shift,
        p_key, s_key_t, p_value, s_value_t, rows, p_mask, s_mask_row, s_mask_column, p_segments, seed, T, S, width,
        scale, softcap, dropout, window,
        True, WIDTH, EXACT_WIDTH, COLUMNS, IS_CAUSAL, WINDOW, SEGMENTS, MASK, SOFTCAP, DROPOUT, PRECISION,
    )  # fmt: skip
    if not (IS_CAUSAL or ALL_MASKED or WHOLE):
        grad_query = _walk_columns(
            whole, S, 0, 0, grad_query, query, grad, delta, lse, shift,
            p_key, s_key_t, p_value, s_value_t, rows, p_mask, s_mask_row, s_mask_column, p_segments, seed, T, S, width,
            scale, softcap, dropout, window,
            True, WIDTH, EXACT_WIDTH, COLUMNS, IS_CAUSAL, WINDOW, SEGMENTS, MASK, SOFTCAP, DROPOUT, PRECISION,
        )  # fmt: skip
    store_rows(p_grad_query + new, grad_query * scale, first_row, s_new_t, T, width, ROWS, WIDTH, EXACT_WIDTH)


@triton.jit
def _walk_rows(
    start, stop, gap_at, gap, grad_key, grad_value, key, value, p_query, s_query, p_grad, s_grad, p_softmax, s_softmax, p_delta,
    columns, p_mask, s_mask_row, s_mask_column, p_segments, seed, T, S, width, scale, softcap, dropout, window,
    MASKED: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr, ROWS: tl.constexpr,
    IS_CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, MASK: tl.constexpr,
    SOFTCAP: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What the queries from start to stop add to the gradients of a tile of keys and values; tiles lie (columns, rows)."""
    for step in range(start, stop, ROWS):
        first = step if MASKED else tl.where(step < gap_at, step, step + gap)
        rows = first + tl.arange(0, ROWS)
        limit = T if MASKED else first + ROWS
        query = load_rows(p_query, first, s_query, limit, width, ROWS, WIDTH, EXACT_WIDTH, MASKED)
        grad = load_rows(p_grad, first, s_grad, limit, width, ROWS, WIDTH, EXACT_WIDTH, MASKED)
        if MASKED:
            lse = tl.load(p_softmax + rows, mask=rows < T, other=0.0)
            delta = tl.load(p_delta + rows, mask=rows < T, other=0.0)
        else:
            lse = tl.load(p_softmax + rows)
            delta = tl.load(p_delta + rows)
        shift = lse * 0.0
        if MASK == "float":
            shift = tl.load(p_softmax + s_softmax + rows, mask=rows < limit, other=0.0)
        raw = tl.dot(key, query.T, input_precision=PRECISION)
        weights, slope = _weights(
            raw, rows[None, :], columns[:, None], lse[None, :], shift[None, :], p_mask,
            s_mask_row, s_mask_column, p_segments, T, S, scale, softcap, window,
            MASKED, IS_CAUSAL, WINDOW, SEGMENTS, MASK, SOFTCAP,
        )  # fmt: skip
        grad_weights = tl.dot(value, grad.T, input_precision=PRECISION)
        used = weights
        if DROPOUT:
            stays = kept(seed, rows[None, :], columns[:, None], S, dropout)
            grad_weights = grad_weights * stays
            used = weights * stays
        grad_value = tl.dot(used.to(grad.dtype), grad, grad_value, input_precision=PRECISION)
        grad_scores = weights * (grad_weights - delta[None, :]) * slope
        grad_key = tl.dot(grad_scores.to(query.dtype), query, grad_key, input_precision=PRECISION)
    return grad_key, grad_value


@triton.jit
def columns_kernel(
    p_query, p_key, p_value, p_grad, p_softmax, p_delta, p_mask, p_segments, p_seed, p_grad_key, p_grad_value,
    s_query_b, s_query_h, s_query_t, s_key_b, s_key_h, s_key_t, s_value_b, s_value_h, s_value_t,
    s_grad_b, s_grad_h, s_grad_t, s_mask_b, s_mask_h, s_mask_row, s_mask_column, s_softmax, s_new_b, s_new_h, s_new_t,
    H, T, S, width, scale, softcap, dropout, window,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    WHOLE: tl.constexpr, IS_CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, MASK: tl.constexpr,
    SOFTCAP: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of key and value, one tile of columns of one key/value head, over all query heads that share it."""
    kv_heads = H // GROUPS
    batch, kv_head = (tl.program_id(1) // kv_heads).to(tl.int64), (tl.program_id(1) % kv_heads).to(tl.int64)
    first_own = S - T
    first_column = tl.program_id(0) * COLUMNS
    columns = first_column + tl.arange(0, COLUMNS)
    last_column = tl.minimum(first_column + COLUMNS, S) - 1
    p_segments += batch * T
    key = load_head(
        p_key, batch, kv_head, s_key_b, s_key_h, s_key_t, first_column, S, width, COLUMNS, WIDTH, EXACT_WIDTH, not WHOLE
    )  # fmt: skip
    value = load_head(
        p_value, batch, kv_head, s_value_b, s_value_h, s_value_t, first_column, S, width,
        COLUMNS, WIDTH, EXACT_WIDTH, not WHOLE
    )  # fmt: skip
    grad_key = tl.zeros([COLUMNS, WIDTH], tl.float32)
    grad_value = tl.zeros([COLUMNS, WIDTH], tl.float32)
    top, bottom = row_range(first_column, last_column, T, first_own, window, ROWS, IS_CAUSAL, WINDOW)
    ALL_MASKED: tl.constexpr = WINDOW or SEGMENTS or MASK != "none"
    near, far = top, bottom
    if not ALL_MASKED:
        # Rows between near and far own one of the columns. A tile of columns that is not full is masked throughout.
        is_cut = last_column - first_column + 1 < COLUMNS
        first_owner, stop_owner = tl.maximum(0, first_column - first_own), tl.maximum(0, last_column - first_own + 1)
        near = tl.where(is_cut, top, tl.maximum(top, first_owner // ROWS * ROWS))
        far = tl.where(is_cut, bottom, tl.minimum(bottom, tl.maximum(near, tl.cdiv(stop_owner, ROWS) * ROWS)))
    whole = tl.maximum(far, T // ROWS * ROWS)
    for group in range(GROUPS):
        head = kv_head * GROUPS + group
        here = (batch * H + head) * T
        p_query_head = p_query + batch * s_query_b + head * s_query_h
        p_grad_head = p_grad + batch * s_grad_b + head * s_grad_h
        p_mask_head = p_mask + batch * s_mask_b + head * s_mask_h
        seed = 0
        if DROPOUT:
            seed = tl.load(p_seed) + (batch * H + head).to(tl.int32)
        if not ALL_MASKED:
            grad_key, grad_value = _walk_rows(
                top, whole - (far - near), near, far - near, grad_key, grad_value, key, value, p_query_head, s_query_t,
                p_grad_head, s_grad_t, p_softmax + here, s_softmax, p_delta + here, columns, p_mask_head, s_mask_row,
                s_mask_column, p_segments, seed, T, S, width, scale, softcap, dropout, window,
                False, WIDTH, EXACT_WIDTH, ROWS, IS_CAUSAL, WINDOW, SEGMENTS, MASK, SOFTCAP, DROPOUT, PRECISION,
            )  # fmt: skip
        grad_key, grad_value = _walk_rows(
            near, far, 0, 0, grad_key, grad_value, key, value, p_query_head, s_query_t,
            p_grad_head, s_grad_t, p_softmax + here, s_softmax, p_delta + here, columns, p_mask_head, s_mask_row,
            s_mask_column, p_segments, seed, T, S, width, scale, softcap, dropout, window,
            True, WIDTH, EXACT_WIDTH, ROWS, IS_CAUSAL, WINDOW, SEGMENTS, MASK, SOFTCAP, DROPOUT, PRECISION,
        )  # fmt: skip
        if not (ALL_MASKED or WHOLE):
            grad_key, grad_value = _walk_rows(
                whole, bottom, 0, 0, grad_key, grad_value, key, value, p_query_head, s_query_t,
                p_grad_head, s_grad_t, p_softmax + here, s_softmax, p_delta + here, columns, p_mask_head, s_mask_row,
                s_mask_column, p_segments, seed, T, S, width, scale, softcap, dropout, window,
                True, WIDTH, EXACT_WIDTH, ROWS, IS_CAUSAL, WINDOW, SEGMENTS, MASK, SOFTCAP, DROPOUT, PRECISION,
            )  # fmt: skip
    new = batch * s_new_b + kv_head * s_new_h
    store_rows(p_grad_key + new, grad_key * scale, first_column, s_new_t, S, width, COLUMNS, WIDTH, EXACT_WIDTH)
    store_rows(p_grad_value + new, grad_value, first_column, s_new_t, S, width, COLUMNS, WIDTH, EXACT_WIDTH)


@triton.jit
def own_kernel(
    p_query, p_self_key, p_self_value, p_grad, p_softmax, p_delta, p_mask, p_segments, p_seed,
    p_grad_self_key, p_grad_self_value,
    s_query_b, s_query_h, s_query_t, s_self_key_b, s_self_key_h, s_self_key_t,
    s_self_value_b, s_self_value_h, s_self_value_t, s_grad_b, s_grad_h, s_grad_t,
    s_mask_b, s_mask_h, s_mask_row, s_mask_column, s_softmax, s_new_b, s_new_h, s_new_t,
    H, T, S, width, scale, softcap, dropout, window,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    WHOLE: tl.constexpr, IS_CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, MASK: tl.constexpr,
    SOFTCAP: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of self_key and self_value, one tile of rows of one key/value head, over the query heads that share it."""
    kv_heads = H // GROUPS
    batch, kv_head = (tl.program_id(1) // kv_heads).to(tl.int64), (tl.program_id(1) % kv_heads).to(tl.int64)
    first_row = tl.program_id(0) * ROWS
    rows = first_row + tl.arange(0, ROWS)
    self_key = load_head(
        p_self_key, batch, kv_head, s_self_key_b, s_self_key_h, s_self_key_t, first_row, T, width,
        ROWS, WIDTH, EXACT_WIDTH, not WHOLE
    ).to(tl.float32)  # fmt: skip
    self_value = load_head(
        p_self_value, batch, kv_head, s_self_value_b, s_self_value_h, s_self_value_t, first_row, T, width,
        ROWS, WIDTH, EXACT_WIDTH, not WHOLE
    ).to(tl.float32)  # fmt: skip
    grad_self_key = tl.zeros([ROWS, WIDTH], tl.float32)
    grad_self_value = tl.zeros([ROWS, WIDTH], tl.float32)
    # Nothing here waits for a product, so the loads of several heads should be on their way at once.
    for group in tl.range(0, GROUPS, loop_unroll_factor=4):
        head = kv_head * GROUPS + group
        here = (batch * H + head) * T
        seed = 0
        if DROPOUT:
            seed = tl.load(p_seed) + (batch * H + head).to(tl.int32)
        query = load_head(
            p_query, batch, head, s_query_b, s_query_h, s_query_t, first_row, T, width, ROWS, WIDTH, EXACT_WIDTH, not WHOLE
        )  # fmt: skip
        grad = load_head(
            p_grad, batch, head, s_grad_b, s_grad_h, s_grad_t, first_row, T, width, ROWS, WIDTH, EXACT_WIDTH, not WHOLE
        )  # fmt: skip
        delta = tl.load(p_delta + here + rows, mask=rows < T, other=0.0)
        lse = tl.load(p_softmax + here + rows, mask=rows < T, other=0.0)
        shift = lse * 0.0
        if MASK == "float":
            shift = tl.load(p_softmax + here + s_softmax + rows, mask=rows < T, other=0.0)
        own_weight, grad_own = _own_gradients(
            query, grad, self_key, self_value, delta, lse, shift, rows, p_mask + batch * s_mask_b + head * s_mask_h,
            s_mask_row, s_mask_column, seed, T, S, scale, softcap, dropout, MASK, SOFTCAP, DROPOUT,
        )  # fmt: skip
        grad_self_value += own_weight[:, None] * grad.to(tl.float32)
        grad_self_key += (grad_own * scale)[:, None] * query.to(tl.float32)
    new = batch * s_new_b + kv_head * s_new_h
    store_rows(p_grad_self_key + new, grad_self_key, first_row, s_new_t, T, width, ROWS, WIDTH, EXACT_WIDTH)
    store_rows(p_grad_self_value + new, grad_self_value, first_row, s_new_t, T, width, ROWS, WIDTH, EXACT_WIDTH)
