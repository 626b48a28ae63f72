"""Arms against each other at the end of a registered experiment, in numbers; the words are in `verdict`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import stdev

from twofold.lab.learning_rates import curve_for
from twofold.lab.pairs import Pairs, paired
from twofold.lab.per_text import TextSums, over_seeds_and_texts, same_texts, variance
from twofold.lab.plan import LEAST_PAIRS, Plan
from twofold.lab.records import Record
from twofold.lab.registration import (
    began_early,
    counted,
    grid_of,
    hopeless,
    is_larger,
    is_off_budget,
    listed,
    undated,
    unlike,
    versions_of_own_arms,
)
from twofold.lab.shortest_schedule import Clock, Shortest, clock, shortest_schedule
from twofold.lab.statistics import (
    MOST_PAIRS,
    Estimate,
    errors_detectable,
    holm,
    pairs_needed,
    sign_flip_p,
    smallest_detectable,
    t_interval,
)


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
    """After Holm over the primary comparisons; None where this is none of them, or is not judged."""
    adjusted_difference: Estimate | None
    adjusted_confidence: float | None
    """The interval at the level that Holm left for this comparison."""
    over_texts: Estimate | None
    """The interval over seeds and texts, as if both were drawn anew, at the level that counts; None where runs do not
    keep what each text adds."""
    detectable: float
    """The smallest difference that would have been seen whatever Holm makes of the others; endless where none would."""
    needed: int | None
    """How many pairs would show a difference of the plan's `bound` in 80 % of experiments; None where no number of
    them would, or nothing is known of it."""
    shortest: Shortest | None
    clock: Clock
    lost: tuple[str, ...]
    """Of the two, who diverged at every rate of the grid."""
    flaws: tuple[str, ...]
    """Why the runs, though all are there, do not answer what was registered."""

    @property
    def interval(self) -> Estimate | None:
        """Over seeds, at the level that counts."""
        return self.adjusted_difference or self.difference

    @property
    def is_whole(self) -> bool:
        return len(self.pairs.runs) == self.planned and not self.pairs.diverged


def compared(plan: Plan, records: Sequence[Record], registered: datetime | None = None) -> list[Comparison]:
    """The primary comparisons in their order, then every other arm against the baseline.

    Runs from before the plan was registered are none that it foretold.
    """
    runs = counted(plan, records)
    claims = () if plan.exploratory else plan.primary
    others = [(arm, plan.baseline) for arm in plan.arms if arm != plan.baseline]
    primaries = dict.fromkeys(claims, len(claims))
    asked = dict.fromkeys((*plan.primary, *others))
    found = [_comparison(plan, runs, registered, *pair, primaries.get(pair)) for pair in asked]
    return [*_after_holm(plan, found[: len(claims)]), *found[len(claims) :]]


def _comparison(
    plan: Plan, runs: Sequence[Record], registered: datetime | None, arm: str, against: str, primaries: int | None
) -> Comparison:
    """Before Holm; primaries: how many there are, where this is one."""
    pairs, lower = paired(runs, arm, against, plan.end), plan.lower_is_better
    found, strict = pairs.differences, plan.threshold / (primaries or 1)
    sums = _text_sums(pairs)
    spread = variance(sums) if len(sums) > 1 else None
    # What more seeds do not lessen, as long as all are scored on these texts.
    floor = max(0.0, spread.total - spread.seeds) if spread and plan.over_texts else 0.0
    shortest = shortest_schedule(runs, arm, against, seeds=plan.seeds, budgets=plan.budgets, lower_is_better=lower)
    return Comparison(
        pairs=pairs,
        planned=len(plan.seeds),
        is_primary=primaries is not None,
        primaries=primaries or 1,
        confidence=1 - plan.threshold,
        difference=t_interval(found, 1 - plan.threshold) if found else None,
        p=_p(pairs),
        adjusted_p=None,
        adjusted_difference=None,
        adjusted_confidence=None,
        over_texts=over_seeds_and_texts(sums, 1 - plan.threshold) if sums else None,
        detectable=_detectable(found, strict, floor),
        needed=_needed(plan, found, strict, floor),
        shortest=shortest,
        clock=clock(pairs, shortest, lower_is_better=lower),
        lost=tuple(one for one, budget in hopeless(plan, runs) if one in (arm, against) and budget == plan.end),
        flaws=_flaws(plan, runs, registered, arm, against),
    )


def _after_holm(plan: Plan, primary: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons that something is claimed of, each adjusted for the others.

    What is not there yet, or is not judged, is as if nothing had been found.
    """
    ps = [one.p if one.is_whole and not one.lost and not one.flaws else None for one in primary]
    known = [1.0 if p is None else p for p in ps]
    made = []
    for one, p, counted_as, adjusted in zip(primary, ps, known, holm(known), strict=True):
        # Holm leaves each the threshold divided by how many are not clearer than it, itself included.
        level = plan.threshold / sum(other >= counted_as for other in known)
        found = one.pairs.differences
        made.append(
            replace(
                one,
                adjusted_p=None if p is None else adjusted,
                adjusted_difference=t_interval(found, 1 - level) if found else None,
                adjusted_confidence=1 - level,
                over_texts=over_seeds_and_texts(sums, 1 - level) if (sums := _text_sums(one.pairs)) else None,
            )
        )
    return made


def _text_sums(pairs: Pairs) -> list[tuple[TextSums, TextSums]]:
    """What each text adds in both runs of every pair; empty unless all runs say so, of as many texts."""
    sums = [(ours.texts, theirs.texts) for ours, theirs in pairs.runs if ours.texts and theirs.texts]
    return sums if len(sums) == len(pairs.runs) > 0 and same_texts(sums) else []


def _detectable(differences: Sequence[float], threshold: float, floor: float) -> float:
    if not differences:
        return math.inf
    over_seeds = smallest_detectable(differences, threshold)
    count = len(differences)
    if not floor or not math.isfinite(over_seeds):
        return over_seeds
    return math.hypot(over_seeds, errors_detectable(count, threshold) * math.sqrt(floor))


def _needed(plan: Plan, differences: Sequence[float], threshold: float, floor: float) -> int | None:
    if plan.bound is None or len(differences) < 2:
        return None
    return pairs_needed(stdev(differences), plan.bound, threshold, floor=floor)


def _p(pairs: Pairs) -> float | None:
    found = pairs.differences
    return sign_flip_p(found) if LEAST_PAIRS <= len(found) <= MOST_PAIRS else None


def _flaws(plan: Plan, runs: Sequence[Record], registered: datetime | None, arm: str, against: str) -> tuple[str, ...]:
    curves = grid_of(plan, runs)
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
    # Seeds that were added to one rate alone could make it the best, or another one.
    lopsided = [curve.arm for curve in grids if len({rate.seeds for rate in curve.rates}) > 1] if not missing else []
    found = {
        "runs began before the plan was registered": began_early(both, registered),
        "runs do not say when they began": undated(both, registered),
        "arms of one's own are of several versions": versions_of_own_arms(both),
        "runs of the grid are missing": missing,
        "the grid is another for each arm": uneven,
        "not all rates were tried with the same seeds": lopsided,
        "the best learning rate is that of a longer training": [one.arm for one in grids if one.budget > plan.end],
        "the best learning rate is at the edge of the grid, or level with it": edges,
        "runs did not see the tokens of their budget": off,
        "the arm has more parameters than its rival": [f"{ours:,} to {theirs:,}"] if is_larger(ours, theirs) else [],
        "runs do not keep what each text adds": _without_texts(plan, finals),
        "pairs were not made alike": unlike(runs, arm, against, plan.budgets),
        f"a rival does not train to within {plan.rivals_within} of {plan.baseline}": _idle(plan, runs, against),
    }
    return tuple(f"{what} ({listed(ones)})" for what, ones in found.items() if ones)


def _without_texts(plan: Plan, finals: Sequence[Record]) -> list[str]:
    """Runs that lack what the plan asks for, where a difference is to hold over other texts."""
    lacking = [f"{run.arm} seed {run.seed}" for run in finals if run.value is not None and run.texts is None]
    return lacking if plan.over_texts else []


def _idle(plan: Plan, runs: Sequence[Record], rival: str) -> list[str]:
    """The rival, if it ends too far behind the baseline for anybody to be proud of beating it."""
    behind = paired(runs, rival, plan.baseline, plan.end).differences
    if plan.rivals_within is None or rival == plan.baseline or not behind:
        return []
    lag = sum(behind) / len(behind) * (1 if plan.lower_is_better else -1)
    return [f"{rival} ends {lag:.3g} behind"] if lag > plan.rivals_within else []
