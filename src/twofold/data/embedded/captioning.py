"""Coloured shapes on a small canvas, with captions. Test shows combinations that train lacks."""

import hashlib
from dataclasses import dataclass
from functools import cache
from random import Random

import torch
from torch import Tensor

from twofold.data.drawing import draw_splits
from twofold.data.examples import Captioned, Splits
from twofold.data.grammar import split_of

SIDE = 32
COLOURS = {
    "red": (220, 40, 40),
    "green": (40, 170, 60),
    "blue": (50, 80, 220),
    "yellow": (235, 210, 50),
    "purple": (140, 60, 170),
    "orange": (240, 140, 30),
    "white": (245, 245, 245),
}
SHAPES = ("circle", "square", "triangle", "cross")
SIZES = {"small": 3.5, "big": 6.5}
# Where the second shape is, seen from the first: rows down, columns to the right.
RELATIONS = {"above": (1, 0), "below": (-1, 0), "left of": (0, 1), "right of": (0, -1)}


@dataclass(frozen=True, slots=True)
class Thing:
    """One shape, by the words for it."""

    size: str
    colour: str
    shape: str

    def __str__(self) -> str:
        return f"{self.size} {self.colour} {self.shape}"


THINGS = [Thing(size, colour, shape) for size in SIZES for colour in COLOURS for shape in SHAPES]


@cache
def combinations(split: str) -> list[Thing]:
    """The combinations of size, colour and shape that belong to a split."""
    return [thing for thing in THINGS if split_of(str(thing)) == split]


def paint(canvas: Tensor, thing: Thing, row: float, column: float) -> None:
    """A shape onto a canvas (height, width, 3), its middle at a row and a column."""
    radius = SIZES[thing.size]
    y = torch.arange(canvas.shape[0])[:, None] - row
    x = torch.arange(canvas.shape[1])[None, :] - column
    match thing.shape:
        case "circle":
            inside = x**2 + y**2 <= radius**2
        case "square":
            inside = (x.abs() <= radius * 0.9) & (y.abs() <= radius * 0.9)
        case "triangle":
            inside = (y <= radius) & (y >= -radius) & (2 * x.abs() <= y + radius)
        case _:
            arm = radius / 3
            inside = ((x.abs() <= arm) & (y.abs() <= radius)) | ((y.abs() <= arm) & (x.abs() <= radius))
    canvas[inside] = torch.tensor(COLOURS[thing.colour], dtype=canvas.dtype)


def picture(rng: Random, split: str) -> Captioned:
    """One shape somewhere, or two with one above, below, left or right of the other."""
    # Beside a combination of its own, dev and test show any that is not the other's.
    first, second = rng.choice(combinations(split)), rng.choice(combinations("train") + combinations(split))
    canvas = torch.full((SIDE, SIDE, 3), float(rng.randrange(0, 60)))
    middle = (SIDE - 1) / 2
    if rng.random() < 0.25:
        paint(canvas, first, middle + rng.uniform(-8, 8), middle + rng.uniform(-8, 8))
        caption = f"a {first}"
    else:
        # Every other time the new combination is the second one named.
        if rng.random() < 0.5:
            first, second = second, first
        relation = rng.choice(list(RELATIONS))
        down, right = RELATIONS[relation]
        across = (rng.uniform(-6, 6) * abs(right), rng.uniform(-6, 6) * abs(down))
        for thing, sign in ((first, -1), (second, 1)):
            row = middle + sign * 7.5 * down + across[0] + rng.uniform(-1, 1)
            column = middle + sign * 7.5 * right + across[1] + rng.uniform(-1, 1)
            paint(canvas, thing, row, column)
        caption = f"a {first} {relation} a {second}"
    noise = torch.randn(canvas.shape, generator=torch.Generator().manual_seed(rng.randrange(2**31))) * 6
    pixels = (canvas + noise).clamp(0, 255).to(torch.uint8)
    return Captioned(pixels, caption.replace("a orange", "an orange"))


def shapes(seed: int = 0, train: int = 3000, dev: int = 200, test: int = 300) -> Splits[Captioned]:
    """Images of 32 by 32 with their captions. Captions may repeat within a split; no two images are the same."""

    def key(example: Captioned) -> str:
        return hashlib.sha256(example.pixels.numpy().tobytes()).hexdigest()

    return draw_splits("captioning", seed, (train, dev, test), lambda split, _, rng: picture(rng, split), key)
