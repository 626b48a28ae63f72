"""Split attention as a library's attention over the others and one pass of `merge`'s kernels after it.

Ordinary causal attention of queries 1.. over all keys gives every token its strict past: by FlashAttention 4 on long
texts where it is installed, by cuDNN's graphs, or by torch's own attention. The bidirectional case needs cuDNN's graphs: one that hides the diagonal or, for long sequences, the strict past and the strict future (queries ..T - 2
over keys 1.. and all after them), which costs one more pass and skips half of the scores twice. Backward is given the
*merged* output and log-sum-exp (DESIGN.md section 4), so the library's gradients of key and value are final, and that of
the queries lacks the own logit's share alone.
"""

from typing import Any

import torch
import triton
from torch import Tensor

from twofold.kernels import cudnn, flash4, library
from twofold.kernels.library import aligned, empty_heads, library_for
from twofold.kernels.triton.launch import launch, strides
from twofold.kernels.triton.merge import finish_kernel, merge_kernel

# Rows and warps of a program.
ROWS, WARPS = 32, 4
# Tokens from which two triangles are faster than one square with a hidden diagonal (H200, bfloat16, LOG.md).
TRIANGLES_FROM = 4096


def attend(
    query: Tensor, key: Tensor, value: Tensor, self_key: Tensor, self_value: Tensor, is_causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Output (B, Hq, T, D), log-sum-exp of the rows that have others (B, Hq, T or T - 1), own weights (B, Hq, T)."""
    query, key, value, self_key, self_value = map(aligned, (query, key, value, self_key, self_value))
    B, H, T, D = query.shape

    def numbers(rows: int) -> Tensor:
        return torch.empty((B, H, rows), dtype=torch.float32, device=query.device)

    out, own = empty_heads(query), numbers(T)
    triangles = not is_causal and T >= TRIANGLES_FROM
    first = 1 if is_causal or triangles else 0
    if is_causal and flash4.serves(query, key, "forward"):
        others, others_lse = out[:, :, 1:], numbers(T - 1)
        flash4.forward(query[:, :, 1:], key[:, :, :-1], value[:, :, :-1], others, others_lse, scale)
    elif _has_cudnn(query, is_causal):
        others, others_lse = out[:, :, first:], numbers(T - first)
        pattern = "up to" if first else "all but"
        cudnn.forward(query[:, :, first:], key, value, others, others_lse, pattern, scale)
    else:
        others, others_lse = library.forward(library_for(query), query[:, :, 1:], key, value, None, True, scale)
        others_lse = others_lse.contiguous()
    later, later_lse, lse = others, others_lse, others_lse
    if triangles:
        later, later_lse, lse = empty_heads(query[:, :, 1:]), numbers(T - 1), numbers(T)
        cudnn.forward(query[:, :, :-1], key[:, :, 1:], value[:, :, 1:], later, later_lse, "from", scale)
    launch(
        merge_kernel, (triton.cdiv(T, ROWS), B * H),
        (query, self_key, self_value, others, others_lse, later, later_lse, out, lse, own),
        (*strides(query, self_key, self_value, others, later, out), H, T, D, scale),
        OTHERS_FROM=first, LATER=triangles, **_switches(query, key, is_causal),
    )  # fmt: skip
    return out, lse, own


def attend_backward(
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
    grad, query, key, value, self_key, self_value = map(aligned, (grad, query, key, value, self_key, self_value))
    B, H, T, D = query.shape
    first = int(is_causal)
    rows, out_rows, grad_rows = query[:, :, first:], out[:, :, first:], grad[:, :, first:]
    grad_query = empty_heads(query)
    if is_causal and flash4.serves(query, key, "backward"):
        others, grad_key, grad_value = grad_query[:, :, 1:], empty_heads(key), empty_heads(value)
        seen = key[:, :, :-1], value[:, :, :-1]
        grads = others, grad_key[:, :, :-1], grad_value[:, :, :-1]
        flash4.backward(rows, *seen, out_rows, grad_rows, lse, *grads, scale)
        # No other token sees the last one.
        grad_key[:, :, -1:].zero_()
        grad_value[:, :, -1:].zero_()
    elif _has_cudnn(query, is_causal):
        others, grad_key, grad_value = grad_query[:, :, first:], empty_heads(key), empty_heads(value)
        pattern = "up to" if is_causal else "all but"
        cudnn.backward(rows, key, value, out_rows, grad_rows, lse, others, grad_key, grad_value, pattern, scale)
    else:
        others, *rest = library.backward(
            library_for(query), grad_rows, rows, key, value, None, out_rows, lse, True, scale
        )
        # In the layout that the op's fake kernel declares.
        grad_key, grad_value = (empty_heads(tensor).copy_(tensor) for tensor in rest)
    grad_self_key, grad_self_value = empty_heads(self_key), empty_heads(self_value)
    launch(
        finish_kernel, (triton.cdiv(T, ROWS), B * key.shape[1]),
        (query, self_key, self_value, out, grad, own, others, grad_query, grad_self_key, grad_self_value),
        (*strides(query, self_key, self_value, out, grad, others, grad_query, grad_self_key), H, T, D, scale),
        **_switches(query, key, is_causal),
    )  # fmt: skip
    return grad_query, grad_key, grad_value, grad_self_key, grad_self_value


def _has_cudnn(query: Tensor, is_causal: bool) -> bool:
    """Whether cuDNN's graphs serve. Without them torch's attention serves the causal case only."""
    obstacle = cudnn.why_not(query.device)
    if obstacle is not None and not is_causal:
        raise RuntimeError(f'bidirectional attention by a library: {obstacle}; name backend="triton"')
    return obstacle is None


def _switches(query: Tensor, key: Tensor, is_causal: bool) -> dict[str, Any]:
    D = query.shape[-1]
    width = triton.next_power_of_2(D)
    return {
        "FIRST": int(is_causal),
        "GROUPS": query.shape[1] // key.shape[1],
        "ROWS": ROWS,
        "WIDTH": width,
        "EXACT_WIDTH": width == D,
        "num_warps": WARPS,
    }
