"""Launching a kernel in a fraction of the time that Triton takes to look at every argument anew.

Triton finds the compiled kernel for a call by specialising each of its 40 to 60 arguments. What that depends on is
known here in a few numbers, so the compiled kernel of an earlier launch like this one is launched directly.
"""

from typing import Any

import torch
from torch import Tensor

# At this many launches all are forgotten, so that lengths that change at every call do not fill the memory.
MOST = 4096
# Compiled kernels, and their constants in the order of their parameters, by what Triton specialises on.
_compiled: dict[tuple, tuple[Any, tuple]] = {}


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
    index = tensors[0].get_device()
    pointers = tuple([(tensor.dtype, tensor.data_ptr() % 16 == 0) for tensor in tensors])
    key = (id(kernel), index, pointers, numbers, tuple(switches.values()))
    known = _compiled.get(key)
    if known is not None:
        compiled, constants = known
        compiled[(*grid, 1, 1)[:3]](*tensors, *numbers, *free, *constants)
        return
    compiled = kernel[grid](*tensors, *numbers, *free, **switches)
    if compiled is None:  # the interpreter compiles nothing
        return
    if len(_compiled) >= MOST:
        _compiled.clear()
    names = kernel.arg_names[len(tensors) + len(numbers) + len(free) :]
    _compiled[key] = compiled, tuple(switches[name] for name in names)


def strides(*tensors: Tensor) -> tuple[int, ...]:
    """The first three strides of each; the last dimension of every tensor is dense."""
    return tuple([stride for tensor in tensors for stride in tensor.stride()[:3]])


def fits_pdl(device: torch.device) -> bool:
    """Whether a kernel may be launched before the one it depends on has finished (programmatic dependent launch)."""
    return device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device)[0] >= 9
