"""What every text of a split adds to a score, and how sure a difference is over other seeds and other texts alike.

A language model's loss is a sum over texts divided by a sum over texts. Runs keep what each text adds to both, so that
texts can be treated as what they are: a sample, as the seeds are. An interval over seeds alone speaks of other
trainings scored on the same texts; it may be far too narrow for other texts, the more so where a few large ones decide.

The variance is that of two crossed factors (two-way clustering: Cameron, Gelbach and Miller 2011): that of the seeds'
differences, plus that of the texts' shares in the mean difference, minus what both count, the interaction. It is never
less than either. The interval is Student's, with Satterthwaite's degrees of freedom for the two.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from twofold.lab.statistics import Estimate
from twofold.tasks.tallies import Tally

# Digits that are kept of what a text adds: more than seeds agree in by far.
DIGITS = 7


class TextSums(NamedTuple):
    """A score that is `scale` times the sum of `parts` over that of `wholes`, one of each a text."""

    scale: float
    parts: tuple[float, ...]
    wholes: tuple[float, ...] = ()
    """Empty where every text counts 1."""

    @property
    def whole(self) -> float:
        return sum(self.wholes) if self.wholes else len(self.parts)

    @property
    def score(self) -> float:
        return self.scale * sum(self.parts) / self.whole


class Variance(NamedTuple):
    """Of a mean difference over seeds and texts."""

    seeds: float
    texts: float
    both: float
    """What `seeds` and `texts` both count."""
    freedom: float

    @property
    def total(self) -> float:
        return max(self.seeds + self.texts - self.both, self.seeds, self.texts)


def text_sums(tally: Tally) -> TextSums | None:
    """The sums of a tally; None where its score is not one sum over another."""
    if tally.rows.ndim != 2 or tally.rows.shape[1] != 2 or tally.of_sums is None or not tally.rows[:, 1].sum() > 0:
        return None
    probes = np.array([[1.0, 1.0], [3.0, 1.0], [1.0, 4.0]])
    scale, three, quarter = (float(score) for score in tally.of_sums(probes))
    if not (math.isclose(three, 3 * scale) and math.isclose(quarter, scale / 4)):
        return None
    parts, wholes = (tuple(map(_short, column)) for column in tally.rows.T)
    return TextSums(scale, parts, () if set(wholes) == {1} else wholes)


def same_texts(pairs: Sequence[tuple[TextSums, TextSums]]) -> bool:
    """Whether all runs were scored on as many texts, of which there must be two at least."""
    counts = {len(sums.parts) for pair in pairs for sums in pair}
    return len(counts) == 1 and min(counts) > 1


def variance(pairs: Sequence[tuple[TextSums, TextSums]]) -> Variance:
    """Of the mean over seeds of the first's score minus the second's. At least two pairs, of the same texts."""
    differences = np.array([ours.score - theirs.score for ours, theirs in pairs])
    shares = np.array([_shares(ours) - _shares(theirs) for ours, theirs in pairs])  # (seeds, texts)
    seeds, texts = shares.shape
    by_seeds = float(differences.var(ddof=1)) / seeds
    mean = shares.mean(0)
    # Shares of all texts add up to 0, so that one of them is not free.
    correction = texts / (texts - 1)
    by_texts = correction * float(mean @ mean)
    both = correction * float(((shares - mean) ** 2).sum()) / (seeds * (seeds - 1))
    spread = by_seeds**2 / (seeds - 1) + by_texts**2 / (texts - 1)
    freedom = (by_seeds + by_texts) ** 2 / spread if spread > 0 else float(seeds - 1)
    return Variance(by_seeds, by_texts, both, freedom)


def over_seeds_and_texts(pairs: Sequence[tuple[TextSums, TextSums]], confidence: float) -> Estimate:
    """The mean difference with its interval; `count` is how many seeds."""
    mean = sum(ours.score - theirs.score for ours, theirs in pairs) / len(pairs)
    if len(pairs) == 1 or not same_texts(pairs):
        return Estimate(mean, -math.inf, math.inf, len(pairs))
    found = variance(pairs)
    reach = float(stats.t.ppf((1 + confidence) / 2, found.freedom)) * math.sqrt(found.total)
    return Estimate(mean, mean - reach, mean + reach, len(pairs))


def _shares(sums: TextSums) -> np.ndarray:
    """By how much each text moves the score off what it would be if all texts were like the whole (to first order)."""
    parts = np.array(sums.parts, float)
    wholes = np.array(sums.wholes, float) if sums.wholes else np.ones(len(parts))
    return sums.scale * (parts - parts.sum() / wholes.sum() * wholes) / wholes.sum()


def _short(value: float) -> float:
    """As few characters in a file as will do."""
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded
