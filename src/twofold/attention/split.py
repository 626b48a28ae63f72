"""The layer: self-attention in which every token has a key and a value for itself and others for everyone else.

The four kinds share every line but the two extra projections, so that an experiment differs in nothing else.

B batch, T new tokens, C model width, H heads, D head width
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from twofold.attention.cache import KeyValues
from twofold.attention.heads import check_dropout, check_heads, check_input, is_plain, merged, side_by_side, split
from twofold.attention.initialise import Init, init_of
from twofold.attention.rotary import Rotary, RotaryTable
from twofold.kernels.api import split_attention
from twofold.kernels.qk_norm_rotary import qk_norm_rotary, serves


class Kind(StrEnum):
    STANDARD = "standard"
    SPLIT_KEY = "split_key"
    SPLIT_VALUE = "split_value"
    SPLIT_KV = "split_kv"

    @property
    def splits_key(self) -> bool:
        return self in (Kind.SPLIT_KEY, Kind.SPLIT_KV)

    @property
    def splits_value(self) -> bool:
        return self in (Kind.SPLIT_VALUE, Kind.SPLIT_KV)


class HeadNorm(nn.RMSNorm):
    """RMSNorm whose gain follows the input's dtype: under autocast torch's own would leave its fused kernel."""

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class Projected(NamedTuple):
    """What a layer makes of its input, heads apart, positions applied: the arguments of `split_attention`."""

    query: Tensor
    key: Tensor
    value: Tensor
    self_key: Tensor | None
    self_value: Tensor | None


class SplitSelfAttention(nn.Module):
    """Multi-head split self-attention over (B, T, width).

    Args:
        width: C, the width of input and output.
        heads: query heads.
        kv_heads: heads of keys and values, which divide `heads`; None: as many.
        kind: "standard", "split_key", "split_value" or "split_kv".
        init: how the own weights start: "copy", "patent", "aligned", "independent" or an initialiser.
        bias: biases in all projections.
        head_width: D; None: width / heads.
        qk_norm: normalise queries and keys (own ones too) to unit mean square, with a learned gain.
        rotary: rotary positions of queries and keys; None: the layer does not know where a token stands.
        dropout: of the weights, while training.
        attend: the attention function; a `functools.partial` of `split_attention` fixes a backend, one of
            `twofold.kernels.reference.attend` brings another normaliser.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        kind: str = "split_kv",
        init: str | Init = "copy",
        bias: bool = False,
        head_width: int | None = None,
        qk_norm: bool = False,
        rotary: Rotary | None = None,
        dropout: float = 0.0,
        attend: Callable[..., Tensor] = split_attention,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_width = check_heads(width, heads, kv_heads, head_width)
        if kind not in tuple(Kind):
            raise ValueError(f"kind must be one of {', '.join(Kind)}, got {kind!r}")
        if rotary is not None and not isinstance(rotary, Rotary):
            raise ValueError(f"rotary must be None or a Rotary, got {rotary!r}")
        if rotary is not None and rotary.width != self.head_width:
            raise ValueError(f"rotary must be as wide as a head ({self.head_width}), got {rotary.width}")
        self.kind = Kind(kind)
        self.rotary, self.dropout, self.attend = rotary, check_dropout(dropout), attend

        def linear(heads: int) -> nn.Linear:
            return nn.Linear(width, heads * self.head_width, bias=bias, device=device, dtype=dtype)

        self.query, self.key, self.value = linear(self.heads), linear(self.kv_heads), linear(self.kv_heads)
        self.self_key = linear(self.kv_heads) if self.kind.splits_key else None
        self.self_value = linear(self.kv_heads) if self.kind.splits_value else None
        self.output = nn.Linear(self.heads * self.head_width, width, bias=bias, device=device, dtype=dtype)
        self.query_norm: nn.Module = nn.Identity()
        self.key_norm: nn.Module = nn.Identity()
        if qk_norm:
            self.query_norm = HeadNorm(self.head_width, eps=1e-6, device=device, dtype=dtype)
            self.key_norm = HeadNorm(self.head_width, eps=1e-6, device=device, dtype=dtype)
        init_of(init)(self)

    def project(self, x: Tensor, positions: Tensor | RotaryTable | None = None) -> Projected:
        """Queries, keys and values of x (B, T, C), as `split_attention` takes them.

        positions: (T,) or (B, T), where the tokens stand; None: 0, 1, 2, ... Only rotary layers use them. Or a
            `RotaryTable` that a model computed once (`rotary.at`) for all its layers, which then need no `rotary` of
            their own: a compiler would otherwise compute every cos and sin again in every layer and for every head.
        """
        query, key, value, self_key, self_value = self.mapped(x)
        query, key, value = (split(tensor, self.head_width) for tensor in (query, key, value))
        self_key = None if self_key is None else split(self_key, self.head_width)
        self_value = None if self_value is None else split(self_value, self.head_width)
        if isinstance(positions, RotaryTable):
            rotary_table = _checked(positions, x, self.head_width)
        else:
            rotary_table = None if self.rotary is None else _table_at(self.rotary, x, positions, query.dtype)
        query, key, self_key = self._placed(query, key, self_key, rotary_table)
        return Projected(query, key, value, self_key, self_value)

    def mapped(self, x: Tensor) -> list[Any]:
        """What the projections make of x, heads still together, in the order of `Projected`."""
        return side_by_side(x, self.query, self.key, self.value, self.self_key, self.self_value)

    def _placed(
        self, query: Tensor, key: Tensor, self_key: Tensor | None, rotary_table: RotaryTable | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Normalised and rotated."""
        norms = [self.query_norm, self.key_norm]
        gains: list[Tensor] = [norm.weight for norm in norms if isinstance(norm, HeadNorm)]
        tensors = [tensor for tensor in (query, key, self_key) if tensor is not None]
        one_kernel = len(gains) in (0, 2) and all(is_plain(norm, HeadNorm, nn.Identity) for norm in norms)
        if rotary_table is not None and one_kernel and serves(tensors, gains, rotary_table):
            eps = norms[0].eps if gains else 0.0
            gains_or_none = gains or (None, None)
            query, key, rotated = qk_norm_rotary(query, key, self_key, *gains_or_none, *rotary_table, eps)
            return query, key, None if self_key is None else rotated
        query, key = self.query_norm(query), self.key_norm(key)
        self_key = None if self_key is None else self.key_norm(self_key)
        if rotary_table is not None:
            query, key = rotary_table(query), rotary_table(key)
            self_key = None if self_key is None else rotary_table(self_key)
        return query, key, self_key

    def forward(
        self,
        x: Tensor,
        past: KeyValues | None = None,
        *,
        positions: Tensor | RotaryTable | None = None,
        **options: Any,
    ) -> tuple[Tensor, KeyValues]:
        """Attend over x (B, T, C) and whatever `past` holds.

        Args:
            x: the new tokens.
            past: what an earlier call returned; None: there is no past.
            positions: see `project`; None: counted on from the past.
            options: those of `split_attention`, such as attn_mask (broadcastable to (B, heads, T, past + T)),
                is_causal, window, softcap, segment_ids or backend.

        Returns:
            (B, T, C), and the past for the next call.
        """
        check_input("x", x, self.query)
        self._check_past(past, x.shape[0])
        if positions is None and past is not None:
            positions = torch.arange(past.length, past.length + x.shape[1], device=x.device)
        new = self.project(x, positions)
        options.setdefault("dropout_p", self.dropout if self.training else 0.0)
        options.setdefault("enable_gqa", self.heads != self.kv_heads)
        seen = KeyValues(new.key, new.value) if past is None else past.extended(new.key, new.value)
        out = self.attend(new.query, seen.key, seen.value, new.self_key, new.self_value, **options)
        return self.joined(out, new, x), seen

    def joined(self, out: Tensor, new: Projected, x: Tensor) -> Tensor:
        """From what the heads found (B, H, T, D) to (B, T, C). A variant may look at what they were given as well."""
        del new, x
        return self.output(merged(out))

    def _check_past(self, past: object, batch: int) -> None:
        if past is None:
            return
        if not isinstance(past, KeyValues):
            raise ValueError(f"past must be None or KeyValues, got {type(past).__name__}")
        shape = (past.key.shape[0], past.key.shape[1], past.key.shape[3])
        if shape != (batch, self.kv_heads, self.head_width):
            expected = f"({batch}, {self.kv_heads}, length, {self.head_width})"
            raise ValueError(f"past must hold keys of shape {expected}, got {tuple(past.key.shape)}")

    def extra_repr(self) -> str:
        return f"kind={self.kind}, heads={self.heads}, kv_heads={self.kv_heads}, head_width={self.head_width}"


def _checked(rotary_table: RotaryTable, x: Tensor, width: int) -> RotaryTable:
    shape = tuple(rotary_table.cos.shape)
    batches = shape[:-2] in ((), (1,), (1, 1), (x.shape[0], 1))
    if shape[-2:] != (x.shape[1], width) or not batches:
        expected = f"(T, D) = {(x.shape[1], width)} or (B, 1, T, D)"
        raise ValueError(f"positions as a RotaryTable must have shape {expected}, got {shape}")
    return rotary_table


def _table_at(rotary: Rotary, x: Tensor, positions: Tensor | None, dtype: torch.dtype) -> RotaryTable:
    if positions is None:
        positions = torch.arange(x.shape[1], device=x.device)
    if tuple(positions.shape) not in ((x.shape[1],), (1, x.shape[1]), (x.shape[0], x.shape[1])):
        expected = f"(T,) = ({x.shape[1]},) or (B, T) = {tuple(x.shape[:2])}"
        raise ValueError(f"positions must have shape {expected}, got {tuple(positions.shape)}")
    return rotary.at(positions, dtype)
