"""The vocabulary of tasks that read words: the words and spelling features that training showed often enough."""

from collections import Counter
from collections.abc import Iterable

from transformers import PreTrainedTokenizerFast

from twofold.data.vocabulary import listed_tokenizer
from twofold_runtime.words import spelling_features

# Words and features that occur once are not learned: the unknown word stands for those.
LEAST = 2


def word_tokenizer(
    words: Iterable[str], marks: Iterable[str] = (), extra: tuple[str, ...] = ()
) -> PreTrainedTokenizerFast:
    """A vocabulary of the words and features that occur, and of `marks`, which a task gives out itself."""
    counts: Counter[str] = Counter()
    for word, times in Counter(words).items():
        for token in (f"word:{word.lower()}", *spelling_features(word)):
            counts[token] += times
    return listed_tokenizer([*(token for token, count in counts.items() if count >= LEAST), *marks], extra)
