"""What a layer remembers of the past: the keys and values that *others* need, never the own ones.

State is passed in and returned, never hidden on a module. Models use transformers' caches instead (`own_slots`).
"""

from typing import NamedTuple

import torch
from torch import Tensor


class KeyValues(NamedTuple):
    """Keys and values of every token so far, (B, Hkv, length, D). Growing copies them; gradients pass through."""

    key: Tensor
    value: Tensor

    @property
    def length(self) -> int:
        return self.key.shape[2]

    def extended(self, key: Tensor, value: Tensor) -> "KeyValues":
        return KeyValues(torch.cat([self.key, key], dim=2), torch.cat([self.value, value], dim=2))
