"""What an experiment will be, written down and checked before it runs."""

import itertools
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from twofold.lab.records import Key
from twofold.lab.statistics import MOST_PAIRS, smallest_p, stage_levels
from twofold_runtime.checked import Limit, above, at_least, below, check_fields, checked, from_mapping, within

# With fewer pairs no p is printed, and with fewer rates no optimum can be seen to be one.
LEAST_PAIRS, LEAST_RATES, MOST_PRIMARY = 8, 4, 2
# A rate that one seed chose flips with the next seed where rates are close.
LEAST_GRID_SEEDS = 2
DIFFERENT = Limit("(all different)", lambda values: _differ(values))
SOME = Limit("(at least one)", bool)
Words = Annotated[str, Limit("that is not empty", lambda text: bool(text.strip()))]
# Of seeds, which generators take as 64 bits, and of tokens.
Seeds = Annotated[tuple[Annotated[int, within(0, 10**18)], ...], DIFFERENT]
Tokens = Annotated[tuple[Annotated[int, within(1, 10**18)], ...], DIFFERENT]
# Learning rates beyond these are almost certainly typos, and may overflow.
Rate = Annotated[float, within(1e-20, 1e20)]
Names = Annotated[tuple[Words, ...], DIFFERENT]
Plain = Limit("of words, numbers and lists of them", lambda table: _is_plain(table))


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One experiment: all of plan.toml. The primary comparisons are made at the largest budget."""

    experiment: Words
    question: Words
    hypothesis: Words
    task: Words
    data: Words
    """In words: which texts, how they are split."""
    metric: Words
    lower_is_better: bool
    arms: Annotated[Names, Limit("(at least two)", lambda names: len(names) > 1)]
    baseline: Words
    """The arm that all others are compared with."""
    primary: Annotated[
        tuple[tuple[str, str], ...], Limit(f"(at most {MOST_PRIMARY})", lambda ones: len(ones) <= MOST_PRIMARY)
    ]
    """At most two pairs of an arm and what it is compared with. All else is exploratory."""
    seeds: Annotated[Seeds, SOME]
    lrs: Annotated[tuple[Rate, ...], DIFFERENT, SOME]
    """The grid of learning rates, the same for every arm."""
    budgets: Annotated[Tokens, SOME]
    """Tokens; each is a training of its own, with its own schedule."""
    analysis: Words
    stop_rule: Words
    # Below the least, intervals would be those of a confidence of 1.
    threshold: Annotated[float, at_least(1e-9), below(0.5)] = 0.05
    grid_seeds: Seeds = ()
    """Seeds of the grid, none of which is compared; the two after the largest of `seeds` unless given, or, for a look
    around, one."""
    grid_budgets: Tokens = ()
    """Budgets of the grid; all of `budgets` unless given."""
    rivals_within: Annotated[float, above(0)] | None = None
    """An arm that ends worse than the baseline by more than this does not work, and beating it is nothing: a primary
    comparison with it is not judged. None: every arm counts."""
    bound: Annotated[float, above(0)] | None = None
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
    size: Annotated[dict[str, Any], Plain] = field(default_factory=dict)
    """Options of model and training that are the same for all arms."""

    def __post_init__(self) -> None:
        check_fields(self)
        named = {self.baseline, *itertools.chain(*self.primary)}
        if unknown := sorted(named - set(self.arms)):
            raise ValueError(f"baseline and primary must be of the arms {list(self.arms)}, got {unknown[0]!r}")
        pairs = [frozenset(pair) for pair in self.primary]
        if not _differ(pairs) or any(len(pair) < 2 for pair in pairs):
            raise ValueError(f"primary must be different comparisons of two arms, got {list(self.primary)}")
        if self.stages and (self.stages[-1] != len(self.seeds) or not _rises((0, *self.stages))):
            raise ValueError(
                f"stages must be rising numbers of pairs up to all seeds, {len(self.seeds)}, got {list(self.stages)}"
            )
        beyond = max(self.seeds) + 1
        more = (beyond,) if self.exploratory else (beyond, beyond + 1)
        object.__setattr__(self, "grid_seeds", checked("grid_seeds", self.grid_seeds or more, Seeds))
        object.__setattr__(self, "grid_budgets", self.grid_budgets or self.budgets)
        # Seeds keep their order, by which they are run.
        for name in ("lrs", "budgets", "grid_budgets"):
            object.__setattr__(self, name, tuple(sorted(getattr(self, name))))

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
        return from_mapping(cls, told)


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


def _rises(values: Sequence[int]) -> bool:
    return all(sooner < later for sooner, later in itertools.pairwise(values))


def _differ(values: Any) -> bool:
    return len(set(values)) == len(values)
