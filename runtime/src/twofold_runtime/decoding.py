"""How tokens are chosen one after the other. Imports nothing: a command reads it for help."""

from dataclasses import dataclass
from typing import Annotated

from twofold_runtime.checked import Seed, above, at_most, check_fields, within


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoding:
    """How to write: the likeliest token each time, beam search, or sampling."""

    beams: Annotated[int, within(1, 256)] = 1
    """Beams kept at every step; 1 is greedy."""
    temperature: Annotated[float, within(1e-3, 1000)] | None = None
    """Sample: below 1 keeps to the likely tokens, above 1 takes unlikely ones more often."""
    top_k: Annotated[int, within(1, 1_000_000)] | None = None
    """Draw among so many tokens at most."""
    top_p: Annotated[float, above(0), at_most(1)] | None = None
    """Draw among the likeliest tokens that together have this probability."""
    min_p: Annotated[float, above(0), at_most(1)] | None = None
    """Draw among tokens that are at least so likely, as a share of the likeliest."""
    max_new_tokens: Annotated[int, within(1, 100_000)] = 200
    """Longest text, in tokens."""
    seed: Seed = 0
    """Seed of what is drawn."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.beams > 1 and self.is_random:
            raise ValueError(f"beams must be 1 where tokens are sampled, got {self.beams}")

    @property
    def is_random(self) -> bool:
        return any(value is not None for value in (self.temperature, self.top_k, self.top_p, self.min_p))
