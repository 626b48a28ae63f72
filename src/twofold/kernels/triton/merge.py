"""Kernels that turn a library's attention over the others into split attention: one pass after it, forward and backward.

FIRST is the first row that has others: 1 in the causal case, whose tensors from the library begin there, else 0. Rows of a
(batch, head) are independent, so a kernel may write where it has read.
"""

import triton
import triton.language as tl

from twofold.kernels.triton.tiles import LN2, LOG2E, load_rows, store_rows


@triton.jit
def _load_part(pointer, rows, stride, first, last, width, WIDTH: tl.constexpr):
    """Rows of a tensor that holds rows first .. last alone; 0 for the others. In float32."""
    d = tl.arange(0, WIDTH)
    inside = ((rows >= first) & (rows <= last))[:, None] & (d < width)[None, :]
    tile = tl.load(pointer + (rows[:, None].to(tl.int64) - first) * stride + d[None, :], mask=inside, other=0.0)
    return tile.to(tl.float32)


@triton.jit
def merge_kernel(
    p_query, p_self_key, p_self_value, p_others, p_others_lse, p_later, p_later_lse, p_out, p_lse, p_own,
    s_query_b, s_query_h, s_query_t, s_self_key_b, s_self_key_h, s_self_key_t,
    s_self_value_b, s_self_value_h, s_self_value_t, s_others_b, s_others_h, s_others_t, s_later_b, s_later_h, s_later_t,
    s_out_b, s_out_h, s_out_t,
    H, T, width, scale,
    FIRST: tl.constexpr, OTHERS_FROM: tl.constexpr, LATER: tl.constexpr,
    GROUPS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr,
):  # fmt: skip
    """Output, log-sum-exp and own weight of every row, from attention over others, perhaps over later ones, and itself.

    `others` holds rows from OTHERS_FROM on; with LATER, `later` holds all rows but the last.
    """
    batch, head = (tl.program_id(1) // H).to(tl.int64), (tl.program_id(1) % H).to(tl.int64)
    kv_head = head // GROUPS
    along = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * ROWS
    rows = first + tl.arange(0, ROWS)
    query = load_rows(
        p_query + batch * s_query_b + head * s_query_h, first, s_query_t, T, width, ROWS, WIDTH, EXACT_WIDTH, True
    )
    self_key = load_rows(
        p_self_key + batch * s_self_key_b + kv_head * s_self_key_h, first, s_self_key_t, T, width, ROWS, WIDTH,
        EXACT_WIDTH, True,
    )  # fmt: skip
    self_value = load_rows(
        p_self_value + batch * s_self_value_b + kv_head * s_self_value_h, first, s_self_value_t, T, width, ROWS, WIDTH,
        EXACT_WIDTH, True,
    )  # fmt: skip
    others = _load_part(
        p_others + batch * s_others_b + head * s_others_h, rows, s_others_t, OTHERS_FROM, T - 1, width, WIDTH
    )
    p_others_lse += along * (T - OTHERS_FROM) + rows - OTHERS_FROM
    others_lse = tl.load(p_others_lse, mask=(rows >= OTHERS_FROM) & (rows < T), other=float("-inf"))
    logit = tl.sum(query.to(tl.float32) * self_key.to(tl.float32), 1) * scale
    greatest = tl.maximum(logit, others_lse)
    if LATER:
        later = _load_part(p_later + batch * s_later_b + head * s_later_h, rows, s_later_t, 0, T - 2, width, WIDTH)
        later_lse = tl.load(p_later_lse + along * (T - 1) + rows, mask=rows < T - 1, other=float("-inf"))
        greatest = tl.maximum(greatest, later_lse)
    # All shares from differences of logarithms, as in `lse_merge`.
    own = tl.exp2((logit - greatest) * LOG2E)
    share = tl.exp2((others_lse - greatest) * LOG2E)
    total = own + share
    out = own[:, None] * self_value.to(tl.float32) + share[:, None] * others
    if LATER:
        share = tl.exp2((later_lse - greatest) * LOG2E)
        total += share
        out += share[:, None] * later
    out = out / total[:, None]
    store_rows(p_out + batch * s_out_b + head * s_out_h, out, first, s_out_t, T, width, ROWS, WIDTH, EXACT_WIDTH)
    tl.store(p_own + along * T + rows, own / total, mask=rows < T)
    lse = greatest + tl.log2(total) * LN2
    tl.store(p_lse + along * (T - FIRST) + rows - FIRST, lse, mask=(rows >= FIRST) & (rows < T))


@triton.jit
def finish_kernel(
    p_query, p_self_key, p_self_value, p_out, p_grad, p_own, p_others,
    p_grad_query, p_grad_self_key, p_grad_self_value,
    s_query_b, s_query_h, s_query_t, s_self_key_b, s_self_key_h, s_self_key_t,
    s_self_value_b, s_self_value_h, s_self_value_t, s_out_b, s_out_h, s_out_t, s_grad_b, s_grad_h, s_grad_t,
    s_others_b, s_others_h, s_others_t, s_grad_query_b, s_grad_query_h, s_grad_query_t, s_new_b, s_new_h, s_new_t,
    H, T, width, scale,
    FIRST: tl.constexpr, GROUPS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr,
):  # fmt: skip
    """Gradients of the own keys and values, and the own logit's share of those of the queries.

    `others` is the library's gradient of the queries. A program holds a key/value head and walks over its query heads.
    """
    kv_heads = H // GROUPS
    batch, kv_head = (tl.program_id(1) // kv_heads).to(tl.int64), (tl.program_id(1) % kv_heads).to(tl.int64)
    first = tl.program_id(0) * ROWS
    rows = first + tl.arange(0, ROWS)
    self_key = load_rows(
        p_self_key + batch * s_self_key_b + kv_head * s_self_key_h, first, s_self_key_t, T, width, ROWS, WIDTH,
        EXACT_WIDTH, True,
    ).to(tl.float32)  # fmt: skip
    self_value = load_rows(
        p_self_value + batch * s_self_value_b + kv_head * s_self_value_h, first, s_self_value_t, T, width, ROWS, WIDTH,
        EXACT_WIDTH, True,
    ).to(tl.float32)  # fmt: skip
    grad_self_key = tl.zeros([ROWS, WIDTH], tl.float32)
    grad_self_value = tl.zeros([ROWS, WIDTH], tl.float32)
    for group in range(GROUPS):
        head = kv_head * GROUPS + group
        query = load_rows(
            p_query + batch * s_query_b + head * s_query_h, first, s_query_t, T, width, ROWS, WIDTH, EXACT_WIDTH, True
        ).to(tl.float32)
        out = load_rows(
            p_out + batch * s_out_b + head * s_out_h, first, s_out_t, T, width, ROWS, WIDTH, EXACT_WIDTH, True
        ).to(tl.float32)
        grad = load_rows(
            p_grad + batch * s_grad_b + head * s_grad_h, first, s_grad_t, T, width, ROWS, WIDTH, EXACT_WIDTH, True
        ).to(tl.float32)
        others = _load_part(
            p_others + batch * s_others_b + head * s_others_h, rows, s_others_t, FIRST, T - 1, width, WIDTH
        )
        own = tl.load(p_own + (batch * H + head) * T + rows, mask=rows < T, other=0.0)
        slope = own * tl.sum(grad * (self_value - out), 1) * scale
        new = p_grad_query + batch * s_grad_query_b + head * s_grad_query_h
        grad_query = others + slope[:, None] * self_key
        store_rows(new, grad_query, first, s_grad_query_t, T, width, ROWS, WIDTH, EXACT_WIDTH)
        grad_self_key += slope[:, None] * query
        grad_self_value += own[:, None] * grad
    new = batch * s_new_b + kv_head * s_new_h
    store_rows(p_grad_self_key + new, grad_self_key, first, s_new_t, T, width, ROWS, WIDTH, EXACT_WIDTH)
    store_rows(p_grad_self_value + new, grad_self_value, first, s_new_t, T, width, ROWS, WIDTH, EXACT_WIDTH)
