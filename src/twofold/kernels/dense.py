"""Split attention that keeps all T x S weights, for short texts, with the own scores written on the diagonal.

Flash attention computes the weights again in its backward pass; while they are few, keeping them is cheaper. Two matrix
products forward and four backward; half precision is computed in float32 and rounded once.
"""

import math
from typing import Any

import torch
from torch import Tensor

from twofold.kernels import autocast, columns, library, masks
from twofold.kernels.checks import Call

# The most weights with which "auto" takes it when gradients are needed: once they do not fit the CPU's caches,
# `shifted` is faster (LOG.md).
LARGEST = 2**21
# The most without gradients; up to FEWEST, `columns` is faster for plain self-attention (LOG.md).
QUICK, FEWEST = 2**17, 2**15


def why_not(call: Call) -> str | None:
    if call.keys < call.queries:
        return "with fewer keys than queries there is no own slot"
    if call.has_empty_side:
        return "a dimension is 0"
    if call.softcap is not None:
        return "softcap is not part of its backward pass"
    if call.has_tangent:
        return "forward-mode differentiation is not part of the op"
    if call.is_transformed:
        return "torch.func does not see through its backward pass"
    if call.dropout_p:
        return "dropout is not part of its backward pass"
    if call.attn_mask is not None and call.attn_mask.requires_grad:
        return "attn_mask requires a gradient, which it does not give"
    return None


def pays(call: Call) -> bool:
    """Whether it may be the fastest with gradients: the CPU's caches hold all weights."""
    B, H, T, _ = call.query.shape
    return call.wants_gradient and B * H * T * call.keys <= LARGEST


def is_quick(call: Call) -> bool:
    """Whether it is the fastest on a CPU without gradients, in eager mode: compiled, fewer operations gain nothing."""
    if not call.is_split or call.query.device.type != "cpu" or call.wants_gradient or not call.is_eager:
        return False
    B, H, T, _ = call.query.shape
    weights = B * H * T * call.keys
    is_few = call.is_plain and T <= columns.KEPT and weights <= FEWEST
    return weights <= QUICK and not is_few


def forward(call: Call) -> Tensor:
    query, key, value, self_key, self_value = call.query, call.key, call.value, *call.own_pair()
    bias, empty = _masks(call)
    if call.wants_gradient and torch.compiler.is_compiling():
        # Compiled autograd Functions take no tensor twice, though a caller may pass one as key and value, and do not
        # notice a saved tensor that is changed in place before the backward pass.
        query, key, value, self_key, self_value = (t.clone() for t in (query, key, value, self_key, self_value))
    attend = _Attend.apply if call.wants_gradient else _attend
    return attend(query, key, value, self_key, self_value, bias, empty, call.keys - call.queries, call.scale)


def _attend(query: Tensor, *rest: Any) -> Tensor:
    return _shaped(_attended(query, *rest)[-1], query)


def _masks(call: Call) -> tuple[Tensor | None, Tensor | None]:
    """The additive mask with -inf for hidden entries, and the rows that see nothing; None where there are none.

    A mask that is the same for all heads and examples and leaves the own scores alone has two dimensions.
    """
    exact = library.lse_dtype(call.query.dtype)
    if not call.is_masked:
        return None, None
    if call.is_plain_causal:
        hidden = torch.full((call.queries, call.keys), -math.inf, dtype=exact, device=call.query.device)
        return hidden.triu_(1), None
    may, mask = masks.allowed_by(call), call.attn_mask
    if mask is None:
        # Without attn_mask every row sees at least its own slot.
        return masks.bias(may, None, exact), None
    empty = ~may.any(-1, keepdim=True)
    if mask.dtype != torch.bool:
        mask = mask.to(exact)
        mask = mask - masks.row_shift(may, mask)
    return masks.bias(may, mask, exact).masked_fill(empty, 0.0), empty


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Tensor:
        *_, ctx.scale = rest
        ctx.dtype, ctx.shapes = query.dtype, [t.shape for t in (query, key, value)]
        attended = _attended(query, key, value, *rest)
        ctx.save_for_backward(*attended)
        return _shaped(attended[-1], query)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        # Grad mode is on here only under create_graph; compilers refuse second derivatives themselves.
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise RuntimeError('backend "dense" has no second derivatives: for create_graph name backend="reference"')
        with autocast.off(grad):
            return _backward(ctx, grad)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    query, key, value, self_key, self_value, weights, own, out = ctx.saved_tensors
    grad = grad.to(out.dtype).reshape(out.shape)
    rows = grad.flatten(1, 2)
    level = (grad * out).sum(-1, keepdim=True)
    # `weights` holds 0 at the own slots, so `scores` holds no gradients of own scores.
    scores = torch.bmm(rows, value.mT).view_as(weights).sub_(level).mul_(weights).flatten(1, 2)
    own_score = (grad * self_value[:, None]).sum(-1, keepdim=True).sub_(level).mul_(own)
    grads = (
        torch.baddbmm((own_score * self_key[:, None]).flatten(1, 2), scores, key).mul_(ctx.scale),
        torch.bmm(scores.mT, query.flatten(1, 2)),
        torch.bmm(weights.flatten(1, 2).mT, rows),
        _over_groups(own_score * query),
        _over_groups(own * grad),
    )
    shapes = [*ctx.shapes, *((*shape[:2], query.shape[2], shape[3]) for shape in ctx.shapes[1:])]
    return *(t.to(ctx.dtype).view(shape) for t, shape in zip(grads, shapes, strict=True)), *[None] * 4


def _attended(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    self_key: Tensor,
    self_value: Tensor,
    bias: Tensor | None,
    empty: Tensor | None,
    first_own: int,
    scale: float,
) -> tuple[Tensor, ...]:
    """The flattened inputs, the weights with 0 at the own slots, the own weights, and the output.

    N = B x Hkv, and G query heads share a key/value head: scores are (N, G, T, S), for matrix products (N, G x T, S).
    """
    (B, H, T, _), S = query.shape, key.shape[2]
    query, key, value, self_key, self_value = _flat(query, key, value, self_key, self_value)
    # The scale goes into the query, which is smaller than the scores.
    query = query * scale
    rows, shared_bias = query.flatten(1, 2), bias if bias is not None and bias.ndim == 2 else None
    if shared_bias is not None and query.shape[1] == 1:
        scores = torch.baddbmm(shared_bias, rows, key.mT).view(*query.shape[:3], S)
    else:
        scores = torch.bmm(rows, key.mT).view(*query.shape[:3], S)
        if shared_bias is not None:
            scores += shared_bias
    _own(scores, first_own).copy_((query * self_key[:, None]).sum(-1))
    if bias is not None and shared_bias is None:
        scores.view(B, H, T, S).add_(bias)
    weights = torch.softmax(scores, -1)
    if empty is not None:
        weights.view(B, H, T, S).masked_fill_(empty, 0.0)
    on_diagonal = _own(weights, first_own)
    own = on_diagonal[..., None].clone()
    on_diagonal.zero_()
    out = torch.bmm(weights.flatten(1, 2), value).view(*query.shape[:3], -1).addcmul_(own, self_value[:, None])
    return query, key, value, self_key, self_value, weights, own, out


def _shaped(out: Tensor, query: Tensor) -> Tensor:
    # The view comes last: in torch 2.11's compiler the result of a conversion to the same dtype has no gradient.
    return out.to(query.dtype).view(*query.shape[:3], -1)


def _flat(query: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """query as (N, G, T, D), the others as (N, S or T, D), in float32 (float64 for float64)."""
    exact, N = library.lse_dtype(query.dtype), others[0].shape[0] * others[0].shape[1]
    if query.dtype != exact:
        query, others = query.to(exact), tuple(t.to(exact) for t in others)
    return query.reshape(N, -1, *query.shape[2:]), *(t.flatten(0, 1) for t in others)


def _own(scores: Tensor, first_own: int) -> Tensor:
    """The entries (..., i, first_own + i) as a view: (..., T). Not `diagonal`: torch's compiler warns of it."""
    return scores.flatten(-2)[..., first_own :: scores.shape[-1] + 1]


def _over_groups(grads: Tensor) -> Tensor:
    return grads.sum(1) if grads.shape[1] > 1 else grads[:, 0]
