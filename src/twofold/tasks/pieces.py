"""One long stream of tokens, held as an array, as the rows that training goes through."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from twofold.tasks.task import Features


class Pieces(Sequence[Features]):
    """Pieces of the stream, each twice as long as the context and beginning where the one before has its middle.

    A row is cut out when it is asked for: a list of lists would take some fifty bytes a token.
    """

    def __init__(self, stream: np.ndarray, context: int) -> None:
        self.stream, self.context = stream, context

    def __len__(self) -> int:
        return max(1, -(-(len(self.stream) - self.context) // self.context))

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        start = range(len(self))[place] * self.context
        return {"input_ids": self.stream[start : start + 2 * self.context]}
