"""How right an answer is, as SQuAD counts it, and what a bag of words would answer."""

import re
import string
from collections import Counter
from collections.abc import Iterable

from twofold_runtime.words import fine_words

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def plain(text: str) -> list[str]:
    """Words in lower case, without ASCII punctuation and English articles."""
    return ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split()


def exact_match(answer: str, truths: Iterable[str]) -> bool:
    return any(plain(answer) == plain(truth) for truth in truths)


def token_f1(answer: str, truths: Iterable[str]) -> float:
    """Of the words that answer and truth share; the best over the truths."""
    return max(_f1(plain(answer), plain(truth)) for truth in truths)


def _f1(ours: list[str], theirs: list[str]) -> float:
    if not ours or not theirs:
        return float(ours == theirs)
    return 2 * (Counter(ours) & Counter(theirs)).total() / (len(ours) + len(theirs))


def bag_of_words_answer(question: str, context: str) -> str:
    """A baseline that learns nothing: the words between signs and question words that are nearest to the latter.

    Each question word draws by the inverse of its distance and of how often the context has it.
    """
    places = fine_words(context)
    words = [context[start:end].lower() for start, end in places]
    asked = {question[start:end].lower() for start, end in fine_words(question)}
    counts = Counter(words)
    near = [place for place, word in enumerate(words) if word in asked and word[0].isalnum()]
    best, answer = -1.0, ""
    for first, last in _runs(words, asked):
        nearest: dict[str, int] = {}
        for place in near:
            away = max(first - place, place - last)
            nearest[words[place]] = min(away, nearest.get(words[place], away))
        drawn = sum(1 / (away * counts[word]) for word, away in nearest.items())
        if drawn > best:
            best, answer = drawn, context[places[first].start : places[last].end]
    return answer


def _runs(words: list[str], asked: set[str]) -> Iterable[tuple[int, int]]:
    """First and last places of words in a row that are neither signs nor asked for."""
    first = None
    for place, word in enumerate([*words, ""]):
        is_free = bool(word) and word[0].isalnum() and word not in asked
        if is_free and first is None:
            first = place
        elif not is_free and first is not None:
            yield first, place - 1
            first = None
