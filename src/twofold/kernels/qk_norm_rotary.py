"""QK norm and rotary positions of q, k and k' in one launch, and of their gradients in another.

    x -> rotate(gain * x / rms(x))

torch.compile makes several kernels of this, each far slower than its memory traffic (LOG.md). This file says when the
kernel serves and defines the torch.library op; the kernels are in `triton/qk_norm_rotary`.
"""

import torch
from torch import Tensor

from twofold.kernels import fused
from twofold.kernels.checks import have_tangents, without_tangents
from twofold.kernels.eager import op
from twofold.kernels.library import empty_heads

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def serves(tensors: list[Tensor], gains: list[Tensor], rotary_table: tuple[Tensor, Tensor]) -> bool:
    """Whether `qk_norm_rotary` may take these heads (B, H, T, D), gains (D,), cos and sin (..., T, D)."""
    first = tensors[0]
    return (
        fused.INSTALLED
        and first.is_cuda
        and first.dtype in DTYPES
        and first.numel() > 0
        and first.shape[-1] % 2 == 0
        and first.shape[-1] <= fused.WIDEST
        and all(tensor.dtype == first.dtype and tensor.device == first.device for tensor in tensors)
        and all(tensor.device == first.device for tensor in (*gains, *rotary_table))
        and not any(tensor.requires_grad for tensor in rotary_table)
        and not have_tangents(*tensors, *gains)
    )


@op("twofold::qk_norm_rotary")
def qk_norm_rotary(
    query: Tensor,
    key: Tensor,
    self_key: Tensor | None,
    query_gain: Tensor | None,
    key_gain: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """query (B, Hq, T, D), key and self_key (B, Hkv, T, D), normalised and rotated; empty if self_key is None.

    Without gains nothing is normalised. cos and sin: (..., T, D), as a `RotaryTable` holds them.
    """
    from twofold.kernels.triton import qk_norm_rotary as kernels

    with torch.cuda.device_of(query):
        return kernels.forward(query, key, self_key, query_gain, key_gain, cos, sin, eps)


@qk_norm_rotary.register_fake
def _(query, key, self_key, *_):  # noqa: ANN001, ANN002, ANN202
    return empty_heads(query), empty_heads(key), key.new_empty(0) if self_key is None else empty_heads(self_key)


@op("twofold::qk_norm_rotary_backward")
def qk_norm_rotary_backward(
    grad_query: Tensor,
    grad_key: Tensor,
    grad_self_key: Tensor | None,
    query: Tensor,
    key: Tensor,
    self_key: Tensor | None,
    query_gain: Tensor | None,
    key_gain: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key and self_key, and of the gains in float32; an empty tensor for what is not there."""
    from twofold.kernels.triton import qk_norm_rotary as kernels

    grads = (grad_query, grad_key, grad_self_key)
    with torch.cuda.device_of(query):
        return kernels.backward(*grads, query, key, self_key, query_gain, key_gain, cos, sin, eps)


@qk_norm_rotary_backward.register_fake
def _(grad_query, grad_key, grad_self_key, query, key, self_key, query_gain, *_):  # noqa: ANN001, ANN002, ANN202
    own = key.new_empty(0) if self_key is None else empty_heads(self_key)
    width = 0 if query_gain is None else query.shape[-1]
    gains = (query.new_empty(width, dtype=torch.float32) for _ in range(2))
    return empty_heads(query), empty_heads(key), own, *gains


def _keep(ctx, inputs, output) -> None:  # noqa: ANN001
    *tensors, eps = inputs
    ctx.save_for_backward(*tensors)
    ctx.eps = eps
    del output


def _backward(ctx, grad_query, grad_key, grad_self_key):  # noqa: ANN001, ANN202
    grads = grad_query, grad_key, grad_self_key
    *_, query, key, self_key, query_gain, key_gain, cos, sin = without_tangents(*grads, *ctx.saved_tensors)
    own = None if self_key is None else grad_self_key
    *grads, of_query_gain, of_key_gain = qk_norm_rotary_backward(
        grad_query, grad_key, own, query, key, self_key, query_gain, key_gain, cos, sin, ctx.eps
    )
    if self_key is None:
        grads[2] = None
    of_gains = (None, None)
    if query_gain is not None:
        of_gains = (of_query_gain.to(query_gain.dtype), of_key_gain.to(key_gain.dtype))
    return *grads, *of_gains, None, None, None


qk_norm_rotary.register_autograd(_backward, _keep)
