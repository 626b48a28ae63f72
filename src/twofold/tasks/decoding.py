"""How tokens are chosen one after the other. Imports nothing: a command reads it for help."""

from dataclasses import dataclass
from typing import Any

# Scores are divided by the temperature; by far less than this they become endless.
LEAST_TEMPERATURE = 1e-3


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoding:
    """How to write: the likeliest token each time, the best of several beams, or by chance."""

    beams: int = 1
    """Beginnings that are kept at every step; 1 is greedy."""
    temperature: float | None = None
    """Draw by chance: below 1 keeps to the likely, above 1 dares more."""
    top_k: int | None = None
    """Draw among so many tokens at most."""
    top_p: float | None = None
    """Draw among the likeliest tokens that together have this probability."""
    min_p: float | None = None
    """Draw among tokens that are at least so likely, as a share of the likeliest."""
    max_new_tokens: int = 200
    """Longest text, in tokens."""
    seed: int = 0
    """Seed of what is drawn."""

    def __post_init__(self) -> None:
        for name in ("beams", "top_k", "max_new_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.temperature is not None and not LEAST_TEMPERATURE <= self.temperature < float("inf"):
            raise ValueError(
                f"temperature must be finite and at least {LEAST_TEMPERATURE} (without it nothing is drawn), "
                f"got {self.temperature}"
            )
        for name in ("top_p", "min_p"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise ValueError(f"{name} must be above 0 and at most 1, got {value}")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}")
        if self.seed >= 2**64:
            raise ValueError(f"seed must be below 2**64, got {self.seed}")
        if self.beams > 1 and self.is_random:
            raise ValueError(f"beams must be 1 where tokens are drawn by chance, got {self.beams}")

    @property
    def is_random(self) -> bool:
        return any(value is not None for value in (self.temperature, self.top_k, self.top_p, self.min_p))

    def as_arguments(self) -> dict[str, Any]:
        """For `generate` of transformers, whose own defaults would draw among the 50 likeliest."""
        told: dict[str, Any] = {"num_beams": self.beams, "do_sample": self.is_random}
        if self.is_random:
            told |= {"temperature": self.temperature or 1.0, "top_k": self.top_k or 0, "top_p": self.top_p or 1.0}
            told |= {} if self.min_p is None else {"min_p": self.min_p}
        return told
