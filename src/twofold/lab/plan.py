"""What an experiment will be, written down and checked before it runs."""

import itertools
import tomllib
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from twofold.lab.records import Key, check, check_fields, is_number
from twofold.lab.statistics import MOST_PAIRS, smallest_p, stage_levels

# With fewer pairs no p is printed, and with fewer rates no optimum can be seen to be one.
LEAST_PAIRS, LEAST_RATES, MOST_PRIMARY = 8, 4, 2
# A rate that one seed chose flips with the next seed where rates are close.
LEAST_GRID_SEEDS = 2
# Below this, intervals would be those of a confidence of 1.
LEAST_THRESHOLD = 1e-9
# Of a seed, which generators take as 64 bits, and of tokens.
MOST = 10**18
# Learning rates beyond these are almost certainly typos, and may overflow.
RATES = (1e-20, 1e20)
_WORDS = ("experiment", "question", "hypothesis", "task", "data", "metric", "baseline", "analysis", "stop_rule")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One experiment: all of plan.toml. The primary comparisons are made at the largest budget."""

    experiment: str
    question: str
    hypothesis: str
    task: str
    data: str
    """In words: which texts, how they are split."""
    metric: str
    lower_is_better: bool
    arms: tuple[str, ...]
    baseline: str
    """The arm that all others are compared with."""
    primary: tuple[tuple[str, str], ...]
    """At most two pairs of an arm and what it is compared with. All else is exploratory."""
    seeds: tuple[int, ...]
    lrs: tuple[float, ...]
    """The grid of learning rates, the same for every arm."""
    budgets: tuple[int, ...]
    """Tokens; each is a training of its own, with its own schedule."""
    analysis: str
    stop_rule: str
    threshold: float = 0.05
    grid_seeds: tuple[int, ...] = ()
    """Seeds of the grid, none of which is compared; the two after the largest of `seeds` unless given, or, for a look
    around, one."""
    grid_budgets: tuple[int, ...] = ()
    """Budgets of the grid; all of `budgets` unless given."""
    rivals_within: float | None = None
    """An arm that ends worse than the baseline by more than this does not work, and beating it is nothing: a primary
    comparison with it is not judged. None: every arm counts."""
    bound: float | None = None
    """The smallest difference that matters. Only an interval that lies within it on both sides is called no difference.
    None: nothing is ever called so."""
    over_texts: bool = False
    """Whether a difference must also be clear over other texts of the kind, and not only over seeds."""
    stages: tuple[int, ...] = ()
    """Numbers of pairs after which the experiment is judged; it goes on to the next one only if a primary comparison
    is undecided. The last one is all seeds. Empty: once, after all."""
    grid_reason: str = ""
    """Why rates that are chosen on shorter trainings will do, where `grid_budgets` lacks the largest budget."""
    exploratory: bool = False
    """A look around: fewer seeds and rates will do, and nothing is claimed."""
    size: dict[str, Any] = field(default_factory=dict)
    """Options of model and training that are the same for all arms."""

    def __post_init__(self) -> None:
        for name in ("lower_is_better", "exploratory"):
            check(name, getattr(self, name), "true or false", isinstance(getattr(self, name), bool))
        # Before the words, one of which is the name of an arm.
        check("arms", self.arms, "at least two different names", _are_names(self.arms) and len(self.arms) > 1)
        for name in _WORDS:
            value = getattr(self, name)
            check(name, value, "words", isinstance(value, str) and bool(value.strip()))
        check("baseline", self.baseline, f"one of the arms {list(self.arms)}", self.baseline in self.arms)
        for name, least in (("seeds", 0), ("grid_seeds", 0), ("budgets", 1), ("grid_budgets", 1)):
            self._check_numbers(name, least)
        low, high = RATES
        rates = _is_list(self.lrs) and bool(self.lrs) and all(is_number(lr) and low <= lr <= high for lr in self.lrs)
        check("lrs", self.lrs, f"different numbers from {low:g} to {high:g}", rates and _differ(self.lrs))
        object.__setattr__(self, "lrs", tuple(sorted(float(lr) for lr in self.lrs)))
        share = is_number(self.threshold) and LEAST_THRESHOLD <= self.threshold < 0.5
        check("threshold", self.threshold, f"at least {LEAST_THRESHOLD:g} and below 0.5", share)
        within = self.rivals_within
        check("rivals_within", within, "a number above 0", within is None or (is_number(within) and within > 0))
        check("bound", self.bound, "a number above 0", self.bound is None or (is_number(self.bound) and self.bound > 0))
        check("over_texts", self.over_texts, "true or false", isinstance(self.over_texts, bool))
        check("grid_reason", self.grid_reason, "words", isinstance(self.grid_reason, str))
        check("size", self.size, "a table of words and numbers", _is_plain(self.size))
        object.__setattr__(self, "arms", tuple(self.arms))
        self._check_primary()
        self._check_stages()
        beyond = max(self.seeds) + 1
        more = (beyond,) if self.exploratory else (beyond, beyond + 1)
        object.__setattr__(self, "grid_seeds", self.grid_seeds or more)
        self._check_numbers("grid_seeds", 0)
        object.__setattr__(self, "grid_budgets", self.grid_budgets or self.budgets)

    @property
    def end(self) -> int:
        """The budget that the primary comparisons are made at."""
        return self.budgets[-1]

    def why_not(self) -> str | None:
        """Why such a plan could not answer its question; None if it could, or says that it is exploratory."""
        if self.exploratory:
            return None
        if not self.primary:
            return "primary names no comparison"
        if len(self.lrs) < LEAST_RATES:
            return f"lrs must be at least {LEAST_RATES} rates, got {len(self.lrs)}"
        if min(self.grid_budgets) > self.end:
            # A rate that suits a longer schedule says nothing of this one.
            return f"grid_budgets must hold one up to the largest budget {self.end:,}, got {self.grid_budgets[0]:,}"
        if self.end not in self.grid_budgets and not self.grid_reason.strip():
            return (
                f"grid_budgets must hold the largest budget {self.end:,}, or grid_reason say why a rate that is chosen "
                f"on a shorter training will do, got {max(self.grid_budgets):,} and no reason"
            )
        if len(self.grid_seeds) < LEAST_GRID_SEEDS:
            return (
                f"grid_seeds must be at least {LEAST_GRID_SEEDS}, since one seed chooses by chance between rates that "
                f"are close, got {len(self.grid_seeds)}"
            )
        first = self.at_stage(0)
        least = smallest_p(len(first.seeds), len(self.primary))
        if least > first.threshold:
            return (
                f"{len(first.seeds)} seeds give a p of {least:.4g} at best, after Holm over the primary comparisons "
                f"({len(self.primary)}), which cannot reach the threshold {first.threshold:g}"
            )
        if len(first.seeds) < LEAST_PAIRS:
            return f"seeds must be at least {LEAST_PAIRS} for a p to be printed, got {len(first.seeds)}"
        if len(self.seeds) > MOST_PAIRS:
            return f"seeds must be at most {MOST_PAIRS} for an exact test, got {len(self.seeds)}"
        if both := sorted(set(self.grid_seeds) & set(self.seeds)):
            return f"grid_seeds must be none of seeds, or a rate is chosen by what is compared, got {both} in both"
        return None

    @property
    def last_stage(self) -> int:
        return max(0, len(self.stages) - 1)

    def at_stage(self, stage: int) -> "Plan":
        """The plan as it is judged at a stage, counted from 0: its seeds up to there, and its share of the threshold.

        The plan itself where it has no stages.
        """
        if not self.stages:
            return self
        level = stage_levels(self.stages, self.threshold)[stage]
        return replace(self, seeds=self.seeds[: self.stages[stage]], threshold=level, stages=())

    def widened_like(self, other: "Plan") -> "Plan | None":
        """This plan with as many seeds as another one that is otherwise the same; None where it is not.

        A look around takes more seeds at any time: the next numbers that its grid has not used. What is registered
        takes no more than its stages have.
        """
        unused = (number for number in itertools.count() if number not in (*self.seeds, *self.grid_seeds))
        more = len(other.seeds) - len(self.seeds)
        if more < 0 or (more and not self.exploratory):
            return None
        wider = replace(self, seeds=(*self.seeds, *itertools.islice(unused, more)))
        return wider if replace(other, seeds=wider.seeds, grid_seeds=wider.grid_seeds) == wider else None

    def grid(self) -> list[Key]:
        """All runs of the grid, the arms side by side."""
        return [
            Key(self.experiment, "grid", arm, seed, lr, budget)
            for budget in self.grid_budgets
            for seed in self.grid_seeds
            for lr in self.lrs
            for arm in self.arms
        ]

    def finals(self, rates: dict[tuple[str, int], float]) -> list[Key]:
        """All runs that are compared, the arms side by side, given the rate of each arm and budget that has one."""
        return [
            Key(self.experiment, "final", arm, seed, rates[arm, budget], budget)
            for budget in self.budgets
            for seed in self.seeds
            for arm in self.arms
            if (arm, budget) in rates
        ]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: Any) -> "Plan":
        check_fields(cls, told)
        return cls(**told)

    def _check_numbers(self, name: str, least: int) -> None:
        values = getattr(self, name)
        whole = _is_list(values) and all(isinstance(one, int) and not isinstance(one, bool) for one in values)
        fits = whole and all(least <= one <= MOST for one in values) and (bool(values) or name.startswith("grid_"))
        check(name, values, f"different whole numbers from {least} to {MOST:,}", fits and _differ(values))
        # Seeds keep their order, by which they are run.
        object.__setattr__(self, name, tuple(values) if name.endswith("seeds") else tuple(sorted(values)))

    def _check_stages(self) -> None:
        rising = _is_list(self.stages) and all(type(pairs) is int for pairs in self.stages)
        fits = rising and all(sooner < later for sooner, later in pairwise((0, *self.stages)))
        whole = not self.stages or (fits and self.stages[-1] == len(self.seeds))
        check("stages", self.stages, f"rising numbers of pairs up to all seeds, {len(self.seeds)}", fits and whole)
        object.__setattr__(self, "stages", tuple(self.stages))

    def _check_primary(self) -> None:
        pairs = _is_list(self.primary) and all(_are_names(pair) and len(pair) == 2 for pair in self.primary)
        few = pairs and len(self.primary) <= MOST_PRIMARY
        check("primary", self.primary, f"at most {MOST_PRIMARY} pairs of an arm and its rival", few)
        found = tuple((one, other) for one, other in self.primary)
        for arm in (arm for pair in found for arm in pair):
            check("primary", arm, f"of the arms {list(self.arms)}", arm in self.arms)
        check("primary", found, "different comparisons", len({frozenset(pair) for pair in found}) == len(found))
        object.__setattr__(self, "primary", found)


def read_plan(path: Path) -> Plan:
    """A plan.toml. Whatever is wrong with it is one line that names the file and the field."""
    try:
        return Plan.from_json(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except FileNotFoundError as error:
        raise ValueError(f"{path}: there is no such file") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error


def _is_plain(value: Any) -> bool:
    simple = (str, int, float, bool)
    return isinstance(value, dict) and all(
        isinstance(one, simple) or (isinstance(one, list) and all(isinstance(each, simple) for each in one))
        for one in value.values()
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _are_names(value: Any) -> bool:
    return _is_list(value) and all(isinstance(name, str) and name.strip() for name in value) and _differ(value)


def _differ(values: Any) -> bool:
    return len(set(values)) == len(values)
