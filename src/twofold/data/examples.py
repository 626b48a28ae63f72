"""The examples of the tasks, a small frozen class for each kind, and the three splits they come in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from twofold_runtime.checked import shown

if TYPE_CHECKING:
    from torch import Tensor

Example = TypeVar("Example")
SPLITS = ("train", "dev", "test")
# How CLINC150 labels what is out of scope.
OUT_OF_SCOPE = "oos"


@dataclass(frozen=True, slots=True)
class Slot:
    """A named piece of a text, by characters: its value is text[start:end]."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Utterance:
    """A sentence, its goal (None: out of scope) and its slots in order of place."""

    text: str
    goal: str | None
    slots: tuple[Slot, ...] = ()

    def __post_init__(self) -> None:
        problem = why_not_slots(self.text, self.slots)
        if problem:
            raise ValueError(problem)

    def value(self, slot: Slot) -> str:
        return self.text[slot.start : slot.end]


@dataclass(frozen=True, slots=True)
class Tagged:
    """Words, each with its tag."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text and its class."""

    text: str
    label: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A text and what it becomes: a translation, a summary."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A piece of a context that answers a question; `start` counts characters."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a context, with the answers people gave."""

    id: str
    context: str
    question: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a collection that is searched."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """A search query, and the grades of its relevant documents by their ids; a grade is 1 or more."""

    text: str
    relevant: Mapping[str, int]


# Tensors do not compare to one bool, so a captioned image compares by identity.
@dataclass(frozen=True, slots=True, eq=False)
class Captioned:
    """An image (height, width, 3) of uint8 and a sentence about it."""

    pixels: "Tensor"
    caption: str


@dataclass(frozen=True, slots=True)
class Splits(Generic[Example]):
    """Train, dev and test. `cut` names those that were cut from train because the source had none."""

    train: list[Example]
    dev: list[Example]
    test: list[Example]
    cut: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in SPLITS if not getattr(self, name))


@dataclass(frozen=True, slots=True)
class Retrieval:
    """One collection of documents and the queries over it."""

    documents: list[Document]
    queries: Splits[Query]


def why_not_slots(text: str, slots: tuple[Slot, ...]) -> str | None:
    """What is wrong with slots over a text: outside of it, empty, with a space at an edge, or overlapping.

    None if nothing is.
    """
    past = 0
    for slot in sorted(slots, key=lambda slot: slot.start):
        if not 0 <= slot.start < slot.end <= len(text):
            place = f"{shown(slot.start)}:{shown(slot.end)}"
            return f"slot {shown(slot.name)} is {place}, empty or outside of {len(text)} characters"
        value = text[slot.start : slot.end]
        if value != value.strip():
            return f"slot {shown(slot.name)} is {shown(value)}, which begins or ends with a space"
        if slot.start < past:
            return f"slot {shown(slot.name)} at {slot.start}:{slot.end} overlaps the slot before it"
        past = slot.end
    return None


def in_scope(goal: str | None) -> str | None:
    """A goal as it is, or None for the label of what is out of scope."""
    return None if goal == OUT_OF_SCOPE else goal
