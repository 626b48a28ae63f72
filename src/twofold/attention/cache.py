"""What a layer remembers of the past: the keys and values that *others* need, never the own ones.

State is passed in and handed back, never hidden on a module. `KeyValues` grows by copying and can be trained through;
`KeyValueBuffer` is written in place, for generation.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor


class KeyValues(NamedTuple):
    """Keys and values of every token so far: (B, Hkv, length, D)."""

    key: Tensor
    value: Tensor

    @property
    def length(self) -> int:
        return self.key.shape[2]

    def extended(self, key: Tensor, value: Tensor) -> "KeyValues":
        return KeyValues(torch.cat([self.key, key], dim=2), torch.cat([self.value, value], dim=2))


@dataclass(frozen=True, slots=True)
class KeyValueBuffer:
    """Room for `capacity` tokens, of which `length` are filled; the tensors are shared by all its successors."""

    key: Tensor  # (B, Hkv, capacity, D)
    value: Tensor
    length: int = 0

    @classmethod
    def allocate(
        cls,
        batch: int,
        kv_heads: int,
        capacity: int,
        head_width: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        shape = (batch, kv_heads, capacity, head_width)
        return cls(torch.zeros(shape, dtype=dtype, device=device), torch.zeros(shape, dtype=dtype, device=device))

    def advanced(self, tokens: int) -> "KeyValueBuffer":
        return KeyValueBuffer(self.key, self.value, self.length + tokens)
