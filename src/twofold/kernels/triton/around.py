"""Causal split attention around a library's flash attention: launches of `merge`'s kernels before and after it.

Reads and writes every tensor once on each side; nothing is copied that a kernel does not need to see anyway.
"""

import torch
import triton
from torch import Tensor

from twofold.kernels import library
from twofold.kernels.library import Library, unit_stride
from twofold.kernels.parts import empty_heads
from twofold.kernels.triton.launch import strides
from twofold.kernels.triton.merge import finish_kernel, merge_kernel, own_backward_kernel, prepare_kernel

# Rows a program holds, and its warps.
ROWS, WARPS = 32, 4


def attend(
    ride: Library, query: Tensor, key: Tensor, value: Tensor, self_key: Tensor, self_value: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Output, the shifted queries, and per row the shifted log-sum-exp and the own weight: (2, B, Hq, T)."""
    query, self_key, self_value = map(unit_stride, (query, self_key, self_value))
    B, H, T, D = query.shape
    grid, sizes = _sizes(query, key)
    shifted = empty_heads(query)
    numbers = torch.empty((2, B, H, T), dtype=torch.float32, device=query.device)
    logit = torch.empty_like(numbers[0])
    prepare_kernel[grid](query, self_key, shifted, logit, *strides(query, self_key, shifted), H, T, D, scale, **sizes)
    others, others_lse = library.forward(ride, shifted, key, value, None, True, scale)
    out = empty_heads(query)
    merge_kernel[grid](
        others, others_lse.contiguous(), logit, self_value, out, *numbers,
        *strides(others, self_value, out), H, T, D, **sizes,
    )  # fmt: skip
    return out, shifted, numbers


def attend_backward(
    ride: Library,
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    self_key: Tensor,
    self_value: Tensor,
    out: Tensor,
    shifted: Tensor,
    numbers: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value, self_key and self_value."""
    grad, query, self_key, self_value = map(unit_stride, (grad, query, self_key, self_value))
    _, H, T, D = query.shape
    lse, own = numbers
    (blocks, _), sizes = _sizes(query, key)
    grid = (blocks, key.shape[0] * key.shape[1])
    grad_shifted, out_shifted, grad_self_value = empty_heads(query), empty_heads(query), empty_heads(self_value)
    grad_logit = torch.empty_like(own)
    own_backward_kernel[grid](
        grad, out, self_value, own, grad_self_value, grad_logit, grad_shifted, out_shifted,
        *strides(grad, out, self_value, grad_shifted, grad_self_value), H, T, D, **sizes,
    )  # fmt: skip
    grad_query_shifted, grad_key, grad_value = library.backward(
        ride, grad_shifted, shifted, key, value, None, out_shifted, lse, True, scale
    )
    grad_query, grad_self_key = empty_heads(query), empty_heads(self_key)
    finish_kernel[grid](
        grad_query_shifted, grad_logit, query, self_key, grad_query, grad_self_key,
        *strides(grad_query_shifted, query, self_key, grad_query, grad_self_key), H, T, D, scale, **sizes,
    )  # fmt: skip
    return grad_query, grad_key, grad_value, grad_self_key, grad_self_value


def _sizes(query: Tensor, key: Tensor) -> tuple[tuple[int, int], dict[str, object]]:
    B, H, T, D = query.shape
    width = triton.next_power_of_2(D)
    switches = {"GROUPS": H // key.shape[1], "ROWS": ROWS, "WIDTH": width, "EXACT_WIDTH": width == D}
    switches["num_warps"] = WARPS
    return (triton.cdiv(T, ROWS), B * H), switches
