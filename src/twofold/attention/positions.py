"""Where a token stands: codes that are added to or concatenated with embeddings, and ALiBi's bias on scores.

Without any of these a self-attention layer cannot tell one order of its tokens from another. Rotary positions act
inside the layer and live in `rotary`.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

Combine = Literal["add", "concatenate"]


def sinusoidal(positions: Tensor, width: int, base: float = 10_000.0, dtype: torch.dtype = torch.float32) -> Tensor:
    """The fixed code of 2017, in radians: feature 2j is sin(p / base^(2j/width)), feature 2j + 1 its cosine.

    positions (...,) -> (..., width). Moving by a distance turns each (sin, cos) pair by a fixed angle.
    """
    if width < 2 or width % 2:
        raise ValueError(f"width must be even and at least 2, got {width}")
    exponents = torch.arange(0, width, 2, device=positions.device, dtype=torch.float64) / width
    angles = positions.double()[..., None] * base**-exponents
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(dtype)


class SinusoidalPositions(nn.Module):
    """Adds or concatenates the fixed code: (B, T, C) -> (B, T, C), or (B, T, C + width) if concatenated."""

    def __init__(self, width: int, *, combine: Combine = "add", base: float = 10_000.0) -> None:
        super().__init__()
        self.width, self.combine, self.base = width, _checked(combine), base
        sinusoidal(torch.zeros(1), width, base)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """`start`: the position of the first token of x."""
        positions = torch.arange(start, start + x.shape[1], device=x.device)
        return _combined(x, sinusoidal(positions, self.width, self.base, x.dtype), self.combine)


class LearnedPositions(nn.Module):
    """Adds or concatenates a learned vector per position, for at most `max_length` positions."""

    def __init__(self, max_length: int, width: int, *, combine: Combine = "add") -> None:
        super().__init__()
        self.combine = _checked(combine)
        self.table = nn.Embedding(max_length, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        stop, room = start + x.shape[1], self.table.num_embeddings
        if start < 0 or stop > room:
            raise ValueError(f"x must end within the {room} learned positions, got positions {start} to {stop - 1}")
        return _combined(x, self.table.weight[start:stop].to(x.dtype), self.combine)


def _checked(combine: str) -> Combine:
    if combine not in ("add", "concatenate"):
        raise ValueError(f"combine must be 'add' or 'concatenate', got {combine!r}")
    return combine


def _combined(x: Tensor, code: Tensor, combine: Combine) -> Tensor:
    if combine == "add":
        if x.shape[-1] != code.shape[-1]:
            raise ValueError(f"x must be as wide as the added positions ({code.shape[-1]}), got {x.shape[-1]}")
        return x + code
    return torch.cat([x, code.expand(*x.shape[:-1], -1)], dim=-1)


@dataclass(frozen=True)
class Alibi:
    """ALiBi (Press et al. 2021): every head pays a fixed price per token of distance. A mask, not an embedding."""

    heads: int

    def __post_init__(self) -> None:
        if self.heads < 1:
            raise ValueError(f"heads must be at least 1, got {self.heads}")

    def slopes(self) -> Tensor:
        """(heads,): 2^(-8/n), 2^(-16/n), ... for n a power of two, filled up from the next power otherwise."""
        power = 2 ** math.floor(math.log2(self.heads))
        first = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        between = [2 ** (-4 * (2 * i + 1) / power) for i in range(self.heads - power)]
        return torch.tensor(first + between)

    def bias(self, queries: int, keys: int, *, device: torch.device | str | None = None) -> Tensor:
        """(1, heads, queries, keys) to pass as attn_mask; query i stands at slot keys - queries + i."""
        slot = torch.arange(keys - queries, keys, device=device)[:, None]
        distance = (slot - torch.arange(keys, device=device)[None, :]).abs()
        return -(self.slopes().to(distance.device)[:, None, None] * distance)[None]
