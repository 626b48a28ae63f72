"""Data too large for the memory: read from the beginning, as often as wanted."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item", covariant=True)


class Streamed(Generic[Item]):
    """An iterable of unknown length: every iteration calls `begin` for a fresh iterator."""

    def __init__(self, begin: Callable[[], Iterator[Item]]) -> None:
        self.begin = begin

    def __iter__(self) -> Iterator[Item]:
        return self.begin()
