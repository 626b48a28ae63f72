"""One step of generation: one new token per sequence over its past in the cache and itself.

The first kernel attends to a share of the past per program, the second joins the shares and the token itself: as many
launches as a library's attention for one query has. Where the GPU can (Hopper and later), the second is launched while
the first still runs, and waits inside for its shares.

How much of the cache is filled is an int or, so that one CUDA graph serves every step, read from the device.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from twofold.kernels.library import empty_heads, unit_stride
from twofold.kernels.triton.launch import fits_pdl, launch, strides
from twofold.kernels.triton.tiles import LOG2E

# Warps and stages of the first kernel.
WARPS, STAGES = 4, 2
# Programs that fill a GPU once, and many times over, where a last incomplete wave costs little; and the most columns per
# program below and above that many.
PROGRAMS, MANY = 528, 12 * 528
LONG, LONGEST = 1024, 2048
# Columns of a tile: the wide one for narrow heads where a program has many columns.
COLUMNS, WIDE_COLUMNS, LONG_WAY = 64, 128, 640


@triton.jit(do_not_specialize=["length"])
def parts_kernel(
    p_query, p_key_cache, p_value_cache, p_mask, p_length, p_parts, p_greatest, p_total,
    s_query_b, s_query_h, s_query_t, s_key_b, s_key_h, s_key_t, s_value_b, s_value_h, s_value_t, s_mask_b, s_mask_t,
    kv_heads, width, scale, length,
    GROUPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
    COUNTED: tl.constexpr, MASKED: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """An equal share of the filled columns: unnormalised outputs, greatest scores and sums of one group of heads."""
    if OVERLAPS:
        gdc_launch_dependents()
    batch, head = (tl.program_id(0) // kv_heads).to(tl.int64), (tl.program_id(0) % kv_heads).to(tl.int64)
    part, rows, d = tl.program_id(1), tl.arange(0, ROWS), tl.arange(0, WIDTH)
    row_mask = (rows < GROUPS)[:, None] & (d < width)[None, :]
    p_query += batch * s_query_b + head * GROUPS * s_query_h
    query = tl.load(p_query + rows[:, None] * s_query_h + d[None, :], mask=row_mask, other=0.0)
    p_key_cache += batch * s_key_b + head * s_key_h
    p_value_cache += batch * s_value_b + head * s_value_h
    greatest = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    out = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
    filled = tl.load(p_length).to(tl.int32) if COUNTED else length
    share = tl.cdiv(tl.cdiv(filled, tl.num_programs(1)), COLUMNS) * COLUMNS
    end = tl.minimum((part + 1) * share, filled)
    for start in range(part * share, end, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        inside = (columns < end)[:, None] & (d < width)[None, :]
        far = columns[:, None].to(tl.int64)
        key = tl.load(p_key_cache + far * s_key_t + d[None, :], mask=inside, other=0.0)
        value = tl.load(p_value_cache + far * s_value_t + d[None, :], mask=inside, other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision="ieee") * (scale * LOG2E)
        seen = columns < end
        if MASKED:
            seen &= tl.load(p_mask + batch * s_mask_b + columns.to(tl.int64) * s_mask_t, mask=seen, other=0) != 0
        scores = tl.where(seen[None, :], scores, float("-inf"))
        risen = tl.maximum(greatest, tl.max(scores, 1))
        # Possibly nothing has been seen yet.
        level = tl.where(risen == float("-inf"), 0.0, risen)
        weights, kept = tl.exp2(scores - level[:, None]), tl.exp2(greatest - level)
        total = total * kept + tl.sum(weights, 1)
        out = tl.dot(weights.to(value.dtype), value, out * kept[:, None], input_precision="ieee")
        greatest = risen
    # (batch and query head, part, width)
    along = ((batch * kv_heads + head) * GROUPS + rows) * tl.num_programs(1) + part
    tl.store(p_parts + along[:, None] * width + d[None, :], out, mask=row_mask)
    tl.store(p_greatest + along, greatest, mask=rows < GROUPS)
    tl.store(p_total + along, total, mask=rows < GROUPS)


@triton.jit(do_not_specialize=["length"])
def join_kernel(
    p_query, p_self_key, p_self_value, p_mask, p_length, p_parts, p_greatest, p_total, p_out,
    s_query_b, s_query_h, s_query_t, s_self_key_b, s_self_key_h, s_self_key_t, s_self_value_b, s_self_value_h, s_self_value_t,
    s_mask_b, s_mask_t,
    heads, parts, width, scale, length,
    GROUPS: tl.constexpr, PARTS: tl.constexpr, WIDTH: tl.constexpr,
    COUNTED: tl.constexpr, MASKED: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """All parts and the token itself, one query head per program."""
    along = tl.program_id(0).to(tl.int64)
    batch, head = along // heads, along % heads
    kv_head, d = head // GROUPS, tl.arange(0, WIDTH)
    inside = d < width
    query = tl.load(p_query + batch * s_query_b + head * s_query_h + d, mask=inside, other=0.0).to(tl.float32)
    self_key = tl.load(p_self_key + batch * s_self_key_b + kv_head * s_self_key_h + d, mask=inside, other=0.0)
    self_value = tl.load(p_self_value + batch * s_self_value_b + kv_head * s_self_value_h + d, mask=inside, other=0.0)
    own = tl.sum(query * self_key.to(tl.float32), 0) * (scale * LOG2E)
    if MASKED:
        slot = tl.load(p_length).to(tl.int64) if COUNTED else tl.cast(length, tl.int64)
        own = tl.where(tl.load(p_mask + batch * s_mask_b + slot * s_mask_t) != 0, own, float("-inf"))
    if OVERLAPS:
        gdc_wait()
    part = tl.arange(0, PARTS)
    greatest = tl.load(p_greatest + along * parts + part, mask=part < parts, other=float("-inf"))
    total = tl.load(p_total + along * parts + part, mask=part < parts, other=0.0)
    tile = tl.load(
        p_parts + (along * parts + part)[:, None] * width + d[None, :],
        mask=(part < parts)[:, None] & inside[None, :], other=0.0,
    )  # fmt: skip
    highest = tl.maximum(tl.max(greatest, 0), own)
    if MASKED:
        highest = tl.where(highest == float("-inf"), 0.0, highest)
    shares, own_share = tl.exp2(greatest - highest), tl.exp2(own - highest)
    out = tl.sum(tile * shares[:, None], 0) + own_share * self_value.to(tl.float32)
    whole = tl.sum(total * shares, 0) + own_share
    # A token that may see nothing gets 0.
    out = out / tl.where(whole == 0, 1.0, whole)
    tl.store(p_out + along * width + d, out.to(p_out.dtype.element_ty), mask=inside)


def cut(length: int, heads: int, width: int) -> tuple[int, int]:
    """How many parts to cut a past of `length` slots into, for `heads` key heads in all, and a tile's columns (LOG.md)."""
    few, many = triton.cdiv(PROGRAMS, heads), triton.cdiv(MANY, heads)
    wanted = max(few, min(triton.cdiv(length, LONG), many), triton.cdiv(length, LONGEST))
    share = triton.cdiv(length, wanted)
    columns = WIDE_COLUMNS if share > LONG_WAY and width <= 64 else COLUMNS
    share = max(triton.cdiv(share, columns), 1) * columns
    return max(triton.cdiv(length, share), 1), columns


def step(
    query: Tensor,
    self_key: Tensor,
    self_value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    length: int | Tensor,
    scale: float,
    attn_mask: Tensor | None = None,
) -> Tensor:
    """Output (B, Hq, 1, D) of one token per sequence over the first `length` slots and itself.

    attn_mask: bool, (B or 1, 1, 1, at least length + 1), own slot at `length`.
    """
    query, self_key, self_value = map(unit_stride, (query, self_key, self_value))
    B, H, _, D = query.shape
    kv_heads = key_cache.shape[1]
    # The value of a length on the device is not known here: assume the whole cache.
    longest = key_cache.shape[2] if isinstance(length, Tensor) else length
    parts, columns = cut(longest, B * kv_heads, D)
    outs, greatest, total = (
        torch.empty((B, H, parts, *rest), dtype=torch.float32, device=query.device) for rest in ((D,), (), ())
    )
    # An absent counter or mask is replaced by the query, which the kernel does not read in its place.
    counter, number = (length, 0) if isinstance(length, Tensor) else (query, length)
    mask, mask_strides = query, (0, 0)
    if attn_mask is not None:
        mask = attn_mask.view(torch.uint8)
        mask_strides = mask.stride(0) if mask.shape[0] > 1 else 0, mask.stride(3)
    groups, width = H // kv_heads, max(triton.next_power_of_2(D), 16)
    overlaps = fits_pdl(query.device)
    switches = {
        "GROUPS": groups,
        "WIDTH": width,
        "COUNTED": counter is length,
        "MASKED": attn_mask is not None,
        "OVERLAPS": overlaps,
    }
    launch(
        parts_kernel, (B * kv_heads, parts),
        (query, key_cache, value_cache, mask, counter, outs, greatest, total),
        (*strides(query, key_cache, value_cache), *mask_strides, kv_heads, D, scale), free=(number,),
        ROWS=max(triton.next_power_of_2(groups), 16), COLUMNS=columns, **switches,
        num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    out = empty_heads(query)
    launch(
        join_kernel, (B * H,),
        (query, self_key, self_value, mask, counter, outs, greatest, total, out),
        (*strides(query, self_key, self_value), *mask_strides, H, parts, D, scale), free=(number,),
        PARTS=triton.next_power_of_2(parts), **switches,
        num_warps=4 if parts > 32 else 1, **({"launch_pdl": True} if overlaps else {}),
    )  # fmt: skip
    return out
