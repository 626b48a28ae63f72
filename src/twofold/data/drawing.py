"""Splits drawn from a grammar: so many of each, never the same twice, always the same for a seed."""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from twofold.data.examples import SPLITS, Splits
from twofold.data.grammar import bare, seeded

Example = TypeVar("Example")
TRIES = 500


def draw_splits(
    name: str,
    seed: int,
    sizes: tuple[int, int, int],
    make: Callable[[str, int, Random], Example],
    key: Callable[[Example], str],
) -> Splits[Example]:
    """Train, dev and test of those sizes. `make(split, place, rng)` gives an example; no two have the same `key`.

    Case and punctuation do not make two keys different.
    """
    for split, size in zip(SPLITS, sizes, strict=True):
        if size < 0:
            raise ValueError(f"{split} must be 0 or more, got {size}")
    said: set[str] = set()
    made: dict[str, list[Example]] = {}
    for split, size in zip(SPLITS, sizes, strict=True):
        rng = seeded(name, seed, split)
        made[split] = []
        for place in range(size):
            for _ in range(TRIES):
                example = make(split, place, rng)
                if bare(key(example)) not in said:
                    break
            else:
                raise ValueError(f"{split} must be smaller: {name} has not {size} examples that differ")
            said.add(bare(key(example)))
            made[split].append(example)
        rng.shuffle(made[split])
    return Splits(made["train"], made["dev"], made["test"])
