"""The scores of predictions, each defined once: what every example adds, and how the score follows from that.

Most scores are made of sums over examples: of right answers, of tokens and their losses, of shared n-grams. Of such a
score any examples can be drawn again and again, which is how two models are compared. Knows no model, needs no torch.
"""

import json
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

Numbers = Sequence[float] | np.ndarray
# Bins of confidence for the calibration error.
BINS = 15


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tally:
    """One score of one model, from what each example adds. Tallies of two models are compared row by row."""

    rows: np.ndarray
    """(examples, columns)."""
    of_sums: Callable[[np.ndarray], np.ndarray] | None = None
    """Sums (..., columns) to scores (...), where the score is made of sums."""
    of_rows: Callable[[np.ndarray], float] | None = None
    """All rows to the score, where it is not."""
    per: str = "example"
    """What the score is a mean over: scores per token of two tokenizations do not mean the same."""
    is_right: bool = False
    """Whether an example is either right or wrong. Then the columns are whether it is right, and whether it counts."""
    texts: "Texts | None" = None
    """Of a score that is sacreBLEU's."""

    @property
    def score(self) -> float:
        """The score of all examples."""
        if self.of_sums is not None:
            return float(self.of_sums(self.rows.sum(0)))
        if self.of_rows is not None:
            return float(self.of_rows(self.rows))
        raise ValueError("a tally must have of_sums or of_rows, got neither")


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """What one of sacreBLEU's metrics scored, for its own tests."""

    metric: Any
    written: Sequence[str]
    truth: Sequence[str]


def scores_of(tallies: Mapping[str, Tally]) -> dict[str, float]:
    """The score of every tally."""
    return {name: tally.score for name, tally in tallies.items()}


def share(parts: Numbers, wholes: Numbers | None = None, *, scale: float = 100, per: str = "example") -> Tally:
    """The sum of the parts in that of the wholes; without wholes the mean. 0 where there is no whole at all."""
    columns = [np.asarray(parts, float), np.ones(len(parts)) if wholes is None else np.asarray(wholes, float)]
    return Tally(rows=np.stack(columns, 1), of_sums=lambda sums: scale * _ratio(sums), per=per)


def verdicts(right: Sequence[bool], counts: Sequence[bool] | None = None) -> Tally:
    """The share of right answers in per cent, among the examples that count."""
    counted = np.ones(len(right), bool) if counts is None else np.asarray(counts, bool)
    return replace(share(np.asarray(right, bool) & counted, counted), is_right=True)


def perplexity(nats: Numbers, tokens: Numbers, per: str) -> Tally:
    """The exponential of the nats of a token."""
    return replace(share(nats, tokens, per=per), of_sums=lambda sums: np.exp(np.minimum(_ratio(sums), 700.0)))


def span_scores(truth: Sequence[Collection[Hashable]], predicted: Sequence[Collection[Hashable]]) -> dict[str, Tally]:
    """f1, precision and recall in per cent of every example's named spans: a span is right as a whole."""
    rows = [
        (len(set(gold) & set(guess)), len(set(guess)), len(set(gold)))
        for gold, guess in zip(truth, predicted, strict=True)
    ]
    right, guess, gold = np.array(rows, float).reshape(-1, 3).T
    return {"f1": share(2 * right, guess + gold), "precision": share(right, guess), "recall": share(right, gold)}


def macro_f1(truth: Sequence[str], predicted: Sequence[str]) -> Tally:
    """The mean F1, in per cent, over all labels that occur."""
    places = {label: place for place, label in enumerate(dict.fromkeys([*truth, *predicted]))}

    def mean_f1(rows: np.ndarray) -> float:
        gold, guess = rows.T
        size = len(places)
        right = np.bincount(gold[gold == guess], minlength=size)
        both = np.bincount(gold, minlength=size) + np.bincount(guess, minlength=size)
        return 100 * float((2 * right[both > 0] / both[both > 0]).mean())

    rows = [(places[gold], places[guess]) for gold, guess in zip(truth, predicted, strict=True)]
    return Tally(rows=np.array(rows, np.int64), of_rows=mean_f1)


class Bin(NamedTuple):
    """A bin of confidences: how many predictions, their mean confidence, and the share that was right."""

    count: int
    confidence: float
    accuracy: float


def reliability(confidence: Numbers, right: Sequence[bool] | np.ndarray) -> list[Bin]:
    """Confidence beside accuracy, in bins of equal width; 0 where a bin is empty."""
    confidences = np.asarray(confidence, float)
    bins = np.minimum((confidences * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    sums = (np.bincount(bins, weights, minlength=BINS) for weights in (confidences, np.asarray(right, float)))
    means = [total / np.maximum(counts, 1) for total in sums]
    return [Bin(int(count), float(sure), float(hit)) for count, sure, hit in zip(counts, *means, strict=True)]


def calibration_error(confidence: Numbers, right: Sequence[bool]) -> Tally:
    """The expected calibration error: the mean distance between confidence and accuracy, over bins of equal width."""

    def error(rows: np.ndarray) -> float:
        bins = reliability(*rows.T)
        return sum(one.count * abs(one.confidence - one.accuracy) for one in bins) / len(rows)

    return Tally(rows=np.stack([np.asarray(confidence, float), np.asarray(right, float)], 1), of_rows=error)


def auroc(scores: Numbers, positive: Sequence[bool]) -> Tally:
    """The probability that a positive example has the higher score than a negative one; equal scores count half."""

    def area(rows: np.ndarray) -> float:
        values, is_positive = rows[:, 0], rows[:, 1] > 0
        _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
        positives = int(is_positive.sum())
        above = ranks[is_positive].sum() - positives * (positives + 1) / 2
        return float(above / (positives * (len(rows) - positives)))

    return Tally(rows=np.stack([np.asarray(scores, float), np.asarray(positive, float)], 1), of_rows=area)


def corpus(metric: Any, written: Sequence[str], truth: Sequence[str]) -> Tally:
    """BLEU or chrF of a whole corpus, by sacreBLEU's metric."""
    # Protected, but what its own resampling is made of; nothing public has the counts of chrF.
    rows = np.array(metric._extract_corpus_statistics(written, [truth]), float)

    def of_sums(sums: np.ndarray) -> np.ndarray:
        flat = sums.reshape(-1, sums.shape[-1])
        return np.array([metric._compute_score_from_stats(one).score for one in flat]).reshape(sums.shape[:-1])

    texts = Texts(metric, written, truth)
    return Tally(rows=rows, of_sums=of_sums, per=str(metric.get_signature()), texts=texts)


def signature(metric: Any) -> str:
    """How sacreBLEU's metric counts, without which its scores cannot be compared."""
    # It names the number of references, known only once there were some.
    metric.corpus_score(["a"], [["a"]])
    return str(metric.get_signature())


def digest(content: Any) -> str:
    """A short name for JSON content, the same only for the same."""
    return sha256(json.dumps(content, ensure_ascii=True).encode()).hexdigest()[:12]


def _ratio(sums: np.ndarray) -> np.ndarray:
    parts, wholes = sums[..., 0], sums[..., 1]
    return np.divide(parts, wholes, out=np.zeros_like(parts), where=wholes != 0)
