"""What a comparison's runs have in common, out of the plan's words: options of model and training, and its arms."""

from dataclasses import dataclass, fields
from typing import Any

from twofold.lab.arms import ARMS, Arm
from twofold.lab.plan import Plan
from twofold.tasks.options import ModelOptions
from twofold.tasks.runs import task_class
from twofold.tasks.task import Task
from twofold.training.settings import Settings

# What a comparison sets itself, so that no option may.
FIXED = frozenset(
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
        "save_steps",
        "save_seconds",
        "keep",
        "distribution",
        "report_to",
    ]
)
# Options of a comparison rather than of model or training.
OWN: dict[str, Any] = {"looks": 10, "test": False}
# After the name of an arm whose feed-forward keeps its width instead of being fitted to equal parameters.
RAW = ":raw"


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The plan's `size`, sorted by whom it concerns."""

    model: ModelOptions
    settings: Settings
    choices: dict[str, Any]
    looks: int
    """Looks at the dev split in a run."""
    test: bool
    """Read the test split at the end of every run that is compared."""


def options_of(plan: Plan) -> Options:
    """Raises for an option that there is not, that a comparison sets itself, or whose value is of another kind."""
    kind = task_class(plan.task)
    # Dropout would hide what the arms differ in, where each token is seen a few times at most.
    usual: dict[str, dict[str, Any]] = {
        "model": values_of(ModelOptions(dropout=0.0)),
        "settings": values_of(Settings(**kind.settings("tiny"))),
        "choices": values_of(kind.Choices()) if kind.Choices else {},
        "own": OWN,
    }
    given: dict[str, dict[str, Any]] = {group: {} for group in usual}
    names = sorted(set().union(*usual.values()) - FIXED)
    for name, value in plan.size.items():
        if name not in names:
            what = "is set by the comparison itself" if name in FIXED else "there is not"
            raise ValueError(f"option {name!r} {what}; there are: {', '.join(names)}")
        group = next(group for group, values in usual.items() if name in values)
        given[group][name] = _of_kind(name, value, usual[group][name])
    own = OWN | given["own"]
    if own["looks"] < 1:
        raise ValueError(f"looks must be at least 1, got {own['looks']}")
    wanted: dict[str, Any] = {"dropout": 0.0} | given["model"] | {"attention": "standard", "matched": False}
    model = ModelOptions(**wanted)
    settings = Settings(**kind.settings(model.size) | given["settings"] | {"patience": None})
    return Options(model=model, settings=settings, choices=given["choices"], **own)


def choices_of(kind: type[Task], size: dict[str, Any]) -> dict[str, Any]:
    """What of a plan's options concerns how the task reads its data."""
    names = {one.name for one in fields(kind.Choices)} if kind.Choices else set()
    return {name: value for name, value in size.items() if name in names}


def values_of(options: Any) -> dict[str, Any]:
    return {one.name: getattr(options, one.name) for one in fields(options)}


def _of_kind(name: str, value: Any, usual: Any) -> Any:
    """The value of an option, if it is what its usual one is; where that is None, nobody can say before."""
    if isinstance(usual, tuple):
        return tuple(value) if isinstance(value, list | tuple) else _refuse(name, value, "a list")
    if isinstance(usual, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if usual is not None and type(value) is not type(usual):
        _refuse(name, value, f"like {usual!r}")
    return value


def _refuse(name: str, value: Any, expected: str) -> Any:
    raise ValueError(f"option {name} must be {expected}, got {value!r:.60}")


def arm_of(name: str) -> tuple[Arm, bool]:
    """An arm by its name, and whether its feed-forward is to be fitted to equal parameters; `:raw` says no."""
    plain = name.removesuffix(RAW)
    if plain not in ARMS:
        raise ValueError(f"arm {name!r} is not known; there are, each with {RAW} or without: {', '.join(ARMS)}")
    return ARMS[plain], ARMS[plain].can_match and not name.endswith(RAW)
