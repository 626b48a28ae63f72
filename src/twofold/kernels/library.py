"""Torch's flash attention for a device, with its log-sum-exp, and its backward pass.

One interface over three kernels of torch: the CPU's flash attention, cuDNN's, and FlashAttention 2. Worked around here:
- the CPU kernel assumes a last dimension of stride 1 without checking;
- torch caches cuDNN's backward graphs by the layouts of query, key and value alone, so a call whose output or gradient
  has another layout than in the first such call is silently wrong by 100 %;
- cuDNN refuses one query over one key;
- cuDNN reads 16 bytes at a time, so a view that is not aligned to them is copied.
Left to the caller: the CPU kernel reads a mask in the query's dtype (float64) whatever its own dtype is, kills the
process on empty tensors, and returns a log-sum-exp of 0 for a row without keys.
"""

from functools import cache
from typing import Literal

import torch
from torch import Tensor

from twofold.kernels import self_test

Library = Literal["cpu_flash", "cudnn", "cuda_flash"]

aten = torch.ops.aten


def library_of(device: torch.device) -> Library | None:
    """The kernel to call on this device; None where torch has none that returns a log-sum-exp."""
    if device.type == "cpu":
        return "cpu_flash"
    if device.type == "cuda" and torch.version.hip is None:
        # The self-test cannot run while a graph is traced; the op asks again when it runs.
        return "cudnn" if torch.compiler.is_compiling() else _cuda_library(device.index or 0)
    return None


def library_for(query: Tensor) -> Library:
    library = library_of(query.device)
    if library is None:
        raise ValueError(f"query must be on a device with a flash attention, got {query.device}")
    return library


@cache
def _cuda_library(device_index: int) -> Library | None:
    capability = torch.cuda.get_device_capability(device_index)
    # Measured: from Hopper on cuDNN is faster at every size. Before Ampere torch has neither.
    if capability >= (9, 0) and _is_trustworthy("cudnn", device_index):
        return "cudnn"
    return "cuda_flash" if capability >= (8, 0) else None


def takes_bias(library: Library) -> bool:
    return library == "cpu_flash"


def lse_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def forward(
    library: Library,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Output (B, Hq, T, D) and log-sum-exp (B, Hq, T). A causal call is aligned to the first key.

    `bias` is added to the scores, broadcasts to (B, Hq, T, S) and has the dtype of `lse_dtype`.
    """
    query, key, value = aligned(query), aligned(key), aligned(value)
    match _serving(library, query, key):
        case "cpu_flash":
            out, lse = aten._scaled_dot_product_flash_attention_for_cpu(
                query, key, value, 0.0, is_causal, attn_mask=bias, scale=scale
            )
        case "cudnn":
            out, lse, *_ = aten._scaled_dot_product_cudnn_attention(
                query, key, value, None, True, 0.0, is_causal, False, scale=scale
            )
            lse = lse.reshape(query.shape[:3])
        case "cuda_flash":
            out, lse, *_ = aten._scaled_dot_product_flash_attention(
                query, key, value, 0.0, is_causal, False, scale=scale
            )
    return out, lse


def backward(
    library: Library,
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    out: Tensor,
    lse: Tensor,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value. `out` and `lse` may belong to a larger softmax of which this is one part."""
    query, key, value = aligned(query), aligned(key), aligned(value)
    # The layout of `forward`'s output.
    layout = torch.empty_like(query, device="meta").stride()
    grad, out = _laid_out(grad, layout), _laid_out(out, layout)
    T, S = query.shape[2], key.shape[2]
    match _serving(library, query, key):
        case "cpu_flash":
            return aten._scaled_dot_product_flash_attention_for_cpu_backward(
                grad, query, key, value, out, lse, 0.0, is_causal, attn_mask=bias, scale=scale
            )
        case "cudnn":
            no_dropout = torch.zeros((), dtype=torch.int64, device=query.device)
            return aten._scaled_dot_product_cudnn_attention_backward(
                grad, query, key, value, out, lse.contiguous()[..., None], no_dropout, no_dropout,
                None, None, None, T, S, 0.0, is_causal, scale=scale,
            )  # fmt: skip
        case "cuda_flash":
            no_dropout = torch.zeros((2,), dtype=torch.uint64, device=query.device)
            return aten._scaled_dot_product_flash_attention_backward(
                grad, query, key, value, out, lse.contiguous(), None, None, T, S, 0.0, is_causal,
                no_dropout, no_dropout, scale=scale,
            )  # fmt: skip


def _serving(library: Library, query: Tensor, key: Tensor) -> Library:
    single = query.shape[2] == 1 and key.shape[2] == 1
    return "cuda_flash" if library == "cudnn" and single else library


def unit_stride(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def aligned(tensor: Tensor) -> Tensor:
    """The tensor, copied unless its last stride is 1 and, on a GPU, every row starts at a multiple of 16 bytes and no
    dimension is expanded."""
    if not tensor.is_cuda:
        return unit_stride(tensor)
    B, H, T, D = tensor.stride()
    unit = 16 // tensor.element_size()
    if D == 1 and B and H and T and not (B % unit or H % unit or T % unit or tensor.data_ptr() % 16):
        return tensor  # the ordinary case, found without the loop below
    tensor = unit_stride(tensor)
    steps = [stride for stride, size in zip(tensor.stride()[:-1], tensor.shape[:-1], strict=True) if size > 1]
    is_misaligned = tensor.data_ptr() % 16 or any(step == 0 or step * tensor.element_size() % 16 for step in steps)
    return tensor.clone(memory_format=torch.contiguous_format) if is_misaligned else tensor


def empty_heads(like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """An uninitialised (B, H, T, D) tensor that is (B, T, H, D) in memory, as output projections want it."""
    B, H, T, D = like.shape
    return like.new_empty((B, T, H, D), dtype=dtype or like.dtype).transpose(1, 2)


def _laid_out(tensor: Tensor, layout: tuple[int, ...]) -> Tensor:
    if tensor.stride() == layout:
        return tensor
    return torch.empty_strided(tensor.shape, layout, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _is_trustworthy(library: Library, device_index: int) -> bool:
    device = torch.device("cuda", device_index)

    def errors() -> list[float]:
        query, key, value, grad = self_test.drawn(4, 130, device)
        out, lse = forward(library, query, key, value, None, True, 0.125)
        # A contiguous gradient: cuDNN errs on this layout unless `backward` changes it.
        grads = backward(library, grad.contiguous(), query, key, value, None, out, lse, True, 0.125)
        may = torch.ones(130, 130, device=device).tril() > 0
        return self_test.errors_of(grads, self_test.exact(query, key, value, grad, may, 0.125)[2:])

    return self_test.passes(f"{library} attention on {device}", errors)
