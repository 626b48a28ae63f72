"""Few tokens times several weight matrices in one launch: the projections of one step of generation.

Such a product takes as long as reading its weights, and five launches cost more than that. This file says when the
kernel serves and defines the torch.library op, which has no gradients; the kernel is in `triton/products`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from twofold.kernels import fused
from twofold.kernels.checks import have_tangents
from twofold.kernels.eager import op

# The most tokens that every program can hold at once.
MOST_TOKENS = 64
# The weights of one launch: query, key, value, own key and own value.
MOST_WEIGHTS = 5
DTYPES = (torch.bfloat16, torch.float16)


def serves(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> bool:
    """Whether `products` may take x (..., K) and weights (N, K)."""
    return (
        fused.INSTALLED
        and x.is_cuda
        and not torch.is_grad_enabled()
        and x.dtype in DTYPES
        and 0 < x.numel() // x.shape[-1] <= MOST_TOKENS
        and len(weights) <= MOST_WEIGHTS
        and all(tensor.dtype == x.dtype and tensor.device == x.device for tensor in (*weights, *biases))
        and not have_tangents(x, *weights, *biases)
    )


@op("twofold::products")
def products(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> list[Tensor]:
    """x (..., K) times each weight (N, K) transposed: tensors (..., N). `biases`: one per weight, or an empty list."""
    from twofold.kernels.triton import products as kernels

    with torch.cuda.device_of(x):
        return kernels.forward(x, weights, biases)


@products.register_fake
def _(x, weights, biases):  # noqa: ANN001, ANN202
    return [x.new_empty((*x.shape[:-1], weight.shape[0])) for weight in weights]
