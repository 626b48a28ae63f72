"""Runs of two arms with the same seed, and the gap between them as training goes on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twofold.lab.records import Record
from twofold.lab.statistics import Estimate, t_interval

# How far looks of other seeds may lie apart, by their tokens.
ABOUT = 0.02


@dataclass(frozen=True, slots=True)
class Pairs:
    """Final runs of an arm and its rival at one budget, by seed."""

    arm: str
    against: str
    budget: int
    runs: tuple[tuple[Record, Record], ...]
    """Those that both have and that ended in a number; the arm's first."""
    alone: tuple[int, ...]
    """Seeds that only one of them has."""
    diverged: tuple[tuple[str, int], ...]
    """Arms and seeds that ended in no number."""

    @property
    def name(self) -> str:
        """As the report calls them."""
        return f"{self.arm} − {self.against}"

    @property
    def differences(self) -> list[float]:
        """The arm's value minus its rival's."""
        return [
            ours.value - theirs.value
            for ours, theirs in self.runs
            if ours.value is not None and theirs.value is not None
        ]

    @property
    def pace(self) -> float:
        """Seconds of the arm over those of its rival for the same tokens; NaN without pairs.

        The middle one of the pairs: a run that was held up, or the last of several at once, which has the machine to
        itself, says nothing of its arm.
        """
        return float(np.median([ours.seconds / theirs.seconds for ours, theirs in self.runs] or [np.nan]))


@dataclass(frozen=True, slots=True)
class Spot:
    """The mean of something over runs or pairs, at a place: after so many tokens, say."""

    at: float
    value: Estimate


def end_runs(records: Sequence[Record], arm: str, budget: int) -> dict[int, Record]:
    """An arm's final runs at a budget, by seed."""
    found: dict[int, Record] = {}
    for record in records:
        if (record.phase, record.arm, record.budget) != ("final", arm, budget):
            continue
        if record.seed in found:
            rates = f"{found[record.seed].lr:g} and {record.lr:g}"
            raise ValueError(f"{arm} seed {record.seed} has two final runs at {budget:,} tokens, with lr {rates}")
        found[record.seed] = record
    return found


def paired(records: Sequence[Record], arm: str, against: str, budget: int) -> Pairs:
    """The final runs of two arms, put together by seed."""
    ours, theirs = end_runs(records, arm, budget), end_runs(records, against, budget)
    seeds = sorted(ours.keys() & theirs.keys())
    lost = [(one.arm, one.seed) for runs in (ours, theirs) for one in runs.values() if one.value is None]
    whole = [seed for seed in seeds if ours[seed].value is not None and theirs[seed].value is not None]
    return Pairs(
        arm,
        against,
        budget,
        tuple((ours[seed], theirs[seed]) for seed in whole),
        tuple(sorted(ours.keys() ^ theirs.keys())),
        tuple(lost),
    )


def gap_curve(pairs: Pairs) -> list[Spot]:
    """The difference after each count of tokens that all pairs reached, read off straight lines between looks."""
    return _over_tokens(pairs.runs)


def mean_curve(runs: Sequence[Record]) -> list[Spot]:
    """The value of one arm over seeds, in the same way."""
    return _over_tokens([(run, None) for run in runs])


def seconds_at(runs: Sequence[Record], tokens: Sequence[float]) -> list[float]:
    """When runs had seen so many tokens: the middle one of their times, for the reason that `Pairs.pace` has."""
    return np.median([_read_off(run, tokens, 1) for run in runs], axis=0).tolist() if runs and tokens else []


def _over_tokens(pairs: Sequence[tuple[Record, Record | None]]) -> list[Spot]:
    curves = [run.curve for pair in pairs for run in pair if run is not None]
    if not curves or not all(curves):
        return []
    # Runs of a pair look after the same tokens, those of other seeds after about as many: batches differ.
    first = max(curve[0].tokens for curve in curves) * (1 - ABOUT)
    last = min(curve[-1].tokens for curve in curves) * (1 + ABOUT)
    # Where they do not, the fewest looks decide.
    tokens = [point.tokens for point in min(curves, key=len) if first <= point.tokens <= last]
    values = np.array(
        [
            _read_off(ours, tokens, 2) - (_read_off(theirs, tokens, 2) if theirs is not None else 0.0)
            for ours, theirs in pairs
        ]
    )
    return [Spot(place, t_interval(column)) for place, column in zip(tokens, values.T, strict=True)]


def _read_off(run: Record, tokens: Sequence[float], column: int) -> np.ndarray:
    curve = np.array(run.curve, dtype=float)
    return np.interp(tokens, curve[:, 0], curve[:, column])


def budgets_of(records: Sequence[Record], arm: str) -> list[int]:
    """Those an arm has final runs at, rising."""
    return sorted({record.budget for record in records if record.phase == "final" and record.arm == arm})


def by_budget(records: Sequence[Record], arm: str, against: str) -> Mapping[int, Pairs]:
    """Both arms at the ends of their own schedules, for every budget that both have."""
    common = set(budgets_of(records, arm)) & set(budgets_of(records, against))
    return {budget: paired(records, arm, against, budget) for budget in sorted(common)}
