"""A plan's `size`: what the models and trainings of a comparison have in common, as the dataclasses of `twofold train`.

A plan names only what is to be otherwise than usual.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from twofold.lab.run_options import RunOptions
from twofold.tasks.options import ModelOptions
from twofold.tasks.registry import task_class
from twofold.tasks.sizes import measures
from twofold.tasks.task import Task
from twofold.training.learner import forward_options
from twofold.training.settings import Settings

# Options of training that every run of a comparison gets from its plan, so that `size` may not have them.
SET_BY_PLAN = frozenset(
    [
        "model",
        "attention",
        "init",
        "matched",
        "learning_rate",
        "seed",
        "steps",
        "epochs",
        "evaluate_steps",
        "patience",
        "log_steps",
        "workers",
        "save_steps",
        "save_seconds",
        "keep",
        "distribution",
        "report_to",
    ]
)
# Their names in plans from before 20 November 2026.
FORMER_NAMES = {"looks": "evaluations"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """A plan's `size`, sorted by whom it concerns."""

    model: ModelOptions
    settings: Settings
    choices: Any
    """How the task reads its data; None where there is nothing to choose."""
    runs: RunOptions

    def departures(self, usual: "Options") -> dict[str, Any]:
        """A plan's `size`: every option that is otherwise than `usual`."""
        pairs = [(self.model, usual.model), (self.settings, usual.settings), (self.runs, usual.runs)]
        pairs += [] if self.choices is None else [(self.choices, usual.choices)]
        return {
            field.name: value
            for ours, theirs in pairs
            for field in fields(ours)
            if (value := getattr(ours, field.name)) != getattr(theirs, field.name)
        }


def options_of(task: str, size: Mapping[str, Any]) -> Options:
    """A plan's options. Raises for one that there is not, that the plan sets elsewhere, or of another kind."""
    kind = task_class(task)
    classes = {"model": ModelOptions, "settings": Settings, "runs": RunOptions}
    classes |= {"choices": kind.Choices} if kind.Choices else {}
    owner_of = {field.name: owner for owner, made in classes.items() for field in fields(made)}
    given: dict[str, dict[str, Any]] = {owner: {} for owner in classes}
    for name, value in size.items():
        name = FORMER_NAMES.get(name, name)
        if name not in owner_of or name in SET_BY_PLAN:
            names = ", ".join(sorted(owner_of.keys() - SET_BY_PLAN))
            raise ValueError(f"{name} is not among the options that a comparison takes: {names}")
        given[owner_of[name]][name] = value
    # Dropout would hide what the arms differ in, where each token is seen a few times at most.
    wanted: dict[str, Any] = {"dropout": 0.0} | given["model"] | {"attention": "standard", "matched": False}
    model = ModelOptions(**wanted)
    settings = Settings(**kind.settings(model.size) | given["settings"] | {"patience": None, "distribution": "none"})
    choices = kind.Choices(**given["choices"]) if kind.Choices else None
    options = Options(model=model, settings=settings, choices=choices, runs=RunOptions(**given["runs"]))
    forward_options(kind.model_class, settings)
    measures(model)
    if options.runs.lengths and kind.longer is Task.longer:
        raise ValueError(f"lengths must be left out for {task}, which reads each text as long as it is")
    return options


def check_metric(task: str, metric: str, lower_is_better: bool) -> None:
    """Raises for what a task is not scored by, or has the wrong way round: the worse would be called better."""
    kind = task_class(task)
    if metric not in kind.metrics:
        raise ValueError(f"metric must be one of {', '.join(kind.metrics)} for {task}, got {metric!r}")
    if lower_is_better != (metric in kind.lower):
        # As TOML writes them.
        expected, got = (str(value).lower() for value in (metric in kind.lower, lower_is_better))
        raise ValueError(f"lower_is_better must be {expected} for {metric} of {task}, got {got}")
