"""BM25: what counting words finds. The baseline that a search by vectors must beat."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import log

from twofold.data.examples import Document

WORD = re.compile(r"\w+")
# How many are found; how soon a repeated word stops counting, how much long documents are held against themselves.
TOP, K1, B = 10, 1.2, 0.75


def bm25(documents: Sequence[Document], queries: Sequence[str]) -> list[list[tuple[Document, float]]]:
    """The best documents for every query with their scores, best first; those that share no word are left out."""
    counts = [Counter(WORD.findall(document.text.lower())) for document in documents]
    lengths = [sum(words.values()) for words in counts]
    usual = max(1.0, sum(lengths) / max(1, len(documents)))
    places: dict[str, list[tuple[int, float]]] = {}
    for place, words in enumerate(counts):
        room = K1 * (1 - B + B * lengths[place] / usual)
        for word, count in words.items():
            places.setdefault(word, []).append((place, count * (K1 + 1) / (count + room)))
    found = []
    for query in queries:
        scores: defaultdict[int, float] = defaultdict(float)
        for word in WORD.findall(query.lower()):
            having = places.get(word, [])
            rarity = log(1 + (len(documents) - len(having) + 0.5) / (len(having) + 0.5))
            for place, weight in having:
                scores[place] += rarity * weight
        best = sorted(scores, key=lambda place: (-scores[place], place))[:TOP]
        found.append([(documents[place], scores[place]) for place in best])
    return found
