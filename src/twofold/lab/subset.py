"""A share of a training split, to see how much an arm needs to learn from: the same examples for every run."""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Example = TypeVar("Example")


def subset(train: Sequence[Example], share: float, labels: Callable[[Example], Iterable[str]]) -> list[Example]:
    """A share of the examples, drawn once and for all, in their order.

    Those that bring a label which the others before them lack are drawn first, for nothing predicts a label that it has
    never seen. There may be more of them than the share.
    """
    if share < 1 and len(train) == 1:
        raise ValueError(f"share must be 1 where training has a single text, got {share}")
    order = list(range(len(train)))
    random.Random(0).shuffle(order)  # noqa: S311
    known: set[str] = set()
    first, rest = [], []
    for place in order:
        new = set(labels(train[place])) - known
        known |= new
        (first if new else rest).append(place)
    size = max(len(first), math.ceil(share * len(train)))
    return [train[place] for place in sorted([*first, *rest][:size])]
