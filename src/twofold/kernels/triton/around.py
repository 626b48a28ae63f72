"""Split attention on a library's attention over the others, with one pass of `merge`'s kernels after it.

Causal: ordinary causal attention of queries 1.. over all keys shows every token its strict past. Bidirectional: cuDNN is
told to hide the diagonal (`graphs`). The library's gradients of key and value are final, and that of the queries lacks the
own logit's share alone, because backward is given the *merged* output and log-sum-exp (DESIGN.md section 4).
"""

from typing import Any

import torch
import triton
from torch import Tensor

from twofold.kernels import graphs, library
from twofold.kernels.library import aligned
from twofold.kernels.parts import empty_heads, library_for
from twofold.kernels.triton.launch import strides
from twofold.kernels.triton.merge import finish_kernel, merge_kernel

# Rows a program holds, and its warps.
ROWS, WARPS = 32, 4


def attend(
    query: Tensor, key: Tensor, value: Tensor, self_key: Tensor, self_value: Tensor, is_causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Output (B, Hq, T, D), log-sum-exp of the rows that have others (B, Hq, T or T - 1), own weights (B, Hq, T)."""
    query, key, value, self_key, self_value = map(aligned, (query, key, value, self_key, self_value))
    B, H, T, D = query.shape
    first = int(is_causal)
    out = empty_heads(query)
    own = torch.empty((B, H, T), dtype=torch.float32, device=query.device)
    rows = query[:, :, first:]
    if graphs.why_not(query.device) is None:
        others, lse = out[:, :, first:], torch.empty((B, H, T - first), dtype=torch.float32, device=query.device)
        graphs.forward(rows, key, value, others, lse, "causal" if is_causal else "others", scale)
    else:
        others, lse = library.forward(_causal_library(query, is_causal), rows, key, value, None, True, scale)
    lse = lse.contiguous()
    merge_kernel[(triton.cdiv(T, ROWS), B * H)](
        query, self_key, self_value, others, lse, out, own,
        *strides(query, self_key, self_value, others, out), H, T, D, scale, **_switches(query, key, first),
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
    if graphs.why_not(query.device) is None:
        others, grad_key, grad_value = grad_query[:, :, first:], empty_heads(key), empty_heads(value)
        pattern = "causal" if is_causal else "others"
        graphs.backward(
            rows, key, value, out_rows, grad_rows, lse, others, grad_key, grad_value, pattern, scale
        )  # fmt: skip
    else:
        ride = _causal_library(query, is_causal)
        others, grad_key, grad_value = library.backward(
            ride, grad_rows, rows, key, value, None, out_rows, lse, True, scale
        )
    grad_self_key, grad_self_value = empty_heads(self_key), empty_heads(self_value)
    finish_kernel[(triton.cdiv(T, ROWS), B * key.shape[1])](
        query, self_key, self_value, out, grad, own, others, grad_query, grad_self_key, grad_self_value,
        *strides(query, self_key, self_value, out, grad, others, grad_query, grad_self_key), H, T, D, scale,
        **_switches(query, key, first),
    )  # fmt: skip
    return grad_query, grad_key, grad_value, grad_self_key, grad_self_value


def _causal_library(query: Tensor, is_causal: bool) -> library.Library:
    if not is_causal:
        raise RuntimeError(
            f"bidirectional attention around a library needs cuDNN's graphs: {graphs.why_not(query.device)}; "
            'name backend="triton"'
        )
    return library_for(query)


def _switches(query: Tensor, key: Tensor, first: int) -> dict[str, Any]:
    D = query.shape[-1]
    width = triton.next_power_of_2(D)
    groups = query.shape[1] // key.shape[1]
    return {
        "FIRST": first, "GROUPS": groups, "ROWS": ROWS, "WIDTH": width, "EXACT_WIDTH": width == D, "num_warps": WARPS
    }  # fmt: skip
