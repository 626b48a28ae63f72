"""What every example adds to a score, so that the score can be taken of any examples drawn from these, with repetition.

Most scores are made of sums over examples: of right answers, of tokens and what they cost, of shared n-grams. A tally
keeps what is summed, a row an example, and how the score comes of the sums. Knows no model, and needs no torch.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

Numbers = Sequence[float] | np.ndarray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tally:
    """Of one score and one model. Tallies of two models are compared row by row."""

    rows: np.ndarray
    """(examples, columns)."""
    of_sums: Callable[[np.ndarray], np.ndarray]
    """Sums (..., columns) to scores (...)."""
    per: str = "example"
    """What the score is a mean over: scores per token of two tokenizations do not mean the same."""
    is_right: bool = False
    """Whether an example is either right or wrong. Then the columns are whether it is right, and whether it counts."""
    texts: "Texts | None" = None
    """Of a score that is sacreBLEU's."""

    @property
    def score(self) -> float:
        return float(self.of_sums(self.rows.sum(0)))


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """What one of sacreBLEU's metrics scored, for its own tests."""

    metric: Any
    written: Sequence[str]
    truth: Sequence[str]


def share(parts: Numbers, wholes: Numbers | None = None, *, scale: float = 100, per: str = "example") -> Tally:
    """The sum of the parts in that of the wholes; without wholes the mean. 0 where there is no whole at all."""
    columns = [np.asarray(parts, float), np.ones(len(parts)) if wholes is None else np.asarray(wholes, float)]
    return Tally(rows=np.stack(columns, 1), of_sums=lambda sums: scale * _ratio(sums), per=per)


def verdicts(right: Sequence[bool], counts: Sequence[bool] | None = None) -> Tally:
    """The share of right answers in per cent, among the examples that count."""
    counted = np.ones(len(right), bool) if counts is None else np.asarray(counts, bool)
    return replace(share(np.asarray(right, bool) & counted, counted), is_right=True)


def perplexity(nats: Numbers, tokens: Numbers, per: str) -> Tally:
    return replace(share(nats, tokens, per=per), of_sums=lambda sums: np.exp(np.minimum(_ratio(sums), 700.0)))


def named_spans(truth: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> dict[str, Tally]:
    """f1, precision and recall, in per cent, of the spans that seqeval sees in BIO tags."""
    from seqeval.metrics.sequence_labeling import get_entities

    rows = []
    for tags in zip(truth, found, strict=True):
        true, told = (set(get_entities(list(one))) for one in tags)
        rows.append((len(true & told), len(told), len(true)))
    right, told, true = np.array(rows, float).T
    return {"f1": share(2 * right, told + true), "precision": share(right, told), "recall": share(right, true)}


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


def digest(told: Any) -> str:
    """A short name for what is told, the same only for the same."""
    return sha256(json.dumps(told, ensure_ascii=True).encode()).hexdigest()[:12]


def _ratio(sums: np.ndarray) -> np.ndarray:
    parts, wholes = sums[..., 0], sums[..., 1]
    return np.divide(parts, wholes, out=np.zeros_like(parts), where=wholes != 0)
