"""Readers of data sets of the hub: an address in, the examples of a task out, by columns that can be named.

A set's `validation` is dev. What it lacks of dev and test is cut from train, as it is for files.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from twofold.data.examples import Answer, Labelled, Pair, Question, Splits
from twofold.data.files import DataError, counted, field, text_field
from twofold.data.hub import HubSet
from twofold.data.splits import cut_missing
from twofold.data.streaming import Streamed
from twofold_runtime.checked import shown

Example = TypeVar("Example")
Read = Callable[[HubSet, int, dict[str, Any]], Example | None]
# Texts at the beginning of a stream that become dev, and as many more test, where the set has none.
CUT = 200
# Texts of a dev or test split that are kept: models are scored on them again and again.
SCORED = 2000


def hub_labelled(address: Path | str) -> Splits[Labelled]:
    """Columns text and label; a label may be a number. Rows without one, as of a test split kept back, are left out."""

    def read(there: HubSet, number: int, row: dict[str, Any]) -> Labelled | None:
        label = row.get(there.columns["label"], "")
        # A gap is None, or the NaN that a column of numbers has for it.
        if label is None or label != label:
            return None
        # In a column of a CSV that has gaps, whole numbers come with a point.
        if isinstance(label, float) and label.is_integer():
            label = int(label)
        name = str(label) if isinstance(label, int) else there.text(number, row, "label").strip()
        return Labelled(there.text(number, row, "text"), name)

    return _read(address, ("text", "label"), read, lambda labelled: labelled.text, lambda labelled: [labelled.label])


def hub_summaries(address: Path | str) -> Splits[Pair]:
    """Columns text and summary."""

    def read(there: HubSet, number: int, row: dict[str, Any]) -> Pair:
        return Pair(there.text(number, row, "text"), there.text(number, row, "summary"))

    return _read(address, ("text", "summary"), read, lambda pair: pair.source)


def hub_pairs(address: Path | str, source: str | None, target: str | None) -> Splits[Pair]:
    """A column translation with a text for each language; or columns source and target, whatever they are called.

    `source` and `target` are languages of the former, English being the source by default.
    """

    def read(there: HubSet, number: int, row: dict[str, Any]) -> Pair:
        if there.columns["translation"] not in row:
            return Pair(there.text(number, row, "source"), there.text(number, row, "target"))
        texts = field(there.address, number, row, there.columns["translation"], "object")
        first = source or _first(sorted(texts, key=lambda language: language != "en"), target)
        second = target or _first(texts, first)
        return Pair(*(text_field(there.address, number, texts, language) for language in (first, second)))

    return _read(address, ("translation", "source", "target"), read, lambda pair: pair.source)


def _first(languages: Iterable[str], other: str | None) -> str:
    return next((language for language in languages if language != other), "another language")


def hub_questions(address: Path | str) -> Splits[Question]:
    """Columns context, question and answers, the last as SQuAD has them: {"text": [...], "answer_start": [...]}."""

    def read(there: HubSet, number: int, row: dict[str, Any]) -> Question:
        context = there.text(number, row, "context")
        answers = field(there.address, number, row, there.columns["answers"], "object")
        texts, starts = (field(there.address, number, answers, name, "list") for name in ("text", "answer_start"))
        if not texts:
            raise DataError(there.address, number, "has no answer, and every question needs one")
        if len(texts) != len(starts):
            problem = f"has {counted(len(texts), 'answer')} and {counted(len(starts), 'start')} of answers"
            raise DataError(there.address, number, problem)
        placed = tuple(_answer(there, number, context, *pair) for pair in zip(texts, starts, strict=True))
        return Question(str(row.get("id", number)), context, there.text(number, row, "question"), placed)

    return _read(address, ("context", "question", "answers"), read, lambda question: question.context)


def _answer(there: HubSet, number: int, context: str, text: Any, start: Any) -> Answer:
    is_place = isinstance(start, int) and not isinstance(start, bool) and start >= 0
    if not isinstance(text, str) or not text.strip() or not is_place or context[start : start + len(text)] != text:
        problem = f"answer {shown(text)} is not at {shown(start)} of the context"
        raise DataError(there.address, number, problem)
    return Answer(text, start)


def hub_texts(address: Path | str) -> Splits[str]:
    """A column text: train as a stream, dev and test as lists of their first texts. Empty texts are passed over."""
    there = HubSet.parsed(address, ("text",))
    names = there.splits()
    wanted = [split for split in ("dev", "test") if split not in names]
    cut = list(islice(_texts(there, names["train"]), CUT * len(wanted)))
    texts = {split: list(islice(_texts(there, names[split]), SCORED)) for split in names if split != "train"}
    texts |= {split: cut[place * CUT : (place + 1) * CUT] for place, split in enumerate(wanted)}
    train = Streamed(lambda: islice(_texts(there, names["train"]), len(cut), None))
    if next(iter(train), None) is None:
        raise DataError(there.address, None, f"train has {counted(len(cut), 'text')}, too few to learn from")
    # Not a list, but readers of `train` only iterate over it.
    stream: Any = train
    return Splits(stream, texts["dev"], texts["test"], cut=tuple(wanted))


def _texts(there: HubSet, split: str) -> Iterator[str]:
    for number, row in there.rows(split, streaming=True):
        text = field(there.address, number, row, there.columns["text"])
        if text.strip():
            yield text


def _read(
    address: Path | str,
    columns: Iterable[str],
    read: Read[Example],
    key: Callable[[Example], str],
    labels: Callable[[Example], Iterable[str]] | None = None,
) -> Splits[Example]:
    """All examples of a set."""
    there = HubSet.parsed(address, columns)
    examples = {
        split: [
            example
            for number, row in there.rows(name, streaming=False)
            if (example := read(there, number, row)) is not None
        ]
        for split, name in there.splits().items()
    }
    splits = Splits(examples["train"], examples.get("dev", []), examples.get("test", []))
    return cut_missing(there.address, splits, key, labels)
