"""Torch's standard attention kernels, and the fastest of them on given tensors, which is the yardstick."""

import statistics
import warnings
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from twofold.bench.measure import Work, times_ms

STANDARD = {
    "cpu": [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH],
    "cuda": [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION],
}


def attend(kernel: SDPBackend, causal: bool, query: Tensor, key: Tensor, value: Tensor, *_: Tensor | None) -> Tensor:
    with sdpa_kernel(kernel):
        return scaled_dot_product_attention(
            query, key, value, is_causal=causal, enable_gqa=query.shape[1] != key.shape[1]
        )


def only(kernel: SDPBackend | None) -> AbstractContextManager:
    """A context in which torch's attention uses this kernel alone; None leaves the choice to torch."""
    return nullcontext() if kernel is None else sdpa_kernel(kernel)


def serving(causal: bool, query: Tensor, key: Tensor, value: Tensor) -> list[SDPBackend]:
    """The kernels that serve these tensors."""
    return [kernel for kernel in STANDARD[query.device.type] if _serves(kernel, causal, query, key, value)]


def _serves(kernel: SDPBackend, causal: bool, query: Tensor, key: Tensor, value: Tensor) -> bool:
    # The math kernel holds all T x T weights: slower than flash on long texts, and perhaps too large.
    if kernel == SDPBackend.MATH and query.shape[2] > 1024:
        return False
    try:
        with warnings.catch_warnings(), torch.no_grad():
            # torch warns why a kernel does not serve.
            warnings.simplefilter("ignore")
            attend(kernel, causal, query, key, value)
    except RuntimeError:
        return False
    return True


def fastest(causal: bool, query: Tensor, key: Tensor, value: Tensor, *, backward: bool) -> SDPBackend:
    """The fastest kernel on these tensors: forward, or forward and backward."""
    inputs = [tensor.detach().requires_grad_(backward) for tensor in (query, key, value)]
    grad = torch.randn_like(query)

    def run(kernel: SDPBackend) -> object:
        out = attend(kernel, causal, *inputs)
        return torch.autograd.grad(out, inputs, grad) if backward else out

    works: dict[str, Work] = {kernel.name: partial(run, kernel) for kernel in serving(causal, *inputs)}
    if not works:
        raise ValueError(f"no standard attention of torch serves {tuple(query.shape)} in {query.dtype}")
    times = times_ms(works, 5, query.device)
    return getattr(SDPBackend, min(times, key=lambda name: statistics.median(times[name])))
