"""Numbers of paired comparisons: what a difference is, how sure it is, and what could have been seen at all.

Differences are one number a pair: the arm's value minus its rival's, of the same seed or the same test example. Knows
nothing of runs or plans. Distributions are scipy's; the sign-flip test is not, because scipy's takes seconds for 20
pairs and refuses a single one. A single pair bounds nothing, so its interval is endless; NaN is refused.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product

import numpy as np
from scipy import optimize, stats

# All 2^n flips are looked at, in memory.
MOST_PAIRS = 24
# Up to so many pairs the exact test is noticeably weaker than Student's, which beyond them stands for both; and the
# experiments that are drawn to see how much.
FEW, DRAWS = 12, 4000
# Pairs beyond which nobody goes.
MOST_NEEDED = 10_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean of so many numbers, and an interval around it."""

    mean: float
    low: float
    high: float
    count: int

    @property
    def is_bounded(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)

    def excludes(self, value: float) -> bool:
        return not self.low <= value <= self.high


def sign_flip_p(differences: Sequence[float]) -> float:
    """Exact two-sided p of paired differences: the share of all 2^n sign flips whose mean is as far from zero.

    Where an arm makes no difference, each pair's sign is a coin. All flips are enumerated, so nothing is drawn.
    """
    found = _checked(differences)
    if len(found) > MOST_PAIRS:
        raise ValueError(f"differences must be at most {MOST_PAIRS} for an exact test, got {len(found)}")
    # p depends on no unit, and sums of the largest numbers would be endless.
    found = found / (np.abs(found).max() or 1.0)
    # The first pair keeps its sign: each flip has a mirror image as far from zero.
    sums = found[:1]
    for difference in found[1:]:
        sums = np.concatenate([sums + difference, sums - difference])
    # Sums that are equal but for rounding are ties.
    slack = 1e-12 * np.abs(found).sum()
    return float(np.mean(np.abs(sums) >= abs(found.sum()) - slack))


def smallest_p(pairs: int, comparisons: int = 1) -> float:
    """The least that `sign_flip_p` can be with so many pairs, after Holm over so many comparisons."""
    if pairs < 1 or comparisons < 1:
        raise ValueError(f"pairs and comparisons must be at least 1, got {pairs} and {comparisons}")
    return min(1.0, comparisons * 2.0 ** (1 - pairs))


def holm(ps: Sequence[float]) -> list[float]:
    """p values adjusted for being several, in the order given: Holm's step-down method."""
    if not all(0 <= p <= 1 for p in ps):
        raise ValueError(f"ps must be between 0 and 1, got {list(ps)}")
    adjusted, highest = [0.0] * len(ps), 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda place: ps[place])):
        # An adjusted p is never below that of a comparison that was clearer.
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[place]))
        adjusted[place] = highest
    return adjusted


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Mean with Student's interval; for a paired one, give the differences."""
    found = _checked(values)
    _check_confidence(confidence)
    mean = float(found.mean())
    if len(found) == 1:
        return Estimate(mean, -math.inf, math.inf, 1)
    reach = float(stats.t.ppf((1 + confidence) / 2, len(found) - 1) * found.std(ddof=1) / math.sqrt(len(found)))
    return Estimate(mean, mean - reach, mean + reach, len(found))


def bootstrap_interval(
    values: Sequence[float], confidence: float = 0.95, *, resamples: int = 9999, seed: int = 0
) -> Estimate:
    """Mean with a bootstrap interval (BCa: bias-corrected and accelerated), the same for the same seed.

    For many pairs, such as the examples of a test set. Over a handful of seeds it is too narrow: use `t_interval`.
    """
    found = _checked(values)
    _check_confidence(confidence)
    mean = float(found.mean())
    if len(found) == 1:
        return Estimate(mean, -math.inf, math.inf, 1)
    if np.ptp(found) <= 1e-12 * np.abs(found).max():
        # Every resample is the sample, but for last bits; the correction would divide by zero.
        return Estimate(mean, mean, mean, len(found))
    drawn = stats.bootstrap(
        (found,), _mean, confidence_level=confidence, n_resamples=resamples, method="BCa", rng=seed, batch=256
    )
    low, high = drawn.confidence_interval
    return Estimate(mean, float(low), float(high), len(found))


def mcnemar_p(ours: Sequence[bool], theirs: Sequence[bool]) -> float:
    """Exact two-sided p of right and wrong answers to the same examples: a coin for each that only one got right."""
    if len(ours) != len(theirs) or not len(ours):
        raise ValueError(f"ours and theirs must be of the same examples, got {len(ours)} and {len(theirs)} answers")
    alone = sum(bool(one) and not other for one, other in zip(ours, theirs, strict=True))
    either = sum(bool(one) != bool(other) for one, other in zip(ours, theirs, strict=True))
    return float(stats.binomtest(alone, either).pvalue) if either else 1.0


def smallest_detectable(differences: Sequence[float], threshold: float = 0.05, power: float = 0.8) -> float:
    """The true difference that such pairs would show, in its direction, in 80 % of experiments.

    From the spread of the pairs, taken for normal: the difference at which Student's interval excludes zero and the
    exact test agrees, which is what a verdict asks for. Endless where no p of so many pairs is small enough, and for a
    single pair.
    """
    found = _checked(differences)
    pairs = len(found)
    if pairs == 1:
        return math.inf
    return errors_detectable(pairs, threshold, power) * float(found.std(ddof=1)) / math.sqrt(pairs)


@cache
def errors_detectable(pairs: int, threshold: float = 0.05, power: float = 0.8) -> float:
    """The same in standard errors of the mean difference: how many of them a true difference must be."""
    if not 0 < threshold < 1 or not threshold < power < 1:
        raise ValueError(f"threshold must be between 0 and 1, power above it and below 1, got {threshold} and {power}")
    # The slack is for thresholds that are a p of the exact test but for rounding.
    if pairs < 2 or smallest_p(min(pairs, 50)) > threshold * (1 + 1e-9):
        return math.inf
    edge = float(stats.t.ppf(1 - threshold / 2, pairs - 1))
    # At twice the edge and more the power is 1.
    bracket = (0.0, 2 * edge + 8.0)
    shift = float(optimize.root_scalar(lambda one: stats.nct.sf(edge, pairs - 1, one) - power, bracket=bracket).root)
    return _shift_for_both(shift, pairs, threshold, power) if pairs <= FEW else shift


def pairs_needed(
    spread: float, difference: float, threshold: float = 0.05, *, floor: float = 0.0, power: float = 0.8
) -> int | None:
    """How many pairs would show a true difference in 80 % of experiments; None where none of `MOST_NEEDED` would.

    spread: the standard deviation of a pair's difference. floor: a variance of the mean difference that more pairs do
    not lessen, as that of the texts which all are scored on.
    """

    def shows(pairs: int) -> bool:
        reach = errors_detectable(pairs, threshold, power) * math.sqrt(spread**2 / pairs + floor)
        return reach <= abs(difference)

    if not shows(MOST_NEEDED):
        return None
    # What so many pairs can show falls with their number.
    return bisect_left(range(2, MOST_NEEDED + 1), True, key=shows) + 2


def stage_levels(stages: Sequence[int], threshold: float = 0.05) -> list[float]:
    """The threshold of each stage of an experiment that is judged after so many pairs, and goes on where it must.

    The error that may be made is spent as O'Brien and Fleming do, little at first (Lan and DeMets 1983): up to a share
    t of all pairs 2 - 2 Phi(z / sqrt(t)). Each stage gets what is spent since the one before, so that the sum over
    stages is the threshold whatever test is used and however the stages hang together (Bonferroni).
    """
    if not stages or any(later <= sooner for sooner, later in pairwise((0, *stages))):
        raise ValueError(f"stages must be rising numbers of pairs, got {list(stages)}")
    edge = float(stats.norm.isf(threshold / 2))
    spent = [0.0, *(2 * float(stats.norm.sf(edge / math.sqrt(pairs / stages[-1]))) for pairs in stages)]
    return [later - sooner for sooner, later in pairwise(spent)]


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """Adjusted ps of many claims: those up to 0.05 are, in expectation, wrong in at most one of 20.

    That is the rate of false discoveries; `holm` bounds the chance of a single one.
    """
    order = sorted(range(len(ps)), key=lambda place: ps[place], reverse=True)
    adjusted, lowest = [0.0] * len(ps), 1.0
    for rank, place in enumerate(order):
        lowest = min(lowest, len(ps) / (len(ps) - rank) * ps[place])
        adjusted[place] = lowest
    return adjusted


def _shift_for_both(least: float, pairs: int, threshold: float, power: float) -> float:
    """The shift in standard errors at which both tests agree as often as `power` says; one of them does at `least`.

    Drawn, since nobody has a formula for the exact test's power; always the same draws.
    """
    noise = np.random.default_rng(0).standard_normal((DRAWS, pairs))
    # The mirror image of a flip is as far from zero, so the first sign stays.
    signs = np.array([(1, *rest) for rest in product((1, -1), repeat=pairs - 1)], dtype=float)
    edge = stats.t.ppf(1 - threshold / 2, pairs - 1)

    def seen(shift: float) -> float:
        drawn = noise + shift / math.sqrt(pairs)
        sums = drawn.sum(1)
        is_clear = sums > edge * drawn.std(1, ddof=1) * math.sqrt(pairs)
        p = np.mean(np.abs(drawn[is_clear] @ signs.T) >= sums[is_clear, None] * (1 - 1e-12), axis=1)
        return float(np.sum(p <= threshold * (1 + 1e-9))) / DRAWS

    low, high = 0.0, 2 * least
    while seen(high) < power:
        high *= 2
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if seen(middle) < power else (low, middle)
    return high


def standardised_effect(differences: Sequence[float]) -> float:
    """Mean difference in standard deviations of the differences, with Hedges' correction for few pairs."""
    found = _checked(differences)
    if len(found) < 3:
        raise ValueError(f"differences must be at least 3, because Hedges' correction is 0 for two, got {len(found)}")
    if not found.any():
        return 0.0
    spread = float(found.std(ddof=1))
    # Equal numbers may differ in their last bit once a mean is taken off.
    if spread <= 1e-12 * abs(float(found.mean())):
        raise ValueError(f"differences must differ to be put in units of their spread, got {len(found)} equal ones")
    return (1 - 3 / (4 * (len(found) - 1) - 1)) * float(found.mean()) / spread


def _mean(values: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.mean(values, axis=axis)


def _checked(values: Sequence[float]) -> np.ndarray:
    found = np.asarray(values, dtype=float)
    if found.ndim != 1 or not len(found):
        raise ValueError(f"differences must be a list of at least 1 number, got shape {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError(f"differences must be finite numbers, got {found[~np.isfinite(found)][0]} among them")
    return found


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
