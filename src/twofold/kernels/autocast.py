"""Mixed precision: cast inputs as torch.autocast does for torch's own attention, then compute with autocast off."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def cast(*tensors: Any) -> tuple[Any, ...]:
    """The tensors in autocast's dtype where autocast is on. Anything that is not a tensor passes through to `check`."""
    device = getattr(getattr(tensors[0], "device", None), "type", "")
    if not is_on(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(t.to(dtype) if isinstance(t, Tensor) and _is_cast(t) else t for t in tensors)


def off(query: Tensor) -> AbstractContextManager:
    """A context without autocast: the inputs are already cast, and inside float32 means float32."""
    device = query.device.type
    return torch.autocast(device, enabled=False) if is_on(device) else nullcontext()


def is_on(device: str) -> bool:
    """Whether autocast is on for this type of device. Some types have none, such as "meta"."""
    # Listed by name: asking torch whether a device type has autocast breaks a compiled graph (torch 2.11).
    return device in ("cpu", "cuda", "mps", "xpu") and torch.is_autocast_enabled(device)


def _is_cast(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dtype != torch.float64
