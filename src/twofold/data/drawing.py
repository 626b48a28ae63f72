"""Draws the splits of an embedded set: the sizes asked for, no example twice, always the same for a seed."""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from twofold.data.examples import SPLITS, Splits
from twofold.data.grammar import letters_and_digits, seeded

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
    keys: set[str] = set()
    splits: dict[str, list[Example]] = {}
    for split, size in zip(SPLITS, sizes, strict=True):
        rng = seeded(name, seed, split)
        splits[split] = []
        for place in range(size):
            for _ in range(TRIES):
                example = make(split, place, rng)
                if letters_and_digits(key(example)) not in keys:
                    break
            else:
                raise ValueError(f"{split} must be smaller: {name} has fewer than {size} different examples")
            keys.add(letters_and_digits(key(example)))
            splits[split].append(example)
        rng.shuffle(splits[split])
    return Splits(splits["train"], splits["dev"], splits["test"])
