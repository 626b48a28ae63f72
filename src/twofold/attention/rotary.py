"""Rotary positions: pairs of features turn with the token's position, so q . k depends on the distance alone.

The pairs are (feature j, feature j + D/2), as in Llama and Qwen checkpoints. The own key is rotated like any other:
under YaRN the turn also scales, so leaving it out would change the own score.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Yarn:
    """YaRN (Peng et al. 2023): stretch slow frequencies by `factor`, keep fast ones, sharpen the scores a little."""

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    """Scale of cos and sin; None: 0.1 ln(factor) + 1."""

    def __post_init__(self) -> None:
        if self.factor < 1:
            raise ValueError(f"factor must be at least 1, got {self.factor}")
        if self.original_length < 1:
            raise ValueError(f"original_length must be at least 1, got {self.original_length}")

    @property
    def magnitude(self) -> float:
        return 0.1 * math.log(self.factor) + 1 if self.attention_factor is None else self.attention_factor

    def stretched(self, frequencies: Tensor, width: int, base: float) -> Tensor:
        def pair_that_turns(times: float) -> float:
            """The (fractional) pair that turns this many times within the original length."""
            return width * math.log(self.original_length / (times * 2 * math.pi)) / (2 * math.log(base))

        low = max(math.floor(pair_that_turns(self.beta_fast)), 0)
        high = min(math.ceil(pair_that_turns(self.beta_slow)), width - 1)
        pairs = torch.arange(width // 2, device=frequencies.device, dtype=frequencies.dtype)
        kept = 1 - ((pairs - low) / max(high - low, 0.001)).clamp(0, 1)
        return frequencies / self.factor * (1 - kept) + frequencies * kept


class Turn(NamedTuple):
    """cos and sin of every position and pair: (..., T, D)."""

    cos: Tensor
    sin: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Rotate (B, H, T, D)."""
        half = x.shape[-1] // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
        return x * self.cos + turned * self.sin


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """The angles of a head: pair j turns by base^(-2j/width) a token."""

    width: int
    base: float = 10_000.0
    scaling: Yarn | None = None

    def __post_init__(self) -> None:
        if self.width < 2 or self.width % 2:
            raise ValueError(f"width must be even and at least 2, got {self.width}")
        if self.base <= 1:
            raise ValueError(f"base must be above 1, got {self.base}")

    def at(self, positions: Tensor, dtype: torch.dtype) -> Turn:
        """The turn of `positions`, (T,) or (B, T), ready for tensors (B, H, T, D)."""
        exact = torch.float64 if dtype == torch.float64 else torch.float32
        pairs = torch.arange(0, self.width, 2, device=positions.device, dtype=exact)
        frequencies = self.base ** (-pairs / self.width)
        magnitude = 1.0
        if self.scaling is not None:
            frequencies = self.scaling.stretched(frequencies, self.width, self.base)
            magnitude = self.scaling.magnitude
        angles = positions.to(exact)[..., None] * frequencies
        angles = torch.cat([angles, angles], dim=-1)
        if positions.dim() == 2:
            angles = angles[:, None]
        return Turn((angles.cos() * magnitude).to(dtype), (angles.sin() * magnitude).to(dtype))
