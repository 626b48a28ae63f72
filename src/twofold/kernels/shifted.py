"""Split attention by the library's flash attention over the others, merged with the own slot by log-sum-exp.

This file says which calls it serves and computes the own logit; `ops` has the ops, `lse_merge` the arithmetic of
the general one and `triton/one_pass` that of plain self-attention on GPUs. Linear memory, and the cost of the library's
own attention plus O(T D).
"""

import torch
from torch import Tensor

from twofold.kernels import cudnn, fused, library
from twofold.kernels.checks import Call
from twofold.kernels.ops import attend_one_pass, attend_with_own


def why_not(call: Call) -> str | None:
    device, D = call.query.device, call.query.shape[-1]
    if call.keys < call.queries:
        return "with fewer keys than queries there is no own slot"
    if call.has_empty_side:
        return "a dimension is 0, on which library kernels may crash"
    if call.softcap is not None:
        return "softcap is not part of the library's flash attention"
    if call.has_tangent:
        return "forward-mode differentiation is not part of the op"
    if call.is_differentiated:
        return "torch.func does not see through the op"
    if call.dropout_p:
        return "dropout would have to be drawn inside the library's kernel"
    if call.value.shape[-1] != D:
        return f"the library's flash attention needs values as wide as keys ({D}), got {call.value.shape[-1]}"
    if call.attn_mask is not None and call.attn_mask.requires_grad:
        return "attn_mask requires a gradient, which flash attention does not give"
    kernel = library.library_of(device)
    if kernel is None:
        return f"torch brings no flash attention with a log-sum-exp for {device.type}"
    if not library.takes_bias(kernel):
        if call.has_pattern:
            return f"{kernel} takes no mask, so neither attn_mask, segment_ids nor window"
        if call.query.dtype not in (torch.bfloat16, torch.float16):
            return f"{kernel} needs bfloat16 or float16, got {call.query.dtype}"
        if D % 8 or D > 256 or (kernel == "cudnn" and D > 128):
            return f"{kernel} needs a head width that is a multiple of 8, at most 128 (flash: 256), got {D}"
    return None


def forward(call: Call) -> Tensor:
    self_key, self_value = call.own_pair()
    if is_one_pass(call):
        tensors = (call.query, call.key, call.value, self_key, self_value)
        out, *_ = attend_one_pass(*tensors, call.is_causal, call.scale)
        return out
    out, _ = attend_with_own(
        call.query,
        call.key,
        call.value,
        own_logit(call, self_key),
        self_value,
        call.attn_mask,
        call.segment_ids,
        call.window,
        call.is_causal,
        call.scale,
    )
    return out


def is_one_pass(call: Call) -> bool:
    """Whether one library call and one pass over its output suffice: plain self-attention where Triton runs."""
    if not (call.query.is_cuda and call.is_plain and call.queries > 1 and fused.why_not(call) is None):
        return False
    return call.is_causal or cudnn.why_not(call.query.device) is None


def own_logit(call: Call, self_key: Tensor) -> Tensor:
    """scale * q_i . k'_i: (B, Hq, T) in the dtype of a log-sum-exp."""
    exact = library.lse_dtype(call.query.dtype)
    query = call.query.to(exact)
    if call.groups > 1:
        grouped = query.unflatten(1, (-1, call.groups)) * self_key.to(exact)[:, :, None]
        return grouped.sum(-1).flatten(1, 2) * call.scale
    return (query * self_key.to(exact)).sum(-1) * call.scale
