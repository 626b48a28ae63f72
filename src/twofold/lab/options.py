"""What a comparison's runs have in common, out of the plan's words: options of model and training, and its arms."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from twofold.lab.arms import ARMS, Arm
from twofold.lab.records import is_number
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
# A whole number above this is almost certainly a typo, and more than some of torch's functions take.
MOST = 2**31
# Times the training length that a text is read over.
MOST_TIMES = 1024
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Own:
    """Options of a comparison rather than of model or training."""

    looks: int = 10
    """Looks at the dev split in a run."""
    test: bool = False
    """Read the test split at the end of every run that is compared."""
    lengths: tuple[float, ...] = ()
    """How many times the training length runs that are compared are scored over as well, at their end."""
    share: float = 1.0
    """Share of the training split that is learned from, always the same examples."""

    def __post_init__(self) -> None:
        if self.looks < 1:
            raise ValueError(f"looks must be at least 1, got {self.looks}")
        fits = all(1 <= times <= MOST_TIMES and times == int(times) for times in self.lengths)
        if not fits or len(set(self.lengths)) < len(self.lengths):
            raise ValueError(
                f"lengths must be different whole numbers from 1 to {MOST_TIMES}, got {list(self.lengths)}"
            )
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {self.share}")


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
    hints = {owner: get_type_hints(made) for owner, made in owners.items()}
    names = sorted(set().union(*hints.values()) - FIXED)
    given: dict[str, dict[str, Any]] = {owner: {} for owner in (*owners, "choices")}
    for name, value in size.items():
        if name not in names:
            what = f"option {name!r} is set by the comparison itself" if name in FIXED else f"unknown option {name!r}"
            raise ValueError(f"{what}; there are: {', '.join(names)}")
        owner = next(owner for owner, hint in hints.items() if name in hint)
        given[owner][name] = _of_kind(name, value, hints[owner][name])
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


def _of_kind(name: str, value: Any, hint: Any) -> Any:
    """The value of an option, as what its type hint wants."""
    # None is what an option is where it is left out.
    [kind] = [one for one in (get_args(hint) if isinstance(hint, UnionType) else (hint,)) if one is not type(None)]
    if get_origin(kind) is Literal:
        expected, fits = f"one of {', '.join(get_args(kind))}", value in get_args(kind)
    elif get_origin(kind) is tuple:
        expected, fits = "a list of numbers", isinstance(value, list | tuple) and all(map(is_number, value))
        value = tuple(value) if fits else value
    elif kind is float:
        expected, fits = KINDS[float], is_number(value)
        value = float(value) if fits else value
    else:
        expected, fits = KINDS[kind], type(value) is kind
        if fits and kind is int and abs(value) > MOST:
            expected, fits = f"at most {MOST:,}", False
    if not fits:
        raise ValueError(f"option {name} must be {expected}, got {value!r:.60}")
    return value
