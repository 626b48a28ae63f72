"""FlashAttention 4 (`flash_attn.cute`, the extra `flash`) as the library of long causal calls on Hopper and later.

Faster there than cuDNN, forward and backward (LOG.md). It compiles a kernel for each combination of dtype, width and
grouping of heads at its first call, which takes seconds and must not happen while a CUDA graph is recorded.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from twofold.kernels import self_test

# Tokens from which it is faster than cuDNN on an H200 (LOG.md).
FROM = 2048
WIDEST = 128


def _is_installed() -> bool:
    """Without importing `flash_attn`, which may be an older version and loads its kernels."""
    try:
        spec = find_spec("flash_attn")
    except ValueError:  # a stand-in module without a spec is in sys.modules
        return False
    folders = [] if spec is None else spec.submodule_search_locations or []
    return any((Path(folder) / "cute" / "interface.py").is_file() for folder in folders)


# Looked up at import: a compiled graph cannot do it.
INSTALLED = _is_installed()

# What has been compiled: (pass, device index, dtype, width, heads per key head).
_compiled: set[tuple] = set()


def serves(query: Tensor, key: Tensor, what: str) -> bool:
    """Whether `forward` or `backward`, named by `what`, takes the tensors of this causal call, S = T."""
    T, D = query.shape[2:]
    if not (INSTALLED and query.is_cuda and T >= FROM and D <= WIDEST and D % 8 == 0):
        return False
    index = query.get_device()
    if torch.cuda.is_current_stream_capturing() and _variant(query, key, what) not in _compiled:
        return False
    return _is_usable(index)


@cache
def _is_usable(device_index: int) -> bool:
    if torch.version.hip is not None or torch.cuda.get_device_capability(device_index) < (9, 0):
        return False
    device = torch.device("cuda", device_index)
    return self_test.passes(f"FlashAttention 4 on {device}", lambda: _errors(device))


def forward(query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, scale: float) -> None:
    """Write causal attention of (B, H, T, D) into `out` and its log-sum-exp into `lse` (B, Hq, T), contiguous."""
    from flash_attn.cute.interface import _flash_attn_fwd  # type: ignore[missing-import]

    tensors = [tensor.transpose(1, 2) for tensor in (query, key, value)]
    _flash_attn_fwd(*tensors, softmax_scale=scale, causal=True, out=out.transpose(1, 2), lse=lse)
    _compiled.add(_variant(query, key, "forward"))


def backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    grad: Tensor,
    lse: Tensor,
    grad_query: Tensor,
    grad_key: Tensor,
    grad_value: Tensor,
    scale: float,
) -> None:
    """Write the gradients. `out` and `lse` may belong to a larger softmax of which this is one part."""
    from flash_attn.cute.interface import _flash_attn_bwd  # type: ignore[missing-import]

    tensors = [tensor.transpose(1, 2) for tensor in (query, key, value, out, grad)]
    results: dict[str, Any] = {
        name: tensor.transpose(1, 2)
        for name, tensor in (("dq", grad_query), ("dk", grad_key), ("dv", grad_value))
    }  # fmt: skip
    deterministic = torch.are_deterministic_algorithms_enabled()
    _flash_attn_bwd(*tensors, lse, softmax_scale=scale, causal=True, deterministic=deterministic, **results)
    _compiled.add(_variant(query, key, "backward"))


def _variant(query: Tensor, key: Tensor, what: str) -> tuple:
    return what, query.get_device(), query.dtype, query.shape[-1], query.shape[1] // key.shape[1]


def _errors(device: torch.device) -> list[float]:
    """As it is used: rows 1.. over columns ..-1, and results written into views."""
    tensors = self_test.drawn(8, 131, device)
    query, grad, out, grad_query = (tensor[:, :, 1:] for tensor in tensors[:4])
    key, value, grad_key, grad_value = (tensor[:, :, :-1] for tensor in tensors[4:])
    lse = torch.empty(query.shape[:3], device=device)
    expected = self_test.exact(query, key, value, grad, torch.ones(130, 130, device=device).tril() > 0, 0.125)
    forward(query, key, value, out, lse, 0.125)
    backward(query, key, value, out, grad, lse, grad_query, grad_key, grad_value, 0.125)
    return self_test.errors_of((out, lse, grad_query, grad_key, grad_value), expected)
