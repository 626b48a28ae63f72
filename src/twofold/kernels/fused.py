"""Backend "triton": split attention in one fused kernel, which replaces the diagonal's score and value in registers.

This file says which calls it serves and defines the torch.library op; the kernels are in `triton/`, imported when the
op runs. With TRITON_INTERPRET=1 Triton's interpreter takes CPU tensors.
"""

import os

import torch
from torch import Tensor

from twofold.kernels.checks import Call, without_tangents
from twofold.kernels.eager import op
from twofold.kernels.installed import is_installed
from twofold.kernels.library import empty_heads
from twofold.kernels.triton.options import KernelOptions, softmax_numbers

WIDEST = 256
# The limit of a CUDA grid's second axis.
MOST_HEADS = 65_535

# Looked up at import: a compiled graph cannot do it.
INSTALLED = is_installed("triton")


def why_not(call: Call) -> str | None:
    device, D = call.query.device.type, call.query.shape[-1]
    if not INSTALLED:
        return "triton is not installed"
    interpreted = device == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    if device != "cuda" and not interpreted:
        return f"triton needs a CUDA tensor (or a CPU tensor and TRITON_INTERPRET=1), got {device}"
    if call.keys < call.queries:
        return "with fewer keys than queries there is no own slot"
    if call.has_empty_side:
        return "a dimension is 0"
    if device == "cpu" and call.query.dtype == torch.bfloat16:
        return "Triton's interpreter multiplies bfloat16 tensors wrongly"
    if call.query.dtype == torch.float64:
        return "the kernels accumulate in float32, so float64 is not served"
    if D > WIDEST:
        return f"the kernels hold a head in registers, at most {WIDEST} wide, got {D}"
    if call.query.shape[0] * call.query.shape[1] > MOST_HEADS:
        return f"a launch holds at most {MOST_HEADS} heads of a batch, got {call.query.shape[0] * call.query.shape[1]}"
    if call.value.shape[-1] != D:
        return f"the kernels need values as wide as keys ({D}), got {call.value.shape[-1]}"
    if call.has_tangent:
        return "forward-mode differentiation is not part of the op"
    if call.is_differentiated:
        return "torch.func does not see through the op"
    if call.dropout_p == 1.0:
        return "dropout of everything leaves nothing to scale up"
    if call.attn_mask is not None and call.attn_mask.requires_grad:
        return "attn_mask requires a gradient, which the kernels do not give"
    return None


def forward(call: Call) -> Tensor:
    seed = None
    if call.dropout_p:
        seed = torch.randint(2**31 - 1, (1,), device=call.query.device)
    out, _ = fused_attend(
        call.query,
        call.key,
        call.value,
        *call.own_pair(),
        call.attn_mask,
        call.segment_ids,
        seed,
        call.window,
        call.is_causal,
        call.softcap,
        call.dropout_p,
        call.scale,
    )
    return out


@op("twofold::fused_attend")
def fused_attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    self_key: Tensor,
    self_value: Tensor,
    attn_mask: Tensor | None,
    segment_ids: Tensor | None,
    seed: Tensor | None,
    window: int | None,
    is_causal: bool,
    softcap: float | None,
    dropout_p: float,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Output (B, Hq, T, D) and, for the backward pass, `softmax_numbers` per row: (1 or 2, B, Hq, T)."""
    from twofold.kernels.triton import fused as kernels

    options = KernelOptions(attn_mask, segment_ids, seed, window, is_causal, softcap, dropout_p, scale)
    with torch.cuda.device_of(query):
        return kernels.attend(query, key, value, self_key, self_value, options)


@fused_attend.register_fake
def _(query, key, value, self_key, self_value, attn_mask, *_):  # noqa: ANN001, ANN002, ANN202
    numbers = softmax_numbers(attn_mask)
    return empty_heads(query), query.new_empty((numbers, *query.shape[:3]), dtype=torch.float32)


@op("twofold::fused_attend_backward")
def fused_attend_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    self_key: Tensor,
    self_value: Tensor,
    attn_mask: Tensor | None,
    segment_ids: Tensor | None,
    seed: Tensor | None,
    out: Tensor,
    softmax: Tensor,
    window: int | None,
    is_causal: bool,
    softcap: float | None,
    dropout_p: float,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value, self_key and self_value."""
    from twofold.kernels.triton import fused as kernels

    options = KernelOptions(attn_mask, segment_ids, seed, window, is_causal, softcap, dropout_p, scale)
    with torch.cuda.device_of(query):
        return kernels.attend_backward(grad, query, key, value, self_key, self_value, out, softmax, options)


@fused_attend_backward.register_fake
def _(grad, query, key, value, self_key, self_value, *_):  # noqa: ANN001, ANN002, ANN202
    return tuple(empty_heads(tensor) for tensor in (query, key, value, self_key, self_value))


def _keep(ctx, inputs, output) -> None:  # noqa: ANN001
    tensors, options = inputs[:8], inputs[8:]
    ctx.save_for_backward(*tensors, *output)
    ctx.options = options
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx, grad, _grad_softmax):  # noqa: ANN001, ANN202
    if grad is None:
        return (None,) * 13
    grads = fused_attend_backward(*without_tangents(grad, *ctx.saved_tensors), *ctx.options)
    return *grads, *(None,) * 8


fused_attend.register_autograd(_backward, _keep)
