"""What tasks take and give: small frozen dataclasses. A prediction is a mapping too: dict(prediction) is its JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

# A field that JSON leaves out where it is None, and one that only programs see.
OPTIONAL, INTERNAL = {"json": "optional"}, {"json": "never"}


@dataclass(frozen=True, slots=True)
class QuestionInput:
    """A question and the text that holds its answer."""

    question: str
    context: str


@dataclass(frozen=True, slots=True, eq=False)
class ImageInput:
    """An image, (height, width, 3) of uint8. `name` is repeated in the prediction."""

    pixels: np.ndarray
    name: str | None = None


class Prediction(Mapping[str, Any]):
    """The answer of a task."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        for one in fields(self):  # type: ignore[arg-type]
            way = one.metadata.get("json")
            if way is None or (way == "optional" and getattr(self, one.name) is not None):
                yield one.name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Any:
        if name not in set(self):
            raise KeyError(name)
        return _as_json(getattr(self, name))


def _as_json(value: Any) -> Any:
    if is_dataclass(value):
        return {one.name: _as_json(getattr(value, one.name)) for one in fields(value)}
    return [_as_json(item) for item in value] if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class SlotValue:
    """A slot of an utterance; start and end count characters of its text."""

    name: str
    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class GoalPrediction(Prediction):
    """The goal of an utterance, None where it is out of scope, and its slots."""

    text: str
    goal: str | None
    confidence: float
    """The probability of the best goal among all, also where it was rejected."""
    slots: tuple[SlotValue, ...]
    truncated: bool | None = field(default=None, metadata=OPTIONAL)
    """True where the end of the text was not read."""
    best_goal: str = field(default="", metadata=INTERNAL)
    best_slots: tuple[SlotValue, ...] = field(default=(), metadata=INTERNAL)
    evidence: float = field(default=0.0, metadata=INTERNAL)
    """From 0 to 1: how much speaks for the best goal by itself, however much speaks for others."""


@dataclass(frozen=True, slots=True)
class LabelChance:
    """A label and its probability."""

    label: str
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class LabelPrediction(Prediction):
    """The label of a text, and the next likeliest ones."""

    text: str
    label: str
    confidence: float
    others: tuple[LabelChance, ...]


@dataclass(frozen=True, slots=True)
class Entity:
    """A name in a text, by characters."""

    kind: str
    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class EntitiesPrediction(Prediction):
    """The names in a text."""

    text: str
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class TaggedWord:
    """A word of a text and its tag."""

    word: str
    tag: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class WordsPrediction(Prediction):
    """The words of a text, each with its tag."""

    text: str
    words: tuple[TaggedWord, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AnswerPrediction(Prediction):
    """The piece of a context that answers a question; confidence is its share among all pieces."""

    question: str
    context: str
    answer: str
    start: int
    end: int
    confidence: float


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """A document that was found, and how near it is to the question."""

    id: str
    score: float
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class DocumentsPrediction(Prediction):
    """The documents that answer a question, best first."""

    text: str
    documents: tuple[ScoredDocument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ContinuationPrediction(Prediction):
    """How a text goes on."""

    text: str
    continuation: str


@dataclass(frozen=True, slots=True, eq=False)
class TranslationPrediction(Prediction):
    """A text in another language."""

    text: str
    translation: str


@dataclass(frozen=True, slots=True, eq=False)
class SummaryPrediction(Prediction):
    """A text in short."""

    text: str
    summary: str


@dataclass(frozen=True, slots=True, eq=False)
class CaptionPrediction(Prediction):
    """A sentence about an image."""

    image: str | None
    caption: str
