"""Train a task: from its name to a finished run folder."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from twofold.data.digest import digest_of
from twofold.data.hub import is_hub, settled
from twofold.data.streaming import Streamed
from twofold.models.loading import device_named, load_as
from twofold.tasks.options import ModelOptions
from twofold.tasks.registry import check_splits, choices_for, cut_note, examples_of, task_class, unknown_note
from twofold.tasks.runs import Run, begin_run, finish_run, open_run, record_of, reopened
from twofold.tasks.sizes import RATES
from twofold.tasks.task import Task
from twofold.training.distribution import is_main_process, join
from twofold.training.feeding import Features
from twofold.training.folder import METRICS, begun, check_folder, is_finished
from twofold.training.learner import forward_options
from twofold.training.loop import Outcome, fit
from twofold.training.order import total_steps
from twofold.training.progress import Progress
from twofold.training.reporters import check_reporter
from twofold.training.settings import Settings
from twofold.training.streaming import Numbered
from twofold_runtime.checked import from_mapping
from twofold_runtime.folder import RunRecord, is_run, read_run


@dataclass(frozen=True, slots=True)
class Trained:
    outcome: Outcome
    parameters: int
    scores: dict[str, float]
    """On the dev split, after tuning."""


@dataclass(frozen=True, slots=True)
class UsualOptions:
    """What a training does where nothing else is asked for."""

    data: Path | None
    model: ModelOptions
    settings: Settings
    choices: Any


def usual_options(task: str, folder: Path, *, resume: bool = False, size: Any = None) -> UsualOptions:
    """The task's own options for a model of that size; resumed, those that the run in the folder began with."""
    kind = task_class(task)
    is_there = is_run(folder)
    # Other processes need not see the folder: whoever starts them repeats what it was begun with.
    if resume and not is_there and is_main_process():
        raise ValueError(f"{folder} has no run to resume")
    if resume and is_there:
        record = read_run(folder)
        if record.task != task:
            raise ValueError(f"{folder} is a run of {record.task}, not of {task}")
        training = record.training
        data = Path(training["data"]) if training["data"] else None
        choices = choices_for(kind, training["choices"]).get("choices")
        model = from_mapping(ModelOptions, training["model"])
        settings = from_mapping(Settings, training["settings"])
        return UsualOptions(data, model, settings, choices)
    model = ModelOptions(size=size) if size in RATES else ModelOptions()
    choices = choices_for(kind).get("choices")
    return UsualOptions(None, model, Settings(**kind.settings(model.size)), choices)


def train(
    task: str,
    *,
    data: Path | str | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Run:
    """Train a task's model and open it: `twofold train` for Python.

    Args:
        task: its name, as "goals".
        data: file, folder or hub:NAME; the embedded set unless given.
        out: the run's folder; runs/TASK unless given.
        resume: go on with the run in the folder, as it began.
        force: remove the run that is in the folder first.
        progress: what is told of the training while it runs; nothing unless given.
        options: any option of `twofold train TASK --help`, with _ for -: epochs=20, attention="standard", ...
    """
    folder = Path(out or f"runs/{task}")
    usual = usual_options(task, folder, resume=resume, size=options.get("size"))
    groups: list[Any] = [group for group in (usual.model, usual.settings, usual.choices) if group is not None]
    names = {field.name for group in groups for field in fields(group)}
    if unknown := sorted(set(options) - names):
        near = get_close_matches(unknown[0], names, 1)
        raise ValueError(f"{task} has no option {unknown[0]!r}{f': did you mean {near[0]}?' if near else ''}")
    chosen: list[Any] = [
        replace(group, **{field.name: options[field.name] for field in fields(group) if field.name in options})
        for group in groups
    ]
    train_task(
        task,
        folder=folder,
        options=chosen[0],
        settings=chosen[1],
        choices=chosen[2] if len(chosen) > 2 else None,
        data=usual.data if data is None else Path(data),
        resume=resume,
        force=force,
        progress=progress,
    )
    return open_run(folder, device=chosen[1].device)


def train_task(
    name: str,
    *,
    folder: Path,
    options: ModelOptions,
    settings: Settings,
    choices: Any = None,
    data: Path | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Trained:
    """Train the task's model into `folder`. Resumed, it must be told what it was told before.

    `choices` is one of the task's own `Choices`, where it has any.
    """
    kind = task_class(name)
    task_choices = choices_for(kind, choices)
    if not resume:
        options.check_meant()
    if data is not None and not is_hub(data) and not resume and data.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{data} must not lie in {folder}, the run's own folder, which force would empty")
    splits = examples_of(kind, data, choices)
    check_splits(splits, data, "train", "dev")
    training: dict[str, Any] = {
        "choices": asdict(task_choices["choices"]) if task_choices else {},
        "data": None if data is None else settled(data) if is_hub(data) else str(data.resolve()),
        # What is streamed is too large to be gone through beforehand.
        "digest": None if data is None or isinstance(splits.train, Streamed) else digest_of(data, splits),
        "settings": settings.as_json(),
    }
    if is_main_process():
        check_folder(folder, force=force, resume=resume)
    goes_on = resume and is_run(folder)
    if goes_on:
        before = read_run(folder)
        _check_same(folder, before, name, options, settings, training)
        task = reopened(folder, before)
    else:
        task = kind.prepared(splits.train, **task_choices)
    record = record_of(task, options, **training)
    torch.manual_seed(settings.seed)
    config = task.config(options)
    model_class = task.class_of(config)
    model, rows = model_class(config), task.rows(splits.train)
    kept_by = task.kept_by or task.metric
    # Nothing is written, and no old run removed, before all that was asked for is known to be possible.
    _check_possible(model, rows, settings)
    with begun(folder, force=force, resume=resume, fill=None if goes_on else partial(begin_run, folder, task, record)):
        cuts = [cut_note(splits)] if splits.cut else []
        if unknown := unknown_note(task, chain(splits.dev, splits.test)):
            cuts.append(unknown)
        if progress is not None and is_main_process():
            for note in cuts + ([] if goes_on else task.doubts(splits.train)):
                progress.note(note)
        outcome = fit(
            model,
            rows,
            task.collate,
            settings=settings,
            folder=folder,
            evaluate=partial(_dev_scores, task, splits.dev),
            metric=kept_by,
            higher_is_better=kept_by not in task.lower,
            progress=progress,
            resume=resume,
        )
        parameters = model.num_parameters()
        if not is_main_process():
            return Trained(outcome, parameters, {})
        # As it was written: under FSDP this process has only a part of the other one. A kill in between costs nothing:
        # what follows depends on the model and the dev split alone.
        whole = load_as(folder, model_class)
        whole.to(device_named(settings.device))  # type: ignore[arg-type]
        task, scores = task.tuned_and_scored(whole, splits.dev)
        finish_run(folder, task, record)
        task.write_files(folder)
        return Trained(outcome, parameters, scores)


def _dev_scores(task: Task[Any], dev: Sequence[Any], model: PreTrainedModel) -> dict[str, float]:
    return task.tuned_and_scored(model, dev)[1]


def _check_possible(model: PreTrainedModel, train: Sequence[Features] | Streamed[Features], settings: Settings) -> None:
    """Refuse what `fit` would refuse, before anything is written for it, or removed."""
    join(settings)
    forward_options(type(model), settings)
    check_reporter(settings)
    if isinstance(train, Streamed):
        Numbered(train, settings)
        total_steps(settings, None, None)


def _check_same(
    folder: Path, before: RunRecord, name: str, options: ModelOptions, settings: Settings, training: dict[str, Any]
) -> None:
    """Refuse to go on with a run that began otherwise."""
    if before.finished and not is_finished(folder):
        raise ValueError(
            f"{folder} has a finished model, and {METRICS} lost its end: use it, or train in another folder"
        )
    settings.check_same_run(before.training["settings"])
    began: dict[str, Any] = {
        "task": before.task,
        "model": before.training["model"],
        "choices": before.training["choices"],
    }
    for what, value in {"task": name, "model": asdict(options), "choices": training["choices"]}.items():
        if began[what] != value:
            raise ValueError(f"a resumed run keeps the {what} it began with, {began[what]}, got {value}")
    check_same_data(before.training, training["data"], training["digest"])


def check_same_data(before: Mapping[str, Any], data: str | None, digest: str | None) -> None:
    """Refuse other data than a run began with. Files that are known by their digest may have moved."""
    began_with = settled(before["data"]) if is_hub(before["data"]) else before["data"]
    known = before["digest"]
    # An address of the hub says besides how its files are read.
    may_have_moved = known is not None and known == digest and not is_hub(began_with) and not is_hub(data)
    if began_with != data and not may_have_moved:
        raise ValueError(f"a resumed run keeps the data it began with, {began_with}, got {data}")
    if known not in (None, digest):
        raise ValueError(f"a resumed run keeps the data it began with: files of {data} have changed since")
