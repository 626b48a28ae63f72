"""What the grid says of learning rates: the best of each arm, whether it is one, and which were too high."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from twofold.lab.records import Record
from twofold.lab.statistics import Estimate, t_interval

# A look at the dev split is a spike if it lies above the best before it by more than this share of the way come.
SPIKE = 0.1


@dataclass(frozen=True, slots=True)
class Rate:
    """What the runs of an arm with one learning rate came to."""

    lr: float
    value: Estimate | None
    """Over seeds; None where one of them ended in no number."""
    is_stable: bool
    """Whether none of them ended in no number, or worse than where it began. Chooses nothing: who overfits does too."""


@dataclass(frozen=True, slots=True)
class RateCurve:
    """An arm over the grid, at one budget."""

    arm: str
    budget: int
    rates: tuple[Rate, ...]
    best: float | None
    """By the mean over seeds; None where all diverged."""

    @property
    def is_interior(self) -> bool:
        """Whether the best has a rate on either side that was tried, so that it is one."""
        return self.best is not None and self.rates[0].lr < self.best < self.rates[-1].lr

    @property
    def highest_stable(self) -> float | None:
        """The highest rate up to which every run was stable."""
        stable = None
        for rate in self.rates:
            if not rate.is_stable:
                break
            stable = rate.lr
        return stable


def rate_curves(records: Sequence[Record], *, lower_is_better: bool) -> list[RateCurve]:
    """One for each arm and budget of the grid, in the order they come in."""
    grid = [record for record in records if record.phase == "grid"]
    curves = []
    for arm, budget in dict.fromkeys((record.arm, record.budget) for record in grid):
        runs = [record for record in grid if (record.arm, record.budget) == (arm, budget)]
        rates = tuple(
            _rate(lr, [run for run in runs if run.lr == lr], lower_is_better) for lr in sorted({run.lr for run in runs})
        )
        sign = 1 if lower_is_better else -1
        done = [(sign * rate.value.mean, rate.lr) for rate in rates if rate.value is not None]
        curves.append(RateCurve(arm, budget, rates, min(done)[1] if done else None))
    return curves


def rate_for(curves: Sequence[RateCurve], arm: str, budget: int) -> float | None:
    """The rate to train an arm with for a budget."""
    found = curve_for(curves, arm, budget)
    return None if found is None else found.best


def curve_for(curves: Sequence[RateCurve], arm: str, budget: int) -> RateCurve | None:
    """The grid that says an arm's rate for a budget: the largest up to it, else the smallest."""
    ours = {curve.budget: curve for curve in curves if curve.arm == arm}
    if not ours:
        return None
    below = [one for one in ours if one <= budget]
    return ours[max(below) if below else min(ours)]


def unstable(record: Record, *, lower_is_better: bool) -> bool:
    """Whether a run ended in no number, or worse than where its curve began."""
    if record.value is None:
        return True
    if len(record.curve) < 2:
        return False
    first = record.curve[0].value
    return record.value > first if lower_is_better else record.value < first


def spikes(record: Record, *, lower_is_better: bool) -> int:
    """How often the dev curve jumped away from its best by more than a tenth of the way come."""
    sign = 1 if lower_is_better else -1
    values = [sign * point.value for point in record.curve]
    count, best, is_up = 0, math.inf, False
    for value in values:
        was_up, is_up = is_up, value - best > SPIKE * (values[0] - best)
        # Several looks at one spike are one.
        count += is_up and not was_up
        best = min(best, value)
    return count


def _rate(lr: float, runs: Sequence[Record], lower_is_better: bool) -> Rate:
    values = [run.value for run in runs if run.value is not None]
    is_stable = not any(unstable(run, lower_is_better=lower_is_better) for run in runs)
    return Rate(lr, t_interval(values) if len(values) == len(runs) else None, is_stable)
