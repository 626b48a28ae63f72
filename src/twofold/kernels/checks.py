"""The arguments of the public functions, checked once for all backends.

`check` turns them into a `Call`, or raises a ValueError that names the argument, what was expected and what came. It
knows nothing of backends.

B batch, Hq query heads, Hkv key/value heads, T queries, S keys, D key width, Dv value width
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import torch
from torch import Tensor
from torch.autograd import forward_ad

from twofold.kernels.eager import is_eager

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
# The largest number in float32, in which half precision is computed.
LARGEST = torch.finfo(torch.float32).max
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class Options(TypedDict, total=False):
    """The keyword options that all public functions share; `split_attention` documents them."""

    attn_mask: Tensor | None
    is_causal: bool
    dropout_p: float
    scale: float | None
    enable_gqa: bool
    window: int | None
    softcap: float | None
    segment_ids: Tensor | None


def have_tangents(*tensors: Tensor | None) -> bool:
    """Whether any has a forward-mode derivative, which torch.no_grad does not stop. A compiled graph cannot ask."""
    if torch.compiler.is_compiling() or forward_ad._current_level < 0:
        return False
    try:
        return any(t is not None and forward_ad.unpack_dual(t).tangent is not None for t in tensors)
    except RuntimeError:
        # Under a vmap inside a jvp, tensors cannot be asked, and there are tangents.
        return True


def _is_within(*transforms: str) -> bool:
    """Whether one of these transforms of torch.func ("Grad", "Jvp") is active at any level: a gradient inside a forward
    derivative hides its tangents."""
    if torch.compiler.is_compiling() or not torch._C._are_functorch_transforms_active():
        return False
    return any(level.key().name in transforms for level in torch._C._functorch.get_interpreter_stack() or [])


def without_tangents(*tensors: Tensor | None) -> tuple[Any, ...]:
    """The tensors of a backward pass; NotImplementedError if one has a tangent, which our ops would silently drop.

    All in one call, because activation checkpointing returns saved tensors only once.
    """
    if have_tangents(*tensors):
        raise NotImplementedError('forward-mode gradients of a gradient need backend="reference"')
    return tensors


class Call(NamedTuple):
    """A checked call: shapes agree and options have their final values."""

    query: Tensor  # (B, Hq, T, D)
    key: Tensor  # (B, Hkv, S, D)
    value: Tensor  # (B, Hkv, S, Dv)
    self_key: Tensor | None  # (B, Hkv, T, D)
    self_value: Tensor | None  # (B, Hkv, T, Dv)
    attn_mask: Tensor | None  # bool or float, 4-D, broadcastable to (B, Hq, T, S)
    is_causal: bool
    dropout_p: float
    scale: float
    window: int | None
    softcap: float | None
    segment_ids: Tensor | None  # (B, T)

    @property
    def queries(self) -> int:
        return self.query.shape[2]

    @property
    def keys(self) -> int:
        return self.key.shape[2]

    @property
    def groups(self) -> int:
        """Query heads that share one key/value head."""
        return self.query.shape[1] // max(self.key.shape[1], 1)

    @property
    def is_split(self) -> bool:
        return self.self_key is not None or self.self_value is not None

    @property
    def has_pattern(self) -> bool:
        """Whether something other than causality hides keys from queries."""
        return self.attn_mask is not None or self.window is not None or self.segment_ids is not None

    @property
    def is_masked(self) -> bool:
        """Whether some key is hidden from some query."""
        return self.is_causal or self.has_pattern

    @property
    def is_plain(self) -> bool:
        """Whether it is self-attention without a mask other than causality."""
        return self.keys == self.queries and not self.has_pattern

    @property
    def is_plain_causal(self) -> bool:
        return self.is_causal and self.is_plain

    @property
    def is_plain_sdpa(self) -> bool:
        """Whether torch's own attention takes these options: causality alone or a mask alone."""
        if self.softcap is not None or self.window is not None or self.segment_ids is not None:
            return False
        return not self.is_causal or self.is_plain_causal

    def own_pair(self) -> tuple[Tensor, Tensor]:
        """Keys and values of the own slots: (B, Hkv, T, D), (B, Hkv, T, Dv)."""
        own = slice(self.keys - self.queries, self.keys)
        self_key = self.key[:, :, own] if self.self_key is None else self.self_key
        return self_key, self.value[:, :, own] if self.self_value is None else self.self_value

    @property
    def wants_gradient(self) -> bool:
        return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in self[:6])

    @property
    def has_tangent(self) -> bool:
        """Whether it is differentiated forwards (torch.func.jvp), which custom ops would silently drop."""
        return have_tangents(*self[:6]) or _is_within("Jvp")

    @property
    def is_transformed(self) -> bool:
        """Whether it is called inside torch.func (grad, vmap, jvp)."""
        # As torch's own autograd.Function does; there is no public function for it.
        return torch._C._are_functorch_transforms_active()

    @property
    def is_differentiated(self) -> bool:
        """Whether torch.func differentiates it, which does not see the gradients of our ops."""
        return _is_within("Grad", "Jvp")

    @property
    def is_eager(self) -> bool:
        """Whether it is computed now, on plain tensors, so that constants may be cached."""
        return is_eager(self.query)

    @property
    def has_empty_side(self) -> bool:
        """Whether some dimension is 0, on which library kernels may crash."""
        return 0 in self.query.shape or 0 in self.key.shape or 0 in self.value.shape


def check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    self_key: Tensor | None,
    self_value: Tensor | None,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    dropout_p: float = 0.0,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    segment_ids: Tensor | None = None,
) -> Call:
    """The arguments of a public function as a `Call`; ValueError if they do not fit together."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        _check_tensor(name, tensor, like=query)
    for name, tensor in (("self_key", self_key), ("self_value", self_value)):
        if tensor is not None:
            _check_tensor(name, tensor, like=query)
    B, Hq, T, D = query.shape
    _, Hkv, S, _ = key.shape
    Dv = value.shape[-1]
    _check_heads(Hq, Hkv, enable_gqa)
    _check_shape("key", key, "(B, Hkv, S, D)", (B, Hkv, S, D))
    _check_shape("value", value, "(B, Hkv, S, Dv)", (B, Hkv, S, Dv))
    if self_key is not None:
        _check_shape("self_key", self_key, "(B, Hkv, T, D)", (B, Hkv, T, D))
    if self_value is not None:
        _check_shape("self_value", self_value, "(B, Hkv, T, Dv)", (B, Hkv, T, Dv))
    if D == 0:
        raise ValueError("query must have a head width D of at least 1, got 0")
    _check_flag("is_causal", is_causal)
    _check_number("dropout_p", dropout_p, "a number from 0 to 1", lambda x: 0 <= x <= 1)
    if scale is not None:
        _check_number("scale", scale, "None or a finite number", lambda x: abs(x) <= LARGEST)
    if softcap is not None:
        _check_number("softcap", softcap, "None or a finite number above 0", lambda x: 0 < x <= LARGEST)
    if window is not None and (isinstance(window, bool) or not isinstance(window, int) or window < 0):
        raise ValueError(f"window must be None or a whole number of at least 0, got {window!r}")
    scale = 1.0 / math.sqrt(D) if scale is None else float(scale)
    if scale <= 0:
        # Library kernels multiply their -inf by the scale, so put the sign or the zero into the query, which is exact.
        query, scale = (query * 0.0, 1.0) if scale == 0 else (-query, -scale)
    needs_own_slot = {
        "self_key": self_key is not None,
        "self_value": self_value is not None,
        "is_causal": is_causal,
        "window": window is not None,
        "segment_ids": segment_ids is not None,
    }
    needing = [name for name, is_set in needs_own_slot.items() if is_set]
    # Compare lengths only where needed: an exported graph of cross-attention would be tied to the outcome.
    if needing and S < T:
        raise ValueError(
            f"{needing[0]} needs an own slot for every query: key must have at least query's {T} tokens, got {S}"
        )
    return Call(
        query=query,
        key=key,
        value=value,
        self_key=self_key,
        self_value=self_value,
        attn_mask=_checked_mask(attn_mask, query, (B, Hq, T, S)),
        # A single query owns the last slot and sees everything before it. The conditional is for dynamic sizes, where
        # `T > 1` is a symbol and not a bool.
        is_causal=True if is_causal and T > 1 else False,  # noqa: SIM210
        dropout_p=float(dropout_p),
        scale=scale,
        window=None if window is None else min(window, S),
        softcap=None if softcap is None else float(softcap),
        segment_ids=_checked_segments(segment_ids, query, B, T, S),
    )


def _check_tensor(name: str, tensor: object, *, like: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.layout != torch.strided or tensor.is_nested:
        raise ValueError(f"{name} must be a dense tensor, got layout {tensor.layout}")
    if tensor.dim() != 4:
        raise ValueError(f"{name} must have 4 dimensions (batch, heads, tokens, width), got {tuple(tensor.shape)}")
    if tensor.dtype not in FLOATS:
        raise ValueError(f"{name} must be float64, float32, bfloat16 or float16, got {tensor.dtype}")
    if tensor.dtype != like.dtype:
        raise ValueError(f"{name} must have query's dtype {like.dtype}, got {tensor.dtype}")
    if tensor.device != like.device:
        raise ValueError(f"{name} must be on query's device {like.device}, got {tensor.device}")


def _check_shape(name: str, tensor: Tensor, letters: str, expected: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != expected:
        raise ValueError(f"{name} must have shape {letters} = {expected}, got {tuple(tensor.shape)}")


def _check_heads(Hq: int, Hkv: int, enable_gqa: bool) -> None:
    _check_flag("enable_gqa", enable_gqa)
    if Hq == Hkv:
        return
    if not enable_gqa:
        raise ValueError(f"key must have query's {Hq} heads unless enable_gqa=True, got {Hkv}")
    if Hkv == 0 or Hq % Hkv:
        raise ValueError(f"key must have a number of heads that divides query's {Hq}, got {Hkv}")


def _check_flag(name: str, flag: object) -> None:
    if not isinstance(flag, bool):
        raise ValueError(f"{name} must be True or False, got {flag!r}")


def _check_number(name: str, number: object, expected: str, fits: Callable[[float], bool]) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float) or not fits(number):
        raise ValueError(f"{name} must be {expected}, got {number!r}")


def _checked_mask(mask: Tensor | None, query: Tensor, full: tuple[int, ...]) -> Tensor | None:
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise ValueError(f"attn_mask must be a torch.Tensor, got {type(mask).__name__}")
    if mask.dtype != torch.bool and mask.dtype not in FLOATS:
        raise ValueError(f"attn_mask must be bool (True = may attend) or float (added), got {mask.dtype}")
    if mask.device != query.device:
        raise ValueError(f"attn_mask must be on query's device {query.device}, got {mask.device}")
    if mask.layout != torch.strided or mask.is_nested:
        raise ValueError(f"attn_mask must be a dense tensor, got layout {mask.layout}")
    shape = (1,) * (4 - mask.dim()) + tuple(mask.shape)
    if mask.dim() > 4 or any(have != 1 and have != want for have, want in zip(shape, full, strict=True)):
        raise ValueError(f"attn_mask must broadcast to (B, Hq, T, S) = {full}, got {tuple(mask.shape)}")
    return as_4d(mask, query)


def as_4d(mask: Tensor, query: Tensor) -> Tensor:
    """A mask that fits, with 4 dimensions and at most the query's precision."""
    if mask.dtype == torch.float64 and query.dtype != torch.float64:
        # Finite entries stay finite: in float32 the most negative float64 would be -inf.
        mask = torch.where(mask == -math.inf, -math.inf, mask.clamp(-LARGEST, LARGEST)).float()
    return mask if mask.dim() == 4 else mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape))


def _checked_segments(segment_ids: Tensor | None, query: Tensor, B: int, T: int, S: int) -> Tensor | None:
    if segment_ids is None:
        return None
    if not isinstance(segment_ids, Tensor):
        raise ValueError(f"segment_ids must be a torch.Tensor, got {type(segment_ids).__name__}")
    if segment_ids.dtype not in INTEGERS:
        raise ValueError(f"segment_ids must hold whole numbers, got {segment_ids.dtype}")
    if segment_ids.device != query.device:
        raise ValueError(f"segment_ids must be on query's device {query.device}, got {segment_ids.device}")
    if S != T:
        raise ValueError(f"segment_ids need as many keys as queries ({T}), got {S} keys")
    if tuple(segment_ids.shape) != (B, T):
        raise ValueError(f"segment_ids must have shape (B, T) = {(B, T)}, got {tuple(segment_ids.shape)}")
    return segment_ids
