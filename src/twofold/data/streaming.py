"""Data that is too large to be held: gone through from its beginning, as often as wanted, and never all in memory."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item", covariant=True)


class Streamed(Generic[Item]):
    """Whatever `begin` gives, begun anew each time it is gone through. How much it is, nobody knows before."""

    def __init__(self, begin: Callable[[], Iterator[Item]]) -> None:
        self.begin = begin

    def __iter__(self) -> Iterator[Item]:
        return self.begin()
