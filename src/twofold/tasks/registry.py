"""The tasks: where each is, and what data and choices it takes. Imports a task when it is asked for."""

from importlib import import_module
from pathlib import Path
from typing import Any

from twofold.data.examples import Splits
from twofold.data.hub import is_hub
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
    return kind.examples(data, **choices_for(kind, choices))


def check_splits(splits: Splits[Any], data: Path | None, *needed: str) -> None:
    """Refuse data that lack a split."""
    if lacking := [name for name in needed if name in splits.missing]:
        source = data or "the embedded set"
        raise ValueError(f"{source} has no {' and no '.join(lacking)} split: {' and '.join(needed)} are needed")


def cut_note(splits: Splits[Any]) -> str:
    """What a user is told of splits that were cut from train."""
    are = "is" if len(splits.cut) == 1 else "are"
    return f"{' and '.join(splits.cut)} {are} cut from train, for the data has none"
