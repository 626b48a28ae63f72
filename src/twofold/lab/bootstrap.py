"""Two models' scores on the same examples: how far apart they are, and whether chance among examples would do that.

What is drawn again and again is examples, each with what both models made of it. So this speaks of other examples of
the same kind, and not of other trainings. Knows scores by their tallies, and nothing of models.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twofold.lab.statistics import Estimate, mcnemar_p, smallest_p
from twofold.tasks.tallies import Tally

CONFIDENCE = 0.95
LEAST_RESAMPLES, MOST_RESAMPLES = 100, 1_000_000
# Of fewer that are drawn from, resamples are too much alike to tell.
LEAST_DRAWN = 10
# Examples that are drawn at once.
AT_ONCE = 2_000_000
BOOTSTRAP, MCNEMAR = "bootstrap", "McNemar"


@dataclass(frozen=True, slots=True)
class Sacrebleu:
    """What sacreBLEU's own paired bootstrap says."""

    p: float
    signature: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A score of two models, ours and theirs, on the same examples."""

    ours: float
    theirs: float
    difference: Estimate
    """Ours minus theirs, with the bootstrap's interval."""
    p: float
    """Two-sided."""
    test: str
    """What p is of: the paired bootstrap, or McNemar's exact test."""
    alone: tuple[int, int] | None = None
    """Examples that only we, and that only they had right, where an example is either right or wrong."""
    sacrebleu: Sacrebleu | None = None

    @property
    def is_found(self) -> bool:
        """Whether test and interval agree that there is a difference, of examples enough to tell."""
        return not self.is_too_few and self.p < 1 - CONFIDENCE and self.difference.excludes(0.0)

    @property
    def is_too_few(self) -> bool:
        """Whether no difference could be found of so few examples."""
        return self.difference.count < LEAST_DRAWN


def comparable(ours: Mapping[str, Tally], theirs: Mapping[str, Tally]) -> tuple[list[str], list[str]]:
    """Names of the scores that both have and that mean the same, and of those that one lacks or means otherwise.

    Only of scores that are made of sums: of others no examples can be drawn.
    """
    names = [name for name, tally in {**ours, **theirs}.items() if tally.of_sums is not None]
    alike = [name for name in names if name in ours and name in theirs and ours[name].per == theirs[name].per]
    return alike, [name for name in names if name not in alike]


def check_resampling(resamples: int, seed: int) -> None:
    if not LEAST_RESAMPLES <= resamples <= MOST_RESAMPLES:
        raise ValueError(f"resamples must be from {LEAST_RESAMPLES} to {MOST_RESAMPLES:,}, got {resamples}")
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed}")


def compared(ours: Tally, theirs: Tally, *, resamples: int = 10_000, seed: int = 0) -> Difference:
    """How far ours is from theirs; the same for the same seed.

    p is McNemar's where an example is either right or wrong. Else it is the bootstrap's: twice the share of resamples
    on the rarer side of zero, so that it is below 0.05 where the interval, between percentiles, leaves out zero. Of few
    examples it is never below the least that an exact sign flip of so many could give.
    """
    if ours.rows.shape != theirs.rows.shape or not len(ours.rows):
        raise ValueError(f"theirs must have what ours has, {_shape(ours)}, got {_shape(theirs)}")
    if ours.per != theirs.per:
        raise ValueError(f"ours and theirs must mean the same, got a score per {ours.per} and one per {theirs.per}")
    check_resampling(resamples, seed)
    difference, p = _bootstrap(ours, theirs, resamples, seed)
    test, alone = BOOTSTRAP, None
    if ours.is_right:
        right = [one.rows[ours.rows[:, 1] > 0, 0] > 0 for one in (ours, theirs)]
        test, p = MCNEMAR, mcnemar_p(*right)
        alone = int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())
    return Difference(
        ours=ours.score,
        theirs=theirs.score,
        difference=difference,
        p=p,
        test=test,
        alone=alone,
        sacrebleu=_sacrebleu(ours, theirs),
    )


def _bootstrap(ours: Tally, theirs: Tally, resamples: int, seed: int) -> tuple[Estimate, float]:
    count = len(ours.rows)
    found = ours.score - theirs.score
    if count == 1:
        return Estimate(found, -math.inf, math.inf, 1), 1.0
    made = np.concatenate([*_drawn_differences(ours, theirs, resamples, seed)])
    low, high = np.quantile(made, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    # What is zero but for rounding counts for both sides, as zero does.
    slack = 1e-12 * (abs(ours.score) + abs(theirs.score))
    rarer = int(min((made <= slack).sum(), (made >= -slack).sum()))
    p = min(1.0, 2 * (1 + rarer) / (1 + resamples))
    return Estimate(found, float(low), float(high), count), max(p, smallest_p(count))


def _drawn_differences(ours: Tally, theirs: Tally, resamples: int, seed: int) -> Iterator[np.ndarray]:
    if ours.of_sums is None or theirs.of_sums is None:
        raise ValueError("ours and theirs must be tallies of sums, of which examples can be drawn again")
    count, rng = len(ours.rows), np.random.default_rng(seed)
    at_once = max(1, AT_ONCE // count)
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        places = rng.integers(count, size=(size, count)) + count * np.arange(size)[:, None]
        # How often each example was drawn: sums over what was drawn are then a product of matrices.
        often = np.bincount(places.ravel(), minlength=size * count).reshape(size, count).astype(float)
        yield ours.of_sums(often @ ours.rows) - theirs.of_sums(often @ theirs.rows)


def _sacrebleu(ours: Tally, theirs: Tally) -> Sacrebleu | None:
    """With sacreBLEU's own number of resamples and seed, as others have it; its signature names both."""
    # Of equal scores its test may find a difference: it counts how often chance is further apart, and of equal texts
    # that is never.
    if ours.texts is None or theirs.texts is None or ours.score == theirs.score:
        return None
    from sacrebleu.significance import PairedTest

    systems = [("theirs", theirs.texts.written), ("ours", ours.texts.written)]
    test = PairedTest(systems, {"score": ours.texts.metric}, [ours.texts.truth], test_type="bs")
    signatures, scores = test()
    [(name, signature)] = signatures.items()
    # Any: its hints allow for a system's name in every column.
    told: Any = scores[name][1]
    return Sacrebleu(float(told.p_value), f"{name}|{signature}")


def _shape(tally: Tally) -> str:
    examples, columns = tally.rows.shape
    return f"{examples} examples of {columns} numbers"
