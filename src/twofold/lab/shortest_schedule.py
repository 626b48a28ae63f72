"""How long an arm must train to reach its rival's final loss, with a schedule made for just that long.

A crossing inside a long schedule is not this: there the learning rate is still high. So every budget is a training of
its own; between two budgets the value is taken to be a straight line in the logarithm of tokens. The mean over seeds
makes the line. Seconds are those tokens at the pace of the largest budget, whose runs were made alike with the rival's:
a step takes no longer in a shorter schedule. The pace is that of the middle one of the pairs (`Pairs.pace`). Intervals
come from drawing seeds anew, the same ones for both arms and all budgets, and say nothing of that line: a loss that
flattens lies below it, and needs fewer tokens.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import stats

from twofold.lab.pairs import Pairs, end_runs
from twofold.lab.records import Record
from twofold.lab.statistics import Estimate

# Of the intervals, and how often seeds are drawn anew for them.
CONFIDENCE, RESAMPLES = 0.95, 5000


class Clock(StrEnum):
    """Whether a gain at equal tokens survives at equal seconds."""

    KEEPS = "keeps"
    LOSES = "loses"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Shortest:
    """The shortest own schedule that reaches the rival's end. Endless where no budget reaches it."""

    arm: str
    against: str
    target: float
    budgets: tuple[int, ...]
    tokens: Estimate
    seconds: Estimate
    token_ratio: Estimate
    """Of the rival's own tokens and seconds; below 1 is sooner."""
    second_ratio: Estimate
    is_censored: bool
    """Whether the smallest budget is enough already, so that even fewer tokens may be."""


def shortest_schedule(
    records: Sequence[Record],
    arm: str,
    against: str,
    *,
    seeds: Sequence[int],
    budgets: Sequence[int],
    lower_is_better: bool,
) -> Shortest | None:
    """Tokens and seconds that `arm` needs for the value of `against` at the largest budget.

    None where there are fewer than two budgets, or a run is missing or diverged: of the arm at any budget, of its rival
    at the largest. Without those, the line would be that of the runs that did well.
    """
    budgets = sorted(budgets)
    theirs = end_runs(records, against, budgets[-1])
    ours = [end_runs(records, arm, budget) for budget in budgets]
    if len(budgets) < 2 or not all(set(seeds) <= _finished(runs) for runs in (theirs, *ours)):
        return None
    sign = 1.0 if lower_is_better else -1.0
    # (seeds, budgets) and (seeds,)
    values = np.array([[sign * _value(runs[one]) for runs in ours] for one in seeds])
    seconds = np.array([ours[-1][one].seconds for one in seeds])
    goal = np.array([sign * _value(theirs[one]) for one in seeds])
    paces = seconds / np.array([theirs[one].seconds for one in seeds])

    def found(drawn: np.ndarray) -> tuple[float, float, float, float]:
        tokens = _reached(values[drawn].mean(0), goal[drawn].mean(), budgets)
        share = tokens / budgets[-1]
        return tokens, share * float(np.median(seconds[drawn])), share, share * float(np.median(paces[drawn]))

    everyone = np.arange(len(seeds))
    rng = np.random.default_rng(0)
    draws = np.array([found(rng.choice(everyone, len(seeds))) for _ in range(RESAMPLES)])
    numbers = [_estimate(mean, draws[:, place], len(seeds)) for place, mean in enumerate(found(everyone))]
    return Shortest(
        arm,
        against,
        sign * float(goal.mean()),
        tuple(budgets),
        *numbers,
        is_censored=bool(values.mean(0)[0] <= goal.mean()),
    )


def clock(pairs: Pairs, shortest: Shortest | None, *, lower_is_better: bool) -> Clock:
    """Whether seconds lose what the loss gains.

    By the shortest own schedule where it is known, its interval being for the reader to see. Without: kept if the arm
    is no slower for the same tokens, or if all its curves get to the rival's final value, to stay, in no more time;
    that schedule was not made to be short, so where it is not, nothing is known.
    """
    if shortest is not None and shortest.second_ratio.mean <= 1:
        return Clock.KEEPS
    if shortest is not None:
        # Where the smallest budget is enough, its seconds are only an upper bound.
        return Clock.UNKNOWN if shortest.is_censored else Clock.LOSES
    if not pairs.runs:
        return Clock.UNKNOWN
    if pairs.pace <= 1:
        return Clock.KEEPS
    sign = 1 if lower_is_better else -1
    crossings = [_crossing(run, sign, _value(rival)) / rival.seconds for run, rival in pairs.runs]
    # All must get there. When they do is read off the middle one, as the pace is.
    is_there = all(map(math.isfinite, crossings)) and float(np.median(crossings)) <= 1
    return Clock.KEEPS if is_there else Clock.UNKNOWN


def _reached(values: np.ndarray, goal: float, budgets: Sequence[int]) -> float:
    """Tokens at which a falling line through (log budget, value) first comes down to the goal."""
    if values[0] <= goal:
        return float(budgets[0])
    for right in range(1, len(budgets)):
        if values[right] <= goal:
            share = (values[right - 1] - goal) / (values[right - 1] - values[right])
            return math.exp((1 - share) * math.log(budgets[right - 1]) + share * math.log(budgets[right]))
    return math.inf


def _crossing(run: Record, sign: int, goal: float) -> float:
    """Seconds until the curve is where the rival ended; endless where it does not stay there once it was."""
    is_there = [sign * point.value <= sign * goal for point in run.curve]
    first = is_there.index(True) if True in is_there else len(is_there)
    return run.curve[first].seconds if is_there[first:] and all(is_there[first:]) else math.inf


def _estimate(mean: float, draws: np.ndarray, count: int) -> Estimate:
    if count == 1:
        return Estimate(mean, -math.inf, math.inf, 1)
    # Draws from a few seeds spread less than seeds do: as far out as Student's t with n - 1 for n (Hesterberg 2015).
    reach = stats.t.ppf((1 + CONFIDENCE) / 2, count - 1) * math.sqrt(count / (count - 1))
    # Some draws may never reach the goal; the nearest rank needs no arithmetic with what is endless.
    low, high = np.quantile(draws, stats.norm.cdf([-reach, reach]), method="inverted_cdf")
    return Estimate(mean, float(low), float(high), count)


def _finished(runs: dict[int, Record]) -> set[int]:
    return {seed for seed, run in runs.items() if run.value is not None}


def _value(run: Record) -> float:
    return math.nan if run.value is None else run.value
