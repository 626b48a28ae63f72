"""Mixed precision: inputs are cast as torch.autocast casts those of its own attention, and then it is off."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def cast(*tensors: Any) -> tuple[Any, ...]:
    """Tensors in autocast's dtype where it is on; whatever is no tensor is left to `check`."""
    device = getattr(getattr(tensors[0], "device", None), "type", "")
    if not is_on(device):
        return tensors
    wanted = torch.get_autocast_dtype(device)
    return tuple(t.to(wanted) if isinstance(t, Tensor) and _is_cast(t) else t for t in tensors)


def off(query: Tensor) -> AbstractContextManager:
    """The inputs are cast already; inside, float32 means float32."""
    device = query.device.type
    return torch.autocast(device, enabled=False) if is_on(device) else nullcontext()


def is_on(device: str) -> bool:
    """Whether torch casts there; it has no autocast on some devices, as on "meta"."""
    # Named, because asking torch whether a device has autocast breaks a compiled graph (torch 2.11).
    return device in ("cpu", "cuda", "mps", "xpu") and torch.is_autocast_enabled(device)


def _is_cast(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dtype != torch.float64
