"""A small grammar: templates become sentences, and it is known where in a sentence each named value stands.

    [a|b]         one of them            (a)      with it or without
    {room}        a value, labelled      {to:city}  a value of kind city, labelled `to`
    <when>        a value of kind when, without a label; labels inside it are kept

A `Lexicon` knows the kinds. Every kind says which of its values belong to train, dev and test *before* anything is
drawn, so that a test sentence can be made of values that no training sentence had.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Protocol, TypeVar

from twofold.data.examples import Slot

Item = TypeVar("Item")
VOWELS = tuple("aeiouAEIOU")
SYMBOLS = re.compile(r"[\[\]()|]|\{[\w:]+\}|<\w+>|[^\[\]()|{}<>]+")


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence and the places of its labelled values."""

    text: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Value:
    kind: str
    label: str | None


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[tuple["Part", ...], ...]


Part = str | Value | Choice
Piece = tuple[str, str | None]


class Source(Protocol):
    """Where values of one kind come from."""

    def draw(self, kind: str, rng: Random, split: str) -> str: ...


@lru_cache(maxsize=1 << 16)
def parse(template: str) -> tuple[Part, ...]:
    """The parts of a template. Raises ValueError where brackets do not match."""
    symbols = SYMBOLS.findall(template)
    if "".join(symbols) != template:
        raise ValueError(f"template {template!r} has a broken {{name}} or <name>")
    options, rest = _options(symbols, 0, None, template)
    if rest != len(symbols) or len(options) != 1:
        raise ValueError(f"template {template!r} has an unmatched bracket or a bare |")
    return options[0]


def _options(symbols: list[str], at: int, closing: str | None, template: str) -> tuple[list[tuple[Part, ...]], int]:
    """The alternatives from symbol `at` up to `closing` (None: the end), and the index after them."""
    options: list[tuple[Part, ...]] = []
    parts: list[Part] = []
    while at < len(symbols):
        symbol = symbols[at]
        at += 1
        if symbol == closing:
            return [*options, tuple(parts)], at
        if symbol == "|":
            options.append(tuple(parts))
            parts = []
        elif symbol in "[(":
            inner, at = _options(symbols, at, "]" if symbol == "[" else ")", template)
            parts.append(Choice((*inner, ()) if symbol == "(" else tuple(inner)))
        elif symbol in "])":
            raise ValueError(f"template {template!r} has an unmatched {symbol}")
        elif symbol[0] == "{":
            label, _, kind = symbol[1:-1].partition(":")
            parts.append(Value(kind or label, label))
        elif symbol[0] == "<":
            parts.append(Value(symbol[1:-1], None))
        else:
            parts.append(symbol)
    if closing is not None:
        raise ValueError(f"template {template!r} lacks a {closing}")
    return [*options, tuple(parts)], at


def wordings(template: str) -> list[str]:
    """The templates without choices that a template stands for, in order, none twice."""

    def expand(parts: tuple[Part, ...]) -> list[str]:
        expanded = [""]
        for part in parts:
            if isinstance(part, Choice):
                tails = [tail for option in part.options for tail in expand(option)]
            elif isinstance(part, Value):
                tails = [f"<{part.kind}>" if part.label is None else f"{{{part.label}:{part.kind}}}"]
            else:
                tails = [part]
            expanded = [head + tail for head in expanded for tail in tails]
        return expanded

    return list(dict.fromkeys(re.sub(" +", " ", wording).strip() for wording in expand(parse(template))))


def wordings_in_hash_order(templates: Iterable[str]) -> list[str]:
    """Every wording of some templates, in the order of their hashes."""
    return in_hash_order([wording for template in templates for wording in wordings(template)])


def kinds_of(template: str) -> set[str]:
    """The kinds of values in a template."""

    def walk(parts: tuple[Part, ...]) -> Iterator[str]:
        for part in parts:
            if isinstance(part, Value):
                yield part.kind
            elif isinstance(part, Choice):
                for option in part.options:
                    yield from walk(option)

    return set(walk(parse(template)))


def say(template: str, rng: Random, draw: Callable[[str], str], *, articles: bool = True) -> Spoken:
    """One sentence of a template. `draw(kind)` gives a value, which may itself be a template.

    With `articles`, "a" before a vowel becomes "an", as in English.
    """

    def pieces(parts: tuple[Part, ...], label: str | None) -> Iterator[Piece]:
        for part in parts:
            if isinstance(part, str):
                yield part, label
            elif isinstance(part, Choice):
                yield from pieces(rng.choice(part.options), label)
            elif part.label is None or label is not None:
                yield from pieces(parse(draw(part.kind)), label)
            else:
                inner = pieces(parse(draw(part.kind)), part.label)
                yield join_pieces([(text, None) for text, _ in inner], articles).text, part.label

    return join_pieces(pieces(parse(template), None), articles)


def join_pieces(pieces: Iterable[Piece], articles: bool = True) -> Spoken:
    """Pieces joined with single spaces, none at the ends nor before a comma or a stop; "a" before a vowel is "an"."""
    text = ""
    slots = []
    space = False
    for piece, label in pieces:
        if articles and piece.lstrip()[:1] in VOWELS and text.rpartition(" ")[2] == "a" and (space or piece[0] == " "):
            text += "n"
        if label is not None:
            text += " " if space and text else ""
            slots.append(Slot(label, len(text), len(text) + len(piece)))
            text += piece
            space = False
            continue
        for character in piece:
            if character == " ":
                space = True
                continue
            text += " " if space and text and character not in ",.?!;" else ""
            text += character
            space = False
    return Spoken(text, tuple(slots))


def portion(items: Sequence[Item], split: str) -> list[Item]:
    """The part of a list that belongs to a split: the first 60 % to train, then 15 % dev, the last 25 % test."""
    if len(items) < 3:
        raise ValueError(f"a list divided among three splits needs at least 3 entries, got {list(items)}")
    test = max(1, round(len(items) * 0.25))
    dev = max(1, round(len(items) * 0.15))
    cuts = {"train": (0, -dev - test), "dev": (-dev - test, -test), "test": (-test, None)}
    return list(items[slice(*cuts[split])])


def in_hash_order(lines: Sequence[str]) -> list[str]:
    """Lines, none twice, in the order of their hashes: as good as random, and always the same."""
    return sorted(set(lines), key=lambda line: (fingerprint(line), line))


def seeded(*key: object) -> Random:
    """A random generator for a key, different for every key."""
    return Random(" ".join(map(str, key)))  # noqa: S311


def fingerprint(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def letters_and_digits(text: str) -> str:
    """A text without case, spaces and punctuation: two sentences that differ only in those are the same."""
    return "".join(character for character in text.casefold() if character.isalnum())


def split_of(key: str) -> str:
    """The split that a generated value belongs to, by the hash of its letters and digits; 60, 15 and 25 %."""
    place = fingerprint(letters_and_digits(key)) % 20
    return "train" if place < 12 else "dev" if place < 15 else "test"


@dataclass(frozen=True, slots=True)
class Open:
    """An open class (names, titles, things): every split has its own part, train the first and most common values."""

    entries: tuple[str, ...]

    def draw(self, kind: str, rng: Random, split: str) -> str:
        return rng.choice(portion(self.entries, split))


@dataclass(frozen=True, slots=True)
class Everyday:
    """A closed class (rooms, colours): dev and test draw from train's part as often as from their own."""

    entries: tuple[str, ...]

    def draw(self, kind: str, rng: Random, split: str) -> str:
        return rng.choice(portion(self.entries, split if rng.random() < 0.5 else "train"))


@dataclass(frozen=True, slots=True)
class Shared:
    """Words and turns of phrase that all splits share."""

    entries: tuple[str, ...]

    def draw(self, kind: str, rng: Random, split: str) -> str:
        return rng.choice(self.entries)


@dataclass(frozen=True, slots=True)
class Generated:
    """Values from a function (numbers, times). The hash of its spelling decides which split a value belongs to."""

    make: Callable[[Random], str]

    def draw(self, kind: str, rng: Random, split: str) -> str:
        for _ in range(1000):
            value = self.make(rng)
            if split_of(value) == split:
                return value
        raise ValueError(f"kind {kind!r} has too few values for the {split} split")


class Lexicon:
    """The kinds of values that templates may name, and the source of each."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.sources = dict(sources)

    def say(self, template: str, rng: Random, split: str) -> Spoken:
        def draw(kind: str) -> str:
            if kind not in self.sources:
                raise ValueError(f"template {template!r} asks for {kind!r}; the lexicon has {sorted(self.sources)}")
            return self.sources[kind].draw(kind, rng, split)

        return say(template, rng, draw)
