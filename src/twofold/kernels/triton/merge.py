"""Kernels around a library's causal attention that make it split attention: one pass before it, one after it.

The library attends from `shifted` queries (row i - 1 holds query i, the last row nothing) over all keys, so its ordinary
causal mask lets query i see its strict past, every size stays a multiple of what it was, and the library's gradients of
key and value are final. These kernels read and write each tensor once. Rows of a (batch, head) are independent.
"""

import triton
import triton.language as tl

from twofold.kernels.triton.tiles import LN2, LOG2E, load_rows, store_rows

# The log-sum-exp of the row that holds no query: large enough for all its weights to be 0.
NO_QUERY = tl.constexpr(1.0e30)


@triton.jit
def _store_shifted(pointer, tile, rows, stride, T, width, WIDTH: tl.constexpr):
    """Row i to row i - 1; zeros to the last row."""
    d = tl.arange(0, WIDTH)
    address = pointer + (rows[:, None].to(tl.int64) - 1) * stride + d[None, :]
    tile = tile.to(pointer.dtype.element_ty)
    tl.store(address, tile, mask=((rows > 0) & (rows < T))[:, None] & (d < width)[None, :])
    tl.store(address + stride, tile * 0.0, mask=(rows == T - 1)[:, None] & (d < width)[None, :])


@triton.jit
def _load_shifted(pointer, rows, stride, T, width, WIDTH: tl.constexpr):
    """Row i - 1 as row i; zeros for row 0."""
    d = tl.arange(0, WIDTH)
    inside = ((rows > 0) & (rows < T))[:, None] & (d < width)[None, :]
    return tl.load(pointer + (rows[:, None].to(tl.int64) - 1) * stride + d[None, :], mask=inside, other=0.0)


@triton.jit
def prepare_kernel(
    p_query, p_self_key, p_shifted, p_logit,
    s_query_b, s_query_h, s_query_t, s_self_key_b, s_self_key_h, s_self_key_t, s_shifted_b, s_shifted_h, s_shifted_t,
    H, T, width, scale,
    GROUPS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr,
):  # fmt: skip
    """Own logits, and the shifted queries."""
    batch, head = (tl.program_id(1) // H).to(tl.int64), (tl.program_id(1) % H).to(tl.int64)
    first = tl.program_id(0) * ROWS
    rows = first + tl.arange(0, ROWS)
    query = load_rows(
        p_query + batch * s_query_b + head * s_query_h, first, s_query_t, T, width, ROWS, WIDTH, EXACT_WIDTH, True
    )
    self_key = load_rows(
        p_self_key + batch * s_self_key_b + head // GROUPS * s_self_key_h, first, s_self_key_t, T, width, ROWS, WIDTH,
        EXACT_WIDTH, True,
    )  # fmt: skip
    logit = tl.sum(query.to(tl.float32) * self_key.to(tl.float32), 1) * scale
    tl.store(p_logit + tl.program_id(1).to(tl.int64) * T + rows, logit, mask=rows < T)
    new = p_shifted + batch * s_shifted_b + head * s_shifted_h
    _store_shifted(new, query, rows, s_shifted_t, T, width, WIDTH)


@triton.jit
def merge_kernel(
    p_others, p_others_lse, p_logit, p_self_value, p_out, p_lse, p_own,
    s_others_b, s_others_h, s_others_t, s_self_value_b, s_self_value_h, s_self_value_t, s_out_b, s_out_h, s_out_t,
    H, T, width,
    GROUPS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr,
):  # fmt: skip
    """Output, shifted log-sum-exp and own weight of every row, from the others' output and the own logit."""
    batch, head = (tl.program_id(1) // H).to(tl.int64), (tl.program_id(1) % H).to(tl.int64)
    along = tl.program_id(1).to(tl.int64) * T
    first = tl.program_id(0) * ROWS
    rows = first + tl.arange(0, ROWS)
    others = _load_shifted(p_others + batch * s_others_b + head * s_others_h, rows, s_others_t, T, width, WIDTH)
    others_lse = tl.load(p_others_lse + along + rows - 1, mask=(rows > 0) & (rows < T), other=float("-inf"))
    logit = tl.load(p_logit + along + rows, mask=rows < T, other=0.0)
    self_value = load_rows(
        p_self_value + batch * s_self_value_b + head // GROUPS * s_self_value_h, first, s_self_value_t, T, width, ROWS, WIDTH,
        EXACT_WIDTH, True,
    )  # fmt: skip
    # Both shares from the difference of the logarithms, as in `parts`.
    apart = (others_lse - logit) * LOG2E
    own = 1.0 / (1.0 + tl.exp2(apart))
    taken = 1.0 / (1.0 + tl.exp2(-apart))
    greatest = tl.maximum(logit, others_lse)
    lse = greatest + tl.log2(tl.exp2((logit - greatest) * LOG2E) + tl.exp2((others_lse - greatest) * LOG2E)) * LN2
    out = own[:, None] * self_value.to(tl.float32) + taken[:, None] * others.to(tl.float32)
    store_rows(p_out + batch * s_out_b + head * s_out_h, out, first, s_out_t, T, width, ROWS, WIDTH, EXACT_WIDTH)
    tl.store(p_own + along + rows, own, mask=rows < T)
    tl.store(p_lse + along + rows - 1, lse, mask=(rows > 0) & (rows < T))
    tl.store(p_lse + along + rows, lse * 0.0 + NO_QUERY, mask=rows == T - 1)


@triton.jit
def own_backward_kernel(
    p_grad, p_out, p_self_value, p_own, p_grad_self_value, p_grad_logit, p_grad_shifted, p_out_shifted,
    s_grad_b, s_grad_h, s_grad_t, s_out_b, s_out_h, s_out_t, s_self_value_b, s_self_value_h, s_self_value_t,
    s_shifted_b, s_shifted_h, s_shifted_t, s_new_b, s_new_h, s_new_t,
    H, T, width,
    GROUPS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr,
):  # fmt: skip
    """Gradients of the own values and logits, and output and its gradient shifted; a program holds a key/value head."""
    kv_heads = H // GROUPS
    batch, kv_head = (tl.program_id(1) // kv_heads).to(tl.int64), (tl.program_id(1) % kv_heads).to(tl.int64)
    first = tl.program_id(0) * ROWS
    rows = first + tl.arange(0, ROWS)
    self_value = load_rows(
        p_self_value + batch * s_self_value_b + kv_head * s_self_value_h, first, s_self_value_t, T, width, ROWS, WIDTH,
        EXACT_WIDTH, True,
    ).to(tl.float32)  # fmt: skip
    grad_self_value = tl.zeros([ROWS, WIDTH], tl.float32)
    for group in range(GROUPS):
        head = kv_head * GROUPS + group
        along = (batch * H + head) * T
        shifted = batch * s_shifted_b + head * s_shifted_h
        grad = load_rows(
            p_grad + batch * s_grad_b + head * s_grad_h, first, s_grad_t, T, width, ROWS, WIDTH, EXACT_WIDTH, True
        )
        out = load_rows(
            p_out + batch * s_out_b + head * s_out_h, first, s_out_t, T, width, ROWS, WIDTH, EXACT_WIDTH, True
        )
        _store_shifted(p_grad_shifted + shifted, grad, rows, s_shifted_t, T, width, WIDTH)
        _store_shifted(p_out_shifted + shifted, out, rows, s_shifted_t, T, width, WIDTH)
        own = tl.load(p_own + along + rows, mask=rows < T, other=0.0)
        grad_self_value += own[:, None] * grad.to(tl.float32)
        grad_logit = own * tl.sum(grad.to(tl.float32) * (self_value - out.to(tl.float32)), 1)
        tl.store(p_grad_logit + along + rows, grad_logit, mask=rows < T)
    new = p_grad_self_value + batch * s_new_b + kv_head * s_new_h
    store_rows(new, grad_self_value, first, s_new_t, T, width, ROWS, WIDTH, EXACT_WIDTH)


@triton.jit
def finish_kernel(
    p_grad_shifted, p_grad_logit, p_query, p_self_key, p_grad_query, p_grad_self_key,
    s_shifted_b, s_shifted_h, s_shifted_t, s_query_b, s_query_h, s_query_t, s_self_key_b, s_self_key_h, s_self_key_t,
    s_grad_query_b, s_grad_query_h, s_grad_query_t, s_new_b, s_new_h, s_new_t,
    H, T, width, scale,
    GROUPS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, EXACT_WIDTH: tl.constexpr,
):  # fmt: skip
    """Gradients of queries, back in place and with the own logit's share, and of the own keys."""
    kv_heads = H // GROUPS
    batch, kv_head = (tl.program_id(1) // kv_heads).to(tl.int64), (tl.program_id(1) % kv_heads).to(tl.int64)
    first = tl.program_id(0) * ROWS
    rows = first + tl.arange(0, ROWS)
    self_key = load_rows(
        p_self_key + batch * s_self_key_b + kv_head * s_self_key_h, first, s_self_key_t, T, width, ROWS, WIDTH,
        EXACT_WIDTH, True,
    ).to(tl.float32)  # fmt: skip
    grad_self_key = tl.zeros([ROWS, WIDTH], tl.float32)
    for group in range(GROUPS):
        head = kv_head * GROUPS + group
        grad = _load_shifted(
            p_grad_shifted + batch * s_shifted_b + head * s_shifted_h, rows, s_shifted_t, T, width, WIDTH
        )
        slope = tl.load(p_grad_logit + (batch * H + head) * T + rows, mask=rows < T, other=0.0) * scale
        query = load_rows(
            p_query + batch * s_query_b + head * s_query_h, first, s_query_t, T, width, ROWS, WIDTH, EXACT_WIDTH, True
        )
        grad_query = grad.to(tl.float32) + slope[:, None] * self_key
        new = p_grad_query + batch * s_grad_query_b + head * s_grad_query_h
        store_rows(new, grad_query, first, s_grad_query_t, T, width, ROWS, WIDTH, EXACT_WIDTH)
        grad_self_key += slope[:, None] * query.to(tl.float32)
    new = p_grad_self_key + batch * s_new_b + kv_head * s_new_h
    store_rows(new, grad_self_key, first, s_new_t, T, width, ROWS, WIDTH, EXACT_WIDTH)
