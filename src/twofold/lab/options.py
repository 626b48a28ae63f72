"""What a comparison's runs have in common, out of the plan's words: options of model and training, and its arms."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

from twofold.checked import Count, above, at_most, check_fields, checked
from twofold.lab.arms import ARMS, Arm
from twofold.tasks.options import ModelOptions
from twofold.tasks.runs import task_class
from twofold.tasks.sizes import measures
from twofold.tasks.task import Task
from twofold.training.learner import forward_options
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
        "workers",
        "save_steps",
        "save_seconds",
        "keep",
        "distribution",
        "report_to",
    ]
)
# After the name of an arm whose feed-forward keeps its width instead of being fitted to equal parameters.
RAW = ":raw"
# Times the training length that a text is read over.
MOST_TIMES = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Own:
    """Options of a comparison rather than of model or training."""

    looks: Count = 10
    """Looks at the dev split in a run."""
    test: bool = False
    """Read the test split at the end of every run that is compared."""
    lengths: tuple[float, ...] = ()
    """How many times the training length runs that are compared are scored over as well, at their end."""
    share: Annotated[float, above(0), at_most(1)] = 1.0
    """Share of the training split that is learned from, always the same examples."""

    def __post_init__(self) -> None:
        check_fields(self)
        fits = all(1 <= times <= MOST_TIMES and times == int(times) for times in self.lengths)
        if not fits or len(set(self.lengths)) < len(self.lengths):
            raise ValueError(
                f"lengths must be different whole numbers from 1 to {MOST_TIMES}, got {list(self.lengths)}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """A plan's `size`, sorted by whom it concerns."""

    model: ModelOptions
    settings: Settings
    choices: dict[str, Any]
    """How the task reads its data; what is not in it is as usual."""
    own: Own


def options_of(task: str, size: Mapping[str, Any]) -> Options:
    """Raises for an option that there is not, that a comparison sets itself, or whose value is of another kind."""
    kind = task_class(task)
    owners = {"model": ModelOptions, "settings": Settings, "own": Own} | (
        {"choices": kind.Choices} if kind.Choices else {}
    )
    hints = {owner: get_type_hints(made, include_extras=True) for owner, made in owners.items()}
    names = sorted(set().union(*hints.values()) - FIXED)
    given: dict[str, dict[str, Any]] = {owner: {} for owner in (*owners, "choices")}
    for name, value in size.items():
        if name not in names:
            what = f"option {name!r} is set by the comparison itself" if name in FIXED else f"unknown option {name!r}"
            raise ValueError(f"{what}; there are: {', '.join(names)}")
        owner = next(owner for owner, hint in hints.items() if name in hint)
        given[owner][name] = checked(f"option {name}", value, hints[owner][name])
    if kind.Choices:
        # What is wrong with them is found now.
        kind.Choices(**given["choices"])
    # Dropout would hide what the arms differ in, where each token is seen a few times at most.
    wanted: dict[str, Any] = {"dropout": 0.0} | given["model"] | {"attention": "standard", "matched": False}
    model = ModelOptions(**wanted)
    settings = Settings(**kind.settings(model.size) | given["settings"] | {"patience": None, "distribution": "none"})
    forward_options(kind.model_class, settings)
    measures(model)
    own = Own(**given["own"])
    if own.lengths and kind.longer is Task.longer:
        raise ValueError(f"lengths must be left out for {task}, which reads each text as long as it is")
    return Options(model=model, settings=settings, choices=given["choices"], own=own)


def check_metric(task: str, metric: str, lower_is_better: bool) -> None:
    """Raises for what a task is not scored by, or has the wrong way round: the worse would be called better."""
    kind = task_class(task)
    if metric not in kind.metrics:
        raise ValueError(f"metric must be one of {', '.join(kind.metrics)} for {task}, got {metric!r}")
    if lower_is_better != (expected := metric in kind.lower):
        told, got = (str(one).lower() for one in (expected, lower_is_better))
        raise ValueError(f"lower_is_better must be {told} for {metric} of {task}, got {got}")


def arm_of(name: str) -> tuple[Arm, bool]:
    """An arm by its name, and whether its feed-forward is to be fitted to equal parameters; `:raw` says no."""
    plain = name.removesuffix(RAW)
    if plain not in ARMS:
        raise ValueError(
            f"arm {name!r} is not known (one of your own needs --arms-from FILE); "
            f"there are, each with {RAW} or without: {', '.join(ARMS)}"
        )
    return ARMS[plain], ARMS[plain].can_match and not name.endswith(RAW)
