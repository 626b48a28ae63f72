"""Rows of a stream by number, so that a step knows its rows and a resumed run finds them again."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from twofold.data.streaming import Streamed
from twofold.training.settings import Settings

# Rows that are held, out of which the next is drawn: neighbours in a text seldom meet in a batch.
POOL = 1000


class Numbered:
    """Row n of a stream is the same however often a run is resumed: the seed decides the order of the rows.

    Numbers may go back by less than a batch. To begin with a later row, all rows before it are read. A stream that ends
    begins again.
    """

    def __init__(self, rows: Streamed[Any], settings: Settings) -> None:
        for name in ("batch_tokens", "workers"):
            if value := getattr(settings, name):
                raise ValueError(f"{name} must not be given where the data is a stream, got {value}")
        self.rows, self.seed, self.kept_back = rows, settings.seed, settings.batch_size
        self.drawn = self._drawn()
        self.recent: dict[int, Any] = {}
        self.next = 0

    def __getitem__(self, number: int) -> Any:
        while self.next <= number:
            self.recent[self.next] = next(self.drawn)
            self.recent.pop(self.next - self.kept_back, None)
            self.next += 1
        return self.recent[number]

    def _drawn(self) -> Iterator[Any]:
        draw, pool = np.random.default_rng(self.seed), []
        for row in self._endlessly():
            if len(pool) < POOL:
                pool.append(row)
                continue
            place = int(draw.integers(POOL))
            chosen, pool[place] = pool[place], row
            yield chosen

    def _endlessly(self) -> Iterator[Any]:
        while True:
            row = None
            for row in self.rows:
                yield row
            if row is None:
                raise ValueError("train must have at least one example, got none")
