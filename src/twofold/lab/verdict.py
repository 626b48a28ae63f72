"""The words that were fixed before any run, and the one sentence that goes with them.

better                   the interval excludes zero after Holm, the exact test agrees, and seconds do not lose the gain;
                         where the plan asks for it, the interval over seeds and texts excludes zero as well
better at equal tokens   the same, but seconds lose the gain, or nobody knows
worse                    the same on the wrong side, whatever the seconds
no difference found      the interval lies within the bound that the plan fixed, on both sides
undecided                everything else, with the smallest difference that would have been seen, and how many pairs
                         would show one of the plan's bound
exploratory              what was not registered as primary, and all with fewer than 8 pairs: nothing is claimed
not judged               runs are missing or diverged; of a primary comparison also where the best learning rate of an
                         arm lies at the edge of the grid or is level with it, the grid is not whole, another for each
                         arm or of other seeds for each rate, runs began before the plan was registered, or do not say
                         when, or are off their tokens, arms of one's own are of several versions, pairs were not made
                         alike, the arm is the larger one, its rival does not train to within what the plan says, or
                         runs lack what each text adds, where the plan asks for it

Until 20 November 2026 "no difference found" stood for all that is now "better at equal tokens" or "undecided".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from twofold.lab.analysis import Comparison
from twofold.lab.plan import LEAST_PAIRS, Plan
from twofold.lab.shortest_schedule import CONFIDENCE, Clock, Shortest
from twofold.lab.statistics import Estimate


class Word(StrEnum):
    """What may be said of a comparison."""

    BETTER = "better"
    BETTER_AT_TOKENS = "better at equal tokens"
    WORSE = "worse"
    NO_DIFFERENCE = "no difference found"
    UNDECIDED = "undecided"
    EXPLORATORY = "exploratory"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A word, and a sentence that begins with it."""

    word: Word
    sentence: str


def judged(plan: Plan, comparison: Comparison) -> Verdict:
    """What may be said of a comparison of a plan."""
    if (reason := _why_not_judged(comparison)) is not None:
        return Verdict(Word.NOT_JUDGED, f"{Word.NOT_JUDGED}: {reason}.")
    word = _word(plan, comparison)
    said = _difference(plan, comparison)
    match word:
        case Word.EXPLORATORY:
            rest = "; nothing is claimed"
        case Word.BETTER_AT_TOKENS:
            rest = _lost(comparison)
        case Word.NO_DIFFERENCE:
            rest = f"; a difference within {number(plan.bound or 0.0)} was fixed beforehand as none"
        case Word.UNDECIDED:
            seen = number(comparison.detectable)
            rest = f"; a true difference of {seen} would have been seen in 80 % of such experiments"
            rest += _more_pairs(plan, comparison)
        case _:
            rest = _time(comparison)
    return Verdict(word, f"{word}: {said}{rest}.")


def overview(plan: Plan, comparisons: Sequence[Comparison]) -> Verdict:
    """One sentence instead of many, where no comparison is primary: the furthest of them to either side."""
    found = sorted((one.difference.mean, place) for place, one in enumerate(comparisons) if one.difference is not None)
    if not found:
        return Verdict(Word.NOT_JUDGED, f"{Word.NOT_JUDGED}: none of {len(comparisons)} comparisons has pairs.")
    ends = (found[0], found[-1]) if plan.lower_is_better else (found[-1], found[0])
    best, worst = (_difference(plan, comparisons[place]) for _, place in ends)
    said = f"of {len(comparisons)} comparisons nothing is claimed; at best, {best}, and at worst, {worst}"
    if unfinished := sum(_why_not_judged(one) is not None for one in comparisons):
        said += f"; in {unfinished} of them runs are missing or diverged"
    return Verdict(Word.EXPLORATORY, f"{Word.EXPLORATORY}: {said}.")


def interval_text(estimate: Estimate | None) -> str:
    """Low to high; what a single pair leaves is unknown."""
    return f"{number(estimate.low)} to {number(estimate.high)}" if estimate and estimate.is_bounded else "unknown"


def number(value: float) -> str:
    """Three significant digits, or all of a whole number's."""
    # What is rounded up to 1000 is written as other thousands are.
    return f"{value:#.3g}".rstrip(".") if abs(value) < 999.5 or not math.isfinite(value) else f"{value:,.0f}"


def share(ratio: float) -> str:
    """In percent."""
    return f"{number(100 * ratio)} %" if ratio < 9.995 else f"{number(ratio)} times"


def _why_not_judged(comparison: Comparison) -> str | None:
    pairs = comparison.pairs
    which = f"of {pairs.arm} against {pairs.against}, "
    if pairs.diverged:
        names = ", ".join(f"{arm} seed {seed}" for arm, seed in pairs.diverged)
        return f"{which}these runs diverged: {names}"
    if comparison.lost:
        return f"{' and '.join(comparison.lost)} diverged at every rate of the grid"
    if not comparison.is_whole:
        return f"{len(pairs.runs)} of {comparison.planned} pairs of {pairs.arm} and {pairs.against} are there"
    # Where nothing is claimed, it is enough that the report names them.
    return which + "; ".join(comparison.flaws) if comparison.is_primary and comparison.flaws else None


def _word(plan: Plan, comparison: Comparison) -> Word:
    if not comparison.is_primary or len(comparison.pairs.runs) < LEAST_PAIRS:
        return Word.EXPLORATORY
    if not _is_clear(plan, comparison):
        return Word.NO_DIFFERENCE if _is_within(plan, comparison) else Word.UNDECIDED
    if not _is_gain(plan, comparison):
        return Word.WORSE
    return Word.BETTER if comparison.clock is Clock.KEEPS else Word.BETTER_AT_TOKENS


def _is_clear(plan: Plan, comparison: Comparison) -> bool:
    interval, p = comparison.adjusted_difference, comparison.adjusted_p
    if interval is None or p is None or _is_level(comparison, interval.mean):
        return False
    over_texts = comparison.over_texts
    holds = not plan.over_texts or (over_texts is not None and over_texts.excludes(0.0))
    return interval.excludes(0.0) and p <= plan.threshold and holds


def _is_within(plan: Plan, comparison: Comparison) -> bool:
    """Whether the intervals leave no room for a difference as large as the plan's bound."""
    intervals = [comparison.interval, *([comparison.over_texts] if plan.over_texts else [])]
    bound = plan.bound or 0.0
    return all(one is not None and -bound < one.low and one.high < bound for one in intervals)


def _is_level(comparison: Comparison, mean: float) -> bool:
    """The mean difference of equal runs may be off zero in its last bits."""
    largest = max((abs(run.value or 0.0) for pair in comparison.pairs.runs for run in pair), default=0.0)
    return abs(mean) <= 1e-12 * largest


def _is_gain(plan: Plan, comparison: Comparison) -> bool:
    """A clear difference in the right direction, at equal tokens."""
    if not _is_clear(plan, comparison) or comparison.difference is None:
        return False
    return (comparison.difference.mean < 0) == plan.lower_is_better


def _difference(plan: Plan, comparison: Comparison) -> str:
    pairs, found = comparison.pairs, comparison.interval
    mean = found.mean if found else math.nan
    level = comparison.adjusted_confidence or comparison.confidence
    told = [
        f"{100 * level:.4g} % interval {interval_text(found)}{_over_texts(comparison)}",
        f"{len(pairs.runs)} pair{'s' * (len(pairs.runs) > 1)}",
    ]
    if comparison.adjusted_p is not None:
        after = " after Holm" if comparison.primaries > 1 else ""
        told.append(f"p = {number(comparison.adjusted_p)}{after}")
    elif comparison.p is not None:
        told.append(f"unadjusted p = {number(comparison.p)}")
    place = "level with" if _is_level(comparison, mean) else f"{number(abs(mean))} {'below' if mean < 0 else 'above'}"
    return f"{pairs.arm} ends {place} {pairs.against} in {plan.metric} ({', '.join(told)})"


def _over_texts(comparison: Comparison) -> str:
    if comparison.over_texts is None:
        return ""
    return f" over seeds, {interval_text(comparison.over_texts)} over seeds and texts"


def _more_pairs(plan: Plan, comparison: Comparison) -> str:
    if plan.bound is None:
        return ""
    if comparison.needed is None:
        return f", and no number of pairs would show one of {number(plan.bound)} on these texts"
    return f", and it would take {comparison.needed} pairs to see one of {number(plan.bound)}"


def _time(comparison: Comparison) -> str:
    shortest = comparison.shortest
    if shortest is None:
        pace = f"{share(comparison.pairs.pace)} of its seconds for the same tokens"
        is_sooner = comparison.clock is Clock.KEEPS and comparison.pairs.pace > 1
        return f", and its curve is there in no more time, with {pace}" if is_sooner else f", with {pace}"
    if not math.isfinite(shortest.second_ratio.mean):
        return ", and no budget reaches that end"
    return f", and {_reaches(shortest)}"


def _reaches(shortest: Shortest) -> str:
    fewest = ", the fewest that were tried," if shortest.is_censored else ""
    return (
        f"reaches that end with {share(shortest.token_ratio.mean)} of the tokens{fewest} and "
        f"{share(shortest.second_ratio.mean)} of the seconds ({_seconds_interval(shortest)})"
    )


def _seconds_interval(shortest: Shortest) -> str:
    low, high = shortest.second_ratio.low, shortest.second_ratio.high
    if not math.isfinite(low):
        return "interval unknown"
    # Some draws of seeds may never get there.
    return f"{100 * CONFIDENCE:g} % interval {share(low)} {f'to {share(high)}' if math.isfinite(high) else 'upwards'}"


def _lost(comparison: Comparison) -> str:
    if comparison.clock is Clock.UNKNOWN or comparison.shortest is None:
        ratio = share(comparison.pairs.pace)
        return f", but takes {ratio} of its seconds for the same tokens, and whether a shorter run keeps it is unknown"
    return f", but seconds lose it: it {_reaches(comparison.shortest)}"
