"""What a comparison says while it runs: nothing, what went wrong, or two lines a run with the time that is left."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from twofold.cli import warn
from twofold.cli.beside import Beside


@dataclass
class Silent:
    """For a process beside another: it says nothing, and once that one is gone it begins nothing."""

    parent: int

    def begins(self, key: Any, left: Sequence[Any]) -> None:
        if os.getppid() != self.parent:
            raise SystemExit(1)

    def ended(self, record: Any) -> None: ...

    def note(self, text: str) -> None: ...


@dataclass
class Quiet:
    """Says only what went wrong beside it."""

    beside: Beside

    def begins(self, key: Any, left: Sequence[Any]) -> None:
        self.beside.tell()

    def ended(self, record: Any) -> None: ...

    def note(self, text: str) -> None: ...


@dataclass
class Lines(Quiet):
    """Two lines for every run, with the time that all the rest takes if it goes on like this."""

    plan: Any
    began: float = field(default_factory=time.monotonic)
    at_first: int | None = None

    def begins(self, key: Any, left: Sequence[Any]) -> None:
        super().begins(key, left)
        rest = self._tokens(left)
        self.at_first = self.at_first or rest
        # Others work too, so what counts is how fast the rest gets less.
        done = self.at_first - rest
        when = f"; all done in about {span((time.monotonic() - self.began) / done * rest)}" if done else ""
        told = f"{key.phase} {key.arm}, rate {key.lr:g}, seed {key.seed}, {key.budget:,} tokens"
        warn(f"{told} ({len(left)} of the {key.phase} to go{when})")

    def ended(self, record: Any) -> None:
        value = "diverged" if record.value is None else f"{record.value:.4f}"
        warn(f"  {record.metric} {value}")

    def note(self, text: str) -> None:
        warn(text)

    def _tokens(self, left: Sequence[Any]) -> int:
        """Of all that is to be done; after the grid, what is compared."""
        later = sum(self.plan.budgets) * len(self.plan.seeds) * len(self.plan.arms) if left[0].phase == "grid" else 0
        return sum(key.budget for key in left) + later


def span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
