"""Files of tagged words: `word<TAB>tag` a line, a blank line after every sentence; and slots out of BIO tags."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from twofold.data.examples import Slot, Tagged
from twofold.data.files import DataError, check_count, lines_of
from twofold_runtime.checked import shown
from twofold_runtime.tagging import spans_of


@dataclass(frozen=True, slots=True)
class Sentence:
    """A tagged sentence and the line of the file it begins on."""

    line: int
    tagged: Tagged


def sentences(path: Path, *, bio: bool) -> list[Sentence]:
    """The sentences of a file. With `bio`, tags must be O, B-x, or I-x after B-x or I-x."""
    result: list[Sentence] = []
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate([*lines_of(path), ""], 1):
        if not line.strip():
            if words:
                check_count(path, number - len(words), "WORDS", len(words), "words in one sentence")
                result.append(Sentence(number - len(words), Tagged(tuple(words), tuple(tags))))
            words, tags = [], []
            continue
        # Some tools leave a space after a word or after its tag.
        parts = [part.strip(" \r") for part in line.split("\t")]
        if len(parts) != 2:
            raise DataError(path, number, f"expected word<TAB>tag, got {shown(line)}")
        word, tag = parts
        if not word:
            raise DataError(path, number, f"tag {shown(tag)} without a word")
        if not tag:
            raise DataError(path, number, f"word {shown(word)} without a tag")
        if bio:
            problem = why_not_bio(tag, tags[-1] if tags else "O")
            if problem:
                raise DataError(path, number, problem)
        words.append(word)
        tags.append(tag)
    return result


def why_not_bio(tag: str, before: str) -> str | None:
    """What is wrong with a tag after another. None if nothing is."""
    if tag == "O" or (tag[:2] == "B-" and tag[2:]):
        return None
    if tag[:2] != "I-" or not tag[2:]:
        return f"tag {shown(tag)} is none of O, B-..., I-..."
    if before[2:] != tag[2:]:
        return f"tag {shown(tag)} follows {shown(before)}: a span begins with {shown(f'B-{tag[2:]}')}"
    return None


def joined(tagged: Tagged) -> tuple[str, tuple[Slot, ...]]:
    """Words with spaces between, and the BIO spans as places in that text."""
    starts = accumulate((len(word) + 1 for word in tagged.words), initial=0)
    places = [(start, start + len(word)) for start, word in zip(starts, tagged.words, strict=False)]
    return " ".join(tagged.words), slots_of(places, tagged.tags)


def slots_of(words: Sequence[tuple[int, int]], tags: Sequence[str]) -> tuple[Slot, ...]:
    """Named pieces of words at these places with BIO tags; a piece that begins with I begins all the same."""
    return tuple(Slot(*span) for span in spans_of(words, tags))


def tags_of(words: tuple[tuple[int, int], ...], slots: tuple[Slot, ...]) -> tuple[str, ...]:
    """BIO tags of words at these places: the first word that a slot touches begins it."""
    tags = ["O"] * len(words)
    for slot in slots:
        touched = [place for place, (start, end) in enumerate(words) if start < slot.end and slot.start < end]
        for order, place in enumerate(touched):
            tags[place] = f"{'I' if order else 'B'}-{slot.name}"
    return tuple(tags)
