"""A run's folder as a task sees it: what it was, its tokenizer, its model, and predictions from it.

task.json names the task and holds its state; the model and its curves are written by whoever trains.
"""

import json
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerFast

from twofold.data.digest import digest_of
from twofold.data.examples import Splits
from twofold.data.hub import is_hub
from twofold.disk import system_errors, write_whole
from twofold.models.loading import UNREADABLE, device_named, load_as
from twofold.panics import panics_as_errors
from twofold.tasks import TASKS
from twofold.tasks.options import ModelOptions
from twofold.tasks.task import Task

FILE, VERSION = "task.json", 2
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
# Rows of an embedding beyond the tokens there are.
MOST_PADDING = 128
# What task.json holds; tuned: nothing is left to be done but to use it.
FIELDS: dict[str, Any] = {
    "task": str, "state": dict, "options": dict, "settings": dict, "choices": dict, "data": str | None, "tuned": bool,
}  # fmt: skip


def task_class(name: str) -> type[Task]:
    if name not in TASKS:
        raise ValueError(f"unknown task {name!r}; there are: {', '.join(TASKS)}")
    module = import_module(f"twofold.tasks.{name}")
    return next(
        found for found in vars(module).values() if isinstance(found, type) and getattr(found, "name", None) == name
    )


def chosen(kind: type[Task], choices: Any = None) -> dict[str, Any]:
    """What `examples` and `prepared` of that task take besides data: nothing, or its choices, given or usual.

    `choices` may be what task.json kept of them.
    """
    if kind.Choices is None:
        if choices:
            raise ValueError(f"{kind.name} has no choices of its own, got {choices!r}")
        return {}
    if choices is None or isinstance(choices, dict):
        choices = kind.Choices(**choices or {})
    if not isinstance(choices, kind.Choices):
        raise ValueError(f"choices of {kind.name} must be a {kind.Choices.__name__}, got {choices!r}")
    return {"choices": choices}


def examples_of(kind: type[Task], data: Path | None, choices: Any = None) -> Splits[Any]:
    """The task's splits of files, of a data set of the hub, or of the embedded set."""
    if is_hub(data) and not kind.reads_hub:
        able = ", ".join(name for name in TASKS if task_class(name).reads_hub)
        raise ValueError(f"data of {kind.name} must be files: of the hub only {able} can be read, got {data}")
    return kind.examples(data, **chosen(kind, choices))


def check_splits(splits: Splits[Any], data: Path | None, *needed: str) -> None:
    """Refuse data that lack a split."""
    if lacking := [name for name in needed if name in splits.missing]:
        source = data or "the embedded set"
        raise ValueError(f"{source} has no {' and no '.join(lacking)} split: {' and '.join(needed)} are needed")


def cut_note(splits: Splits[Any]) -> str:
    """What a user is told of splits that were cut from train."""
    are = "is" if len(splits.cut) == 1 else "are"
    return f"{' and '.join(splits.cut)} {are} cut from train, for the data has none"


def write_task(folder: Path, task: Task, *, options: ModelOptions, **told: Any) -> None:
    """The tokenizer, and last task.json; `told` is kept for whoever resumes. At the end, tuned, only task.json."""
    if not told["tuned"]:
        with system_errors(folder):
            task.tokenizer.save_pretrained(folder)
    whole = {"version": VERSION, "task": task.name, "state": task.state, "options": asdict(options), **told}
    write_whole(folder / FILE, json.dumps(whole, ensure_ascii=False, indent=1))


def read_task(folder: Path) -> dict[str, Any]:
    """What task.json says."""
    path = folder / FILE
    if not path.is_file():
        raise ValueError(f"{folder} is no run: it has no {FILE}")
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not readable: {error}") from error
    if not isinstance(told, dict) or told.get("version") != VERSION:
        version = told.get("version") if isinstance(told, dict) else None
        raise ValueError(f"{folder} is a run of version {version!r}, and this version of twofold reads {VERSION}")
    for name, kinds in FIELDS.items():
        if not isinstance(told.get(name), kinds):
            raise ValueError(f"{path}: field {name!r} is missing or not what it should be, got {told.get(name)!r:.60}")
    return told


def reopened(folder: Path) -> Task:
    """The task as it was when the run began, or was tuned."""
    told = read_task(folder)
    # Without the second, a tokenizer is made that knows none of its special tokens.
    if lacking := [name for name in TOKENIZER if not (folder / name).is_file()]:
        raise ValueError(f"{folder} has no readable tokenizer: {' and '.join(lacking)} must be there, got none")
    try:
        with panics_as_errors("tokenizers gave up"):
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
            # Some files are refused only when they are used.
            tokenizer("a text")
    except Exception as error:
        # tokenizers knows no other kind.
        raise ValueError(f"{folder} has no readable tokenizer: {error}") from error
    return task_class(told["task"])(tokenizer, told["state"])


@dataclass(frozen=True, slots=True)
class Run:
    """A trained model and its task."""

    folder: Path
    task: Task
    model: PreTrainedModel

    def examples(self, data: Path | None = None) -> Splits[Any]:
        """Splits of `data`, read as the run read its own; what the run was trained on unless given."""
        told = read_task(self.folder)
        source = data or (Path(told["data"]) if told["data"] else None)
        return examples_of(type(self.task), source, told["choices"])

    def has_changed_data(self, splits: Splits[Any]) -> bool:
        """Whether what the run was trained on is something else by now: `splits` is what is there."""
        told = read_task(self.folder)
        return told.get("digest") is not None and told["digest"] != digest_of(Path(told["data"]), splits)

    def predict(self, text: str) -> dict[str, Any]:
        """What `twofold predict` prints with --json, less what it says of an action."""
        if not isinstance(text, str):
            raise ValueError(f"text must be a str, got {type(text).__name__}")
        return self.task.predict(self.model, readable(text))


def readable(text: str) -> str:
    """The text, or a ValueError: bytes that are not UTF-8 reach a program as halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"text must be Unicode, got something else at character {error.start}") from None
    return text


def _check_together(task: Task, model: PreTrainedModel, folder: Path) -> None:
    """Files of several runs in one folder, or weights of a training that went wrong, would answer something."""
    words: Any = getattr(model.config, "decoder", model.config)
    tokens, rows = len(task.tokenizer), words.vocab_size
    # Somebody may have added rows up to a round number.
    is_padded = rows % 8 == 0 and 0 < rows - tokens < MOST_PADDING
    if rows != tokens and not is_padded:
        raise ValueError(
            f"{folder} has a tokenizer.json of {tokens} tokens and a model of {rows}: they are not of one run"
        )
    for name, tensor in model.named_parameters():
        if not bool(tensor.isfinite().all()):
            raise ValueError(f"{folder}: {name} has numbers that are not finite")


def open_run(path: Path | str, *, device: str = "auto") -> Run:
    """Open what `twofold train` wrote. device: "cpu", "cuda", or "auto" for a GPU if there is one."""
    place = device_named(device)
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f"{folder} is no run: there is no such folder")
    task = reopened(folder)
    if not (folder / "model.safetensors").is_file() or not read_task(folder)["tuned"]:
        raise ValueError(f"{folder} has no model yet: its training is not finished; go on with --resume")
    task.opened_in(folder)
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (*UNREADABLE, ValueError) as error:
        raise ValueError(f"{folder} has no readable config.json: {error}") from error
    model = load_as(folder, task.class_of(config))
    _check_together(task, model, folder)
    model.to(place)  # type: ignore[arg-type]
    return Run(folder, task, model)
