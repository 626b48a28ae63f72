"""How the kernels here are launched."""

from typing import Any

import torch
from torch import Tensor


def launch(
    kernel: Any,
    grid: tuple[int, ...],
    tensors: tuple[Tensor, ...],
    numbers: tuple[float, ...],
    free: tuple[int, ...] = (),
    **switches: Any,
) -> None:
    """kernel[grid](*tensors, *numbers, *free, **switches).

    tensors, numbers and free are the kernel's first parameters; it does not specialise on those in `free`.
    switches: its constants, and options such as num_warps.
    """
    kernel[grid](*tensors, *numbers, *free, **switches)


def strides(*tensors: Tensor) -> tuple[int, ...]:
    """The first three strides of each; the last dimension of every tensor is dense."""
    return tuple([stride for tensor in tensors for stride in tensor.stride()[:3]])


def fits_pdl(device: torch.device) -> bool:
    """Whether a kernel may be launched before the one it depends on has finished (programmatic dependent launch)."""
    return device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device)[0] >= 9
