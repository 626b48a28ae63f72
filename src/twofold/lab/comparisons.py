"""Arms against each other at the end of a registered experiment, in numbers; the words are in `verdict`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from twofold.lab.pairs import Pairs, paired
from twofold.lab.plan import LEAST_PAIRS, Plan
from twofold.lab.rates import curve_for, rate_curves
from twofold.lab.records import Record
from twofold.lab.registration import began_early, counted, hopeless, is_larger, is_off_budget, listed, unlike
from twofold.lab.schedules import Clock, Shortest, clock, shortest_schedule
from twofold.lab.statistics import MOST_PAIRS, Estimate, holm, sign_flip_p, smallest_detectable, t_interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """An arm and what it is compared with, at the largest budget."""

    pairs: Pairs
    planned: int
    """How many pairs there are to be."""
    is_primary: bool
    """Registered as such, by a plan that claims something."""
    primaries: int
    """How many primary comparisons p is adjusted for; 1 where this is none of them."""
    confidence: float
    difference: Estimate | None
    """Paired t interval; None without pairs."""
    p: float | None
    """Of the exact sign-flip test; None with fewer pairs than a p is printed for, or too many for all flips."""
    adjusted_p: float | None
    """After Holm over the primary comparisons; None where this is none of them."""
    adjusted_difference: Estimate | None
    adjusted_confidence: float | None
    """The interval at the level that Holm left for this comparison."""
    detectable: float
    """The smallest difference that would have been seen, endless where none would."""
    shortest: Shortest | None
    clock: Clock
    lost: tuple[str, ...]
    """Of the two, who diverged at every rate of the grid."""
    flaws: tuple[str, ...]
    """Why the runs, though all are there, do not answer what was registered."""

    @property
    def is_whole(self) -> bool:
        return len(self.pairs.runs) == self.planned and not self.pairs.diverged


def compared(plan: Plan, records: Sequence[Record], registered: datetime | None = None) -> list[Comparison]:
    """The primary comparisons in their order, then every other arm against the baseline.

    Runs from before the plan was registered are none that it foretold.
    """
    runs = counted(plan, records)
    claims = () if plan.exploratory else plan.primary
    first = list(plan.primary)
    others = [(arm, plan.baseline) for arm in plan.arms if arm != plan.baseline]
    asked = first + [pair for pair in others if pair not in first]
    pairs = {pair: paired(runs, *pair, plan.end) for pair in asked}
    ps = {pair: _p(found) for pair, found in pairs.items()}
    # What is not there yet is as if nothing had been found.
    adjusted = dict(zip(claims, holm([1.0 if (p := ps[pair]) is None else p for pair in claims]), strict=True))
    shares = _holm_shares([ps[pair] for pair in claims])
    levels = {pair: plan.threshold * share for pair, share in zip(claims, shares, strict=True)}
    return [
        _comparison(plan, runs, registered, found, ps[pair], adjusted.get(pair), levels.get(pair))
        for pair, found in pairs.items()
    ]


def _comparison(
    plan: Plan,
    runs: Sequence[Record],
    registered: datetime | None,
    pairs: Pairs,
    p: float | None,
    adjusted: float | None,
    level: float | None,
) -> Comparison:
    found, is_primary = pairs.differences, level is not None
    primaries = len(plan.primary) if is_primary else 1
    lower = plan.lower_is_better
    shortest = shortest_schedule(
        runs, pairs.arm, pairs.against, seeds=plan.seeds, budgets=plan.budgets, lower_is_better=lower
    )
    return Comparison(
        pairs=pairs,
        planned=len(plan.seeds),
        is_primary=is_primary,
        primaries=primaries,
        confidence=1 - plan.threshold,
        difference=t_interval(found, 1 - plan.threshold) if found else None,
        p=p,
        adjusted_p=adjusted if p is not None else None,
        adjusted_difference=t_interval(found, 1 - level) if found and level is not None else None,
        adjusted_confidence=1 - level if level is not None else None,
        detectable=smallest_detectable(found, plan.threshold / primaries) if found else float("inf"),
        shortest=shortest,
        clock=clock(pairs, shortest, lower_is_better=lower),
        lost=tuple(arm for arm in hopeless(plan, runs) if arm in (pairs.arm, pairs.against)),
        flaws=_flaws(plan, runs, registered, pairs.arm, pairs.against),
    )


def _p(pairs: Pairs) -> float | None:
    found = pairs.differences
    return sign_flip_p(found) if LEAST_PAIRS <= len(found) <= MOST_PAIRS else None


def _flaws(plan: Plan, runs: Sequence[Record], registered: datetime | None, arm: str, against: str) -> tuple[str, ...]:
    curves = rate_curves(runs, lower_is_better=plan.lower_is_better)
    grids = [grid for name in (arm, against) if (grid := curve_for(curves, name, plan.end)) is not None]
    edges = [f"{grid.arm} {grid.best:g}" for grid in grids if grid.best is not None and not grid.is_interior]
    both = [run for run in runs if run.arm in (arm, against)]
    finals = [run for run in both if run.phase == "final"]
    off = [f"{run.arm} seed {run.seed} saw {run.tokens:,} of {run.budget:,}" for run in finals if is_off_budget(run)]
    sizes = {name: [run.parameters for run in finals if run.arm == name] for name in (arm, against)}
    # The largest of the one and the smallest of the other, which are the same in an honest experiment.
    ours, theirs = max(sizes[arm], default=0), min(sizes[against], default=0)
    there = {run.key for run in runs}
    missing = [f"{key.arm} {key.lr:g}" for key in plan.grid() if key.arm in (arm, against) and key not in there]
    grid = [run for run in both if run.phase == "grid"]
    tried = {name: {(run.lr, run.seed, run.budget) for run in grid if run.arm == name} for name in sizes}
    uneven = [f"{lr:g} seed {seed}" for lr, seed, _ in sorted(tried[arm] ^ tried[against])] if not missing else []
    found = {
        "runs began before the plan was registered": began_early(both, registered),
        "runs of the grid are missing": missing,
        "the grid is another for each arm": uneven,
        "the best learning rate is at the edge of the grid, or level with it": edges,
        "runs did not see the tokens of their budget": off,
        "the arm has more parameters than its rival": [f"{ours:,} to {theirs:,}"] if is_larger(ours, theirs) else [],
        "pairs were not made alike": unlike(runs, arm, against, plan.budgets),
        f"a rival does not train to within {plan.rivals_within} of {plan.baseline}": _idle(plan, runs, against),
    }
    return tuple(f"{what} ({listed(ones)})" for what, ones in found.items() if ones)


def _idle(plan: Plan, runs: Sequence[Record], rival: str) -> list[str]:
    """The rival, if it ends too far behind the baseline for anybody to be proud of beating it."""
    behind = paired(runs, rival, plan.baseline, plan.end).differences
    if plan.rivals_within is None or rival == plan.baseline or not behind:
        return []
    lag = sum(behind) / len(behind) * (1 if plan.lower_is_better else -1)
    return [f"{rival} ends {lag:.3g} behind"] if lag > plan.rivals_within else []


def _holm_shares(ps: Sequence[float | None]) -> list[float]:
    """What Holm leaves of the threshold for each: divided by how many are not clearer than it, itself included."""
    known = [1.0 if p is None else p for p in ps]
    return [1 / sum(other >= p for other in known) for p in known]
