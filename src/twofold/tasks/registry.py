"""The tasks: where each is, and what data and choices it takes. Imports a task when it is asked for."""

from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from twofold.data.examples import Splits
from twofold.data.files import check_count
from twofold.data.hub import is_hub
from twofold.data.readers import says_unknown
from twofold.data.streaming import Streamed
from twofold.tasks import TASKS
from twofold.tasks.task import Task
from twofold_runtime.checked import from_mapping

# The class of every task, in the module of the task's name.
CLASSES = {
    "goals": "Goals",
    "lm": "LanguageModelling",
    "translation": "Translation",
    "summarization": "Summarization",
    "retrieval": "Retrieval",
    "captioning": "Captioning",
    "classification": "Classification",
    "ner": "Names",
    "pos": "PartsOfSpeech",
    "qa": "Qa",
}


def task_class(name: str) -> type[Task]:
    """The class of a task, by its name."""
    if name not in CLASSES:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {name!r:.60}")
    return getattr(import_module(f"twofold.tasks.{name}"), CLASSES[name])


def choices_for(kind: type[Task], choices: Any = None) -> dict[str, Any]:
    """What `examples` and `prepared` of that task take besides data: nothing, or its choices, given or usual.

    `choices` may be what run.json kept of them.
    """
    if kind.Choices is None:
        if choices:
            raise ValueError(f"{kind.name} has no choices of its own, got {choices!r}")
        return {}
    if choices is None or isinstance(choices, dict):
        choices = from_mapping(kind.Choices, choices or {})
    if not isinstance(choices, kind.Choices):
        raise ValueError(f"choices of {kind.name} must be a {kind.Choices.__name__}, got {choices!r}")
    return {"choices": choices}


def examples_of(kind: type[Task], data: Path | None, choices: Any = None) -> Splits[Any]:
    """The task's splits of files, of a data set of the hub, or of the embedded set."""
    if is_hub(data) and not kind.reads_hub:
        able = ", ".join(name for name in TASKS if task_class(name).reads_hub)
        raise ValueError(f"data of {kind.name} must be files: of the hub only {able} can be read, got {data}")
    splits = kind.examples(data, **choices_for(kind, choices))
    if not isinstance(splits.train, Streamed):
        known = {label for example in splits.train for label in kind.labels(example)}
        check_count(data or "the embedded set", None, "LABELS", len(known), "different labels in train")
    return splits


def unknown_note(task: Task, examples: Iterable[Any]) -> str | None:
    """What a user is told of labels that training did not show, if there are any. They count as wrong."""
    known = task.known_labels()
    if known is None:
        return None
    unknown = Counter(label for example in examples for label in set(task.labels(example)) - known)
    return says_unknown(unknown) if unknown else None


def check_splits(splits: Splits[Any], data: Path | None, *needed: str) -> None:
    """Refuse data that lack a split."""
    if lacking := [name for name in needed if name in splits.missing]:
        source = data or "the embedded set"
        raise ValueError(f"{source} has no {' and no '.join(lacking)} split: {' and '.join(needed)} are needed")


def cut_note(splits: Splits[Any]) -> str:
    """What a user is told of splits that were cut from train."""
    are = "is" if len(splits.cut) == 1 else "are"
    return f"{' and '.join(splits.cut)} {are} cut from train, for the data has none"
