"""Several products of the same few rows in one launch; a program computes some columns of one of them."""

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from twofold.kernels.products import MOST_WEIGHTS
from twofold.kernels.triton.launch import launch

# Columns of a program, the depth of a step, warps and stages.
COLUMNS, DEPTH, WARPS, STAGES = 16, 256, 4, 3


@triton.jit
def _columns(
    p_x, p_weight, p_bias, p_out, block, tokens, width, depth,
    BIAS: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    rows, columns = tl.arange(0, TOKENS), block * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((TOKENS, COLUMNS), dtype=tl.float32)
    for start in range(0, depth, DEPTH):
        d = start + tl.arange(0, DEPTH)
        inside = (d < depth)[None, :]
        x = tl.load(p_x + rows[:, None] * depth + d[None, :], mask=(rows < tokens)[:, None] & inside, other=0.0)
        offsets = columns[:, None].to(tl.int64) * depth + d[None, :]
        weight = tl.load(p_weight + offsets, mask=(columns < width)[:, None] & inside, other=0.0)
        total = tl.dot(x, tl.trans(weight), total, input_precision="ieee")
    if BIAS:
        total += tl.load(p_bias + columns, mask=columns < width, other=0.0).to(tl.float32)[None, :]
    mask = (rows < tokens)[:, None] & (columns < width)[None, :]
    tl.store(p_out + rows[:, None] * width + columns[None, :], total.to(p_out.dtype.element_ty), mask=mask)


@triton.jit
def products_kernel(
    p_x, p_weight_0, p_weight_1, p_weight_2, p_weight_3, p_weight_4, p_bias_0, p_bias_1, p_bias_2, p_bias_3, p_bias_4,
    p_out_0, p_out_1, p_out_2, p_out_3, p_out_4, width_0, width_1, width_2, width_3, width_4, tokens, depth,
    BIAS: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    end_0 = tl.cdiv(width_0, COLUMNS)
    end_1 = end_0 + tl.cdiv(width_1, COLUMNS)
    end_2 = end_1 + tl.cdiv(width_2, COLUMNS)
    end_3 = end_2 + tl.cdiv(width_3, COLUMNS)
    p_weight, p_bias, p_out, width = p_weight_0, p_bias_0, p_out_0, width_0
    first = 0
    if block >= end_3:
        p_weight, p_bias, p_out, width, first = p_weight_4, p_bias_4, p_out_4, width_4, end_3
    elif block >= end_2:
        p_weight, p_bias, p_out, width, first = p_weight_3, p_bias_3, p_out_3, width_3, end_2
    elif block >= end_1:
        p_weight, p_bias, p_out, width, first = p_weight_2, p_bias_2, p_out_2, width_2, end_1
    elif block >= end_0:
        p_weight, p_bias, p_out, width, first = p_weight_1, p_bias_1, p_out_1, width_1, end_0
    _columns(p_x, p_weight, p_bias, p_out, block - first, tokens, width, depth, BIAS, TOKENS, COLUMNS, DEPTH)


def forward(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> list[Tensor]:
    x, weights, biases = x.contiguous(), [w.contiguous() for w in weights], [b.contiguous() for b in biases]
    depth = x.shape[-1]
    tokens = x.numel() // depth
    out = [x.new_empty((*x.shape[:-1], weight.shape[0])) for weight in weights]
    widths = [weight.shape[0] for weight in weights]
    blocks = sum(triton.cdiv(width, COLUMNS) for width in widths)
    lacking = MOST_WEIGHTS - len(weights)
    # An absent product has width 0 and is never computed.
    stand_ins = [x] * lacking
    launch(
        products_kernel, (blocks,),
        (x, *weights, *stand_ins, *(biases or [x] * len(weights)), *stand_ins, *out, *stand_ins),
        (*widths, *[0] * lacking, tokens, depth),
        BIAS=bool(biases), TOKENS=max(triton.next_power_of_2(tokens), 16), COLUMNS=COLUMNS,
        DEPTH=min(triton.next_power_of_2(depth), DEPTH) if depth > 16 else 16, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return out
