"""Summaries that need no training: what a trained model has to beat."""

import re
from collections.abc import Callable, Sequence
from typing import Any

SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")


def sentences(text: str) -> list[str]:
    return [part.strip() for part in SENTENCE.split(text) if part.strip()]


def lead(text: str, words: int | None = None) -> str:
    """The first sentence, or the first so many words."""
    if words is not None:
        return " ".join(text.split()[:words])
    return next(iter(sentences(text)), "")


def most_telling(train: Sequence[str]) -> Callable[[str], str]:
    """A function from a text to its sentence of the greatest mean TF-IDF weight, counted on the texts of train."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    counted = TfidfVectorizer(norm=None).fit(train)

    def summary(text: str) -> str:
        parts = sentences(text)
        if not parts:
            return ""
        weights: Any = counted.transform(parts)
        means = [row.sum() / max(row.getnnz(), 1) for row in weights]
        return parts[means.index(max(means))]

    return summary
