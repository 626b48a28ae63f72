"""Rotary positions: pairs of features are rotated by the token's position, so q . k depends on the distance alone.

The pairs are (feature j, feature j + D/2), as in Llama and Qwen checkpoints. The own key is rotated like any other:
under YaRN rotation also scales, so an own key left unrotated would give another score.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Interpolation:
    """Position interpolation (Chen et al. 2023): every frequency is slowed by `factor`."""

    factor: float
    magnitude = 1.0

    def __post_init__(self) -> None:
        _check_factor(self.factor)

    def stretched(self, frequencies: Tensor, width: int, base: float) -> Tensor:
        del width, base
        return frequencies / self.factor


@dataclass(frozen=True, kw_only=True)
class Llama3:
    """Llama 3.1's stretch: slow frequencies by `factor`, those that turn often within the original length not at all.

    Between `low` and `high` turns within the original length the slowing fades out.
    """

    factor: float
    original_length: int
    low: float = 1.0
    high: float = 4.0
    magnitude = 1.0

    def __post_init__(self) -> None:
        _check_factor(self.factor)
        _check_original_length(self.original_length)
        if not 0 < self.low < self.high < math.inf:
            raise ValueError(f"low must lie between 0 and high ({self.high}), got {self.low}")

    def stretched(self, frequencies: Tensor, width: int, base: float) -> Tensor:
        del width, base
        turns = self.original_length * frequencies / (2 * math.pi)
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return frequencies / self.factor * (1 - kept) + frequencies * kept


@dataclass(frozen=True, kw_only=True)
class Yarn:
    """YaRN (Peng et al. 2023): stretch slow frequencies by `factor`, keep fast ones, sharpen the scores a little."""

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    """Scale of cos and sin; None: 0.1 ln(factor) + 1."""
    truncate: bool = True
    """Let the stretch fade between whole pairs, as the paper has it; else between fractions of them."""

    def __post_init__(self) -> None:
        _check_factor(self.factor)
        _check_original_length(self.original_length)
        for name in ("beta_fast", "beta_slow", "attention_factor"):
            if (value := getattr(self, name)) is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be a finite number above 0, got {value}")

    @property
    def magnitude(self) -> float:
        return 0.1 * math.log(self.factor) + 1 if self.attention_factor is None else self.attention_factor

    def stretched(self, frequencies: Tensor, width: int, base: float) -> Tensor:
        def pair_that_turns(times: float) -> float:
            """The (fractional) pair that turns this many times within the original length."""
            return width * math.log(self.original_length / (times * 2 * math.pi)) / (2 * math.log(base))

        low, high = pair_that_turns(self.beta_fast), pair_that_turns(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, width - 1)
        pairs = torch.arange(width // 2, device=frequencies.device, dtype=frequencies.dtype)
        kept = 1 - ((pairs - low) / max(high - low, 0.001)).clamp(0, 1)
        return frequencies / self.factor * (1 - kept) + frequencies * kept


Scaling = Interpolation | Llama3 | Yarn


def _check_factor(factor: float) -> None:
    if not 1 <= factor < math.inf:
        raise ValueError(f"factor must be a finite number of at least 1, got {factor}")


def _check_original_length(length: int) -> None:
    if not 1 <= length < math.inf:
        raise ValueError(f"original_length must be at least 1, got {length}")


class RotaryTable(NamedTuple):
    """cos and sin of every position and pair, (..., T, D) each: computed once, applied in every layer."""

    cos: Tensor
    sin: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Rotate (B, H, T, D)."""
        half = x.shape[-1] // 2
        rotated = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
        return x * self.cos + rotated * self.sin


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """The angles of a head: pair j rotates by base^(-2j/width) per token."""

    width: int
    base: float = 10_000.0
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        if self.width < 2 or self.width % 2:
            raise ValueError(f"width must be even and at least 2, got {self.width}")
        if not 1 < self.base < math.inf:
            raise ValueError(f"base must be a finite number above 1, got {self.base}")

    def at(self, positions: Tensor, dtype: torch.dtype) -> RotaryTable:
        """The table of `positions`, (T,) or (B, T), for tensors (B, H, T, D)."""
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
        return RotaryTable((angles.cos() * magnitude).to(dtype), (angles.sin() * magnitude).to(dtype))
