"""Train a task: from its name to a finished run folder."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from twofold.tasks.options import ModelOptions
from twofold.tasks.runs import read_task, reopened, task_class, write_task
from twofold.training.distribution import is_main_process
from twofold.training.folder import prepare_folder
from twofold.training.loop import Outcome, fit
from twofold.training.progress import Progress
from twofold.training.result import write_model
from twofold.training.settings import Settings


@dataclass(frozen=True, slots=True)
class Trained:
    outcome: Outcome
    parameters: int
    scores: dict[str, float]
    """On the dev split, after tuning."""


def train_task(
    name: str,
    *,
    folder: Path,
    options: ModelOptions,
    settings: Settings,
    data: Path | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Trained:
    """Train the task's model into `folder`. Resumed, it must be told what it was told before."""
    kind = task_class(name)
    splits = kind.examples(data, seed=0)
    if lacking := [split for split in ("train", "dev") if split in splits.missing]:
        raise ValueError(f"{data} has no {' and no '.join(lacking)} split, and training needs both")
    prepare_folder(folder, force=force, resume=resume)
    told: dict[str, Any] = {"data": None if data is None else str(data), "settings": settings.as_json()}
    if resume and (folder / "task.json").exists():
        task = reopened(folder)
        before = read_task(folder)
        if before["task"] != name:
            raise ValueError(f"{folder} is a run of {before['task']}, not of {name}")
        if before["options"] != asdict(options):
            raise ValueError(f"a resumed run keeps the model it began with, {before['options']}, got {asdict(options)}")
    else:
        task = kind.prepared(splits.train)
        if is_main_process():
            write_task(folder, task, options=options, **told)
    torch.manual_seed(settings.seed)
    model = task.model_class(task.config(options))
    outcome = fit(
        model,
        [task.features(example) for example in splits.train],
        task.collate,
        settings=settings,
        folder=folder,
        evaluate=lambda model: task.scores(model, splits.dev),
        metric=task.metric,
        higher_is_better=task.higher_is_better,
        progress=progress,
        resume=resume,
    )
    task.tune(model, splits.dev)
    scores = task.scores(model, splits.dev)
    if is_main_process():
        # Tuned again after a kill in between, since it follows from the model and the dev split alone.
        write_model(model, folder, None)
        task.write_files(folder)
        write_task(folder, task, options=options, **told)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Trained(outcome, parameters, scores)
