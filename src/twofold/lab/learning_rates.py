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
    seeds: tuple[int, ...]
    unstable: int
    """How many ended in no number or, above the best rate, no further than the best one was at its first look."""


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
        """Whether the best is better than the lowest and the highest rate that were tried. One that is level with
        either is not: beyond that end there may be a better one."""
        [best] = [rate.value.mean for rate in self.rates if rate.lr == self.best and rate.value] or [None]
        ends = [rate.value.mean for rate in (self.rates[0], self.rates[-1]) if rate.value is not None]
        return best is not None and not any(math.isclose(best, end, rel_tol=1e-9, abs_tol=1e-12) for end in ends)

    @property
    def highest_stable(self) -> float | None:
        """The highest rate up to which every run was stable."""
        stable = None
        for rate in self.rates:
            if rate.unstable:
                break
            stable = rate.lr
        return stable


def rate_curves(records: Sequence[Record], *, lower_is_better: bool) -> list[RateCurve]:
    """One for each arm and budget of the grid, in the order they come in."""
    grid = [record for record in records if record.phase == "grid"]
    sign = 1 if lower_is_better else -1
    curves = []
    for arm, budget in dict.fromkeys((record.arm, record.budget) for record in grid):
        runs: dict[float, list[Record]] = {}
        for run in sorted((run for run in grid if (run.arm, run.budget) == (arm, budget)), key=lambda run: run.lr):
            runs.setdefault(run.lr, []).append(run)
        values = {lr: _mean(ones) for lr, ones in runs.items()}
        done = [(sign * value.mean, lr) for lr, value in values.items() if value is not None]
        best = min(done)[1] if done else None
        bar = {lr: _first_look(runs[best], sign) if best is not None and lr > best else math.inf for lr in runs}
        rates = [
            Rate(
                lr,
                values[lr],
                tuple(sorted(run.seed for run in ones)),
                sum(run.value is None or sign * run.value >= bar[lr] for run in ones),
            )
            for lr, ones in runs.items()
        ]
        curves.append(RateCurve(arm, budget, tuple(rates), best))
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


def _mean(runs: Sequence[Record]) -> Estimate | None:
    values = [run.value for run in runs if run.value is not None]
    return t_interval(values) if len(values) == len(runs) else None


def _first_look(runs: Sequence[Record], sign: int) -> float:
    """Where these runs were at their first look, on average; endless where that was their last."""
    if any(len(run.curve) < 2 for run in runs):
        return math.inf
    return sum(sign * run.curve[0].value for run in runs) / len(runs)
