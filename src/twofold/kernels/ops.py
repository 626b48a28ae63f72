"""torch.library ops behind `shifted`: attention with an own logit and an own value, opaque to torch.compile.

    o_i = p_i v'_i + sum_{j != own(i)} p_ij v_j,   p = softmax of (l_i, scores of the others)

The op takes the own *logit* l_i instead of the own key: q . k' and its gradients are computed outside, where a
compiler can fuse them with what produced q and k', and a masked diagonal is l_i = -inf. `attend_one_pass` is the same
for self-attention without a mask where Triton runs, with q . k' inside. This file has the ops' names, shapes and
autograd; the arithmetic is in `lse_merge` and `triton/one_pass`.
"""

import torch
from torch import Tensor

from twofold.kernels import lse_merge
from twofold.kernels.checks import without_tangents
from twofold.kernels.eager import op
from twofold.kernels.library import empty_heads, lse_dtype


@op("twofold::attend_with_own")
def attend_with_own(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    own_logit: Tensor,
    own_value: Tensor,
    attn_mask: Tensor | None,
    segment_ids: Tensor | None,
    window: int | None,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Output (B, Hq, T, D) and the log-sum-exp over all that a row sees, its own slot included: (B, Hq, T)."""
    pattern = lse_merge.Pattern(attn_mask, segment_ids, window, is_causal)
    return lse_merge.attend(query, key, value, own_logit, own_value, pattern, scale)


@attend_with_own.register_fake
def _(query, key, value, own_logit, own_value, attn_mask, segment_ids, window, is_causal, scale):  # noqa: ANN001, ANN202
    return empty_heads(query), query.new_empty(query.shape[:3], dtype=lse_dtype(query.dtype))


@op("twofold::attend_with_own_backward")
def attend_with_own_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    own_logit: Tensor,
    own_value: Tensor,
    attn_mask: Tensor | None,
    segment_ids: Tensor | None,
    out: Tensor,
    lse: Tensor,
    window: int | None,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value, own_logit and own_value."""
    pattern = lse_merge.Pattern(attn_mask, segment_ids, window, is_causal)
    return lse_merge.attend_backward(grad, query, key, value, own_logit, own_value, out, lse, pattern, scale)


@attend_with_own_backward.register_fake
def _(grad, query, key, value, own_logit, own_value, attn_mask, segment_ids, out, lse, window, is_causal, scale):  # noqa: ANN001, ANN202
    return (
        empty_heads(query),
        empty_heads(key),
        empty_heads(value),
        torch.empty_like(own_logit, memory_format=torch.contiguous_format),
        empty_heads(own_value),
    )


def _keep(ctx, inputs, output) -> None:  # noqa: ANN001
    *tensors, window, is_causal, scale = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.options = window, is_causal, scale
    # The log-sum-exp has no gradient.
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx, grad, _grad_lse):  # noqa: ANN001, ANN202
    if grad is None:
        return (None,) * 10
    grads = attend_with_own_backward(*without_tangents(grad, *ctx.saved_tensors), *ctx.options)
    return *grads, None, None, None, None, None


attend_with_own.register_autograd(_backward, _keep)


@op("twofold::attend_one_pass")
def attend_one_pass(
    query: Tensor, key: Tensor, value: Tensor, self_key: Tensor, self_value: Tensor, is_causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Output (B, Hq, T, D) of split attention with S = T, and two tensors for backward: see `triton/one_pass`."""
    from twofold.kernels.triton import one_pass

    with torch.cuda.device_of(query):
        return one_pass.attend(query, key, value, self_key, self_value, is_causal, scale)


@attend_one_pass.register_fake
def _(query, key, value, self_key, self_value, is_causal, scale):  # noqa: ANN001, ANN202
    B, H, T, _ = query.shape
    lse = query.new_empty((B, H, T - int(is_causal)), dtype=torch.float32)
    return empty_heads(query), lse, query.new_empty((B, H, T), dtype=torch.float32)


@op("twofold::attend_one_pass_backward")
def attend_one_pass_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    self_key: Tensor,
    self_value: Tensor,
    out: Tensor,
    lse: Tensor,
    own: Tensor,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value, self_key and self_value."""
    from twofold.kernels.triton import one_pass

    tensors = (grad, query, key, value, self_key, self_value, out, lse, own)
    with torch.cuda.device_of(query):
        return one_pass.attend_backward(*tensors, is_causal, scale)


@attend_one_pass_backward.register_fake
def _(grad, query, key, value, self_key, self_value, *_):  # noqa: ANN001, ANN002, ANN202
    return tuple(empty_heads(tensor) for tensor in (query, key, value, self_key, self_value))


def _keep_one_pass(ctx, inputs, output) -> None:  # noqa: ANN001
    *tensors, is_causal, scale = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.options = is_causal, scale
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _backward_one_pass(ctx, grad, *_):  # noqa: ANN001, ANN002, ANN202
    if grad is None:
        return (None,) * 7
    return *attend_one_pass_backward(*without_tangents(grad, *ctx.saved_tensors), *ctx.options), None, None


attend_one_pass.register_autograd(_backward_one_pass, _keep_one_pass)
