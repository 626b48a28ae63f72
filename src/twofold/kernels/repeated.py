"""Eager calls like an earlier one: what `check` and the choice of a backend found out, found again by a signature.

Both look at types, shapes, dtypes, devices and options, never at numbers, so a call with the signature of one that
passed passes as well. Looking it up takes 3 microseconds where checking and choosing take 15.
"""

from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from twofold.kernels.checks import Call, as_4d
from twofold.kernels.eager import is_eager

# At this many signatures all are forgotten, so that lengths that change at every call do not fill the memory.
MOST = 4096

Tensors = tuple[Any, ...]  # query, key, value, self_key, self_value, attn_mask, segment_ids
Options = tuple[Any, ...]
_known: dict[tuple, "Resolved"] = {}


class Resolved(NamedTuple):
    """What is the same in every call of a signature."""

    module: ModuleType  # the backend's
    is_causal: bool
    dropout_p: float
    scale: float
    window: int | None
    softcap: float | None

    def call(self, tensors: Tensors) -> Call:
        query, key, value, self_key, self_value, attn_mask, segment_ids = tensors
        mask = None if attn_mask is None else as_4d(attn_mask, query)
        _, causal, dropout_p, scale, window, softcap = self
        return Call(
            query, key, value, self_key, self_value, mask, causal, dropout_p, scale, window, softcap, segment_ids
        )


def signature_of(tensors: Tensors, options: Options) -> tuple | None:
    """What decides about a call; None for one that must be looked at itself: compiled, transformed, differentiated
    forwards, or not of plain tensors."""
    if not (isinstance(tensors[0], Tensor) and is_eager(tensors[0])) or forward_ad._current_level >= 0:
        return None
    parts: list[Any] = [torch.is_grad_enabled(), options, tuple(map(type, options))]
    for tensor in tensors:
        if tensor is None:
            parts.append(None)
        elif (type(tensor) is Tensor or type(tensor) is torch.nn.Parameter) and not tensor.is_nested:
            parts += (tensor.shape, tensor.dtype, tensor.device, tensor.layout, tensor.requires_grad)
        else:
            return None
    return tuple(parts)


def find(signature: tuple | None) -> Resolved | None:
    try:
        return None if signature is None else _known.get(signature)
    except TypeError:  # an option that cannot be hashed, which `check` will refuse
        return None


def remember(signature: tuple | None, tensors: Tensors, call: Call, module: ModuleType) -> None:
    """Keep what a call resolved to, unless it changed the query or was made while a CUDA graph was recorded, when
    backends that have not been tested on the device yet cannot be chosen."""
    if signature is None or call.query is not tensors[0]:
        return
    if call.query.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    if len(_known) >= MOST:
        forget()
    _known[signature] = Resolved(module, call.is_causal, call.dropout_p, call.scale, call.window, call.softcap)


def forget() -> None:
    """For whoever changes what the choice depends on: the table of choices, or the environment."""
    _known.clear()
