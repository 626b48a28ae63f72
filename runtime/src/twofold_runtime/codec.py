"""The road of every task: encode an input, run the rows of many inputs in padded batches, decode each answer."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from twofold_runtime.engine import Arrays, Engine
from twofold_runtime.folder import RunRecord, check_shape
from twofold_runtime.predictions import Prediction
from twofold_runtime.tokens import PAD, TextTokenizer, WordVocabulary

Input = TypeVar("Input")
# Rows that a model reads at once.
BATCH = 64


@dataclass(frozen=True, slots=True)
class Encoded(Generic[Input]):
    """An input as the model reads it: one row, or several where it is read in pieces."""

    input: Input
    rows: tuple[dict[str, np.ndarray], ...]
    places: Any = None
    """Whatever decoding needs to find its way back into the input."""


class Codec(ABC, Generic[Input]):
    """What a task's inputs and answers are to a model.

    reading and calibration are those of run.json; until a model is tuned, calibration may be empty.
    """

    task: ClassVar[str]
    reads_words: ClassVar[bool]
    """Whether texts are cut by the word rules rather than by a tokenizer."""
    reading_shape: ClassVar[Mapping[str, Any]] = {}
    calibration_shape: ClassVar[Mapping[str, Any]] = {}
    per_token: ClassVar[frozenset[str]] = frozenset()
    """Outputs that have a value for every token of a row, and are cut to the row's length."""
    batch: ClassVar[int] = BATCH
    tokens: Any
    """A WordVocabulary where the task reads words, else a TextTokenizer."""

    def __init__(
        self, reading: Mapping[str, Any], calibration: Mapping[str, Any], tokens: WordVocabulary | TextTokenizer
    ) -> None:
        self.reading, self.calibration, self.tokens = reading, calibration, tokens

    @classmethod
    def check(cls, record: RunRecord, where: str) -> None:
        """Raise, naming the field, where run.json does not hold what this task needs."""
        check_shape(record.reading, cls.reading_shape, f"{where}: reading")
        if record.finished:
            check_shape(record.calibration, cls.calibration_shape, f"{where}: calibration")

    def opened_in(self, folder: Path, record: RunRecord) -> None:
        """Remember files of the run, for a task whose answers need more than the model."""

    def calibrated(self, calibration: Mapping[str, Any]) -> Self:
        """The same codec with another calibration."""
        return type(self)(self.reading, calibration, self.tokens)

    @abstractmethod
    def input_of_line(self, line: str) -> Input:
        """The input that a line of a command stands for."""

    @abstractmethod
    def encode(self, input: Input) -> Encoded[Input]:
        """What the model reads."""

    @abstractmethod
    def decode(self, encoded: Encoded[Input], outputs: Sequence[Arrays]) -> Prediction:
        """The answer, from the model's outputs for every row."""

    @abstractmethod
    def shown(self, prediction: Prediction) -> str:
        """A prediction for people, in a line or a few."""

    def run(self, engine: Engine, inputs: Sequence[Encoded[Input]]) -> list[list[dict[str, np.ndarray]]]:
        """The model's outputs for every row of every input; rows of similar length go together."""
        rows = [(number, row) for number, one in enumerate(inputs) for row in one.rows]
        results: list[dict[str, np.ndarray]] = [{}] * len(rows)
        for places in batches([_length(row) for _, row in rows], self.batch):
            made = engine(padded([rows[place][1] for place in places]))
            for order, place in enumerate(places):
                length = _length(rows[place][1])
                results[place] = {
                    name: output[order, :length] if name in self.per_token else output[order]
                    for name, output in made.items()
                }
        answers: list[list[dict[str, np.ndarray]]] = [[] for _ in inputs]
        for (number, _), result in zip(rows, results, strict=True):
            answers[number].append(result)
        return answers


def _length(row: Arrays) -> int:
    return len(row["input_ids"]) if "input_ids" in row else 0


def batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Places of rows that are read together, the shortest first."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for start in range(0, len(order), size):
        yield order[start : start + size]


def padded(rows: Sequence[Arrays], fills: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
    """A batch of rows: arrays are padded at the end of their first dimension; attention_mask says where tokens are.

    fills: what to pad an array with, by name; PAD unless said. Single numbers are stacked.
    """
    batch: dict[str, np.ndarray] = {}
    for name, first in rows[0].items():
        arrays = [np.asarray(row[name]) for row in rows]
        longest = max(len(array) for array in arrays) if np.ndim(first) else 0
        if not np.ndim(first) or all(len(array) == longest for array in arrays):
            batch[name] = np.stack(arrays)
            continue
        fill = (fills or {}).get(name, PAD)
        batch[name] = np.full((len(rows), longest, *arrays[0].shape[1:]), fill, arrays[0].dtype)
        for array, target in zip(arrays, batch[name], strict=True):
            target[: len(array)] = array
    if "input_ids" in batch:
        lengths = np.array([len(row["input_ids"]) for row in rows])
        batch["attention_mask"] = (np.arange(batch["input_ids"].shape[1]) < lengths[:, None]).astype(np.int64)
    return batch


def checked_text(text: Any, name: str = "text", *, may_be_empty: bool = False) -> str:
    """The text, or a ValueError: bytes that are not UTF-8 reach a program as halves of characters."""
    if not isinstance(text, str):
        raise ValueError(f"{name} must be a str, got {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} must be Unicode, got something else at character {error.start}") from None
    if not may_be_empty and not text.strip():
        raise ValueError(f"{name} is empty")
    return text


class TextCodec(Codec[str]):
    """A task whose input is one text."""

    def input_of_line(self, line: str) -> str:
        return line


def softmax(scores: np.ndarray) -> np.ndarray:
    """Probabilities, along the last dimension."""
    shifted = np.exp(scores - scores.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)
