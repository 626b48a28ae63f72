"""How texts are cut into words, and what a word's spelling says. A version of these rules stands in every run.json.

A word's vector is the sum of its own and of those of its spelling features: how it begins, how it ends, and its shape.
So a word that training never showed still says something.
"""

import re
import unicodedata
from collections.abc import Iterator, Set
from functools import lru_cache
from typing import NamedTuple

# Rises whenever a text would be cut otherwise, or a word would have other features.
WORD_RULES = 1
# Spelling features of a word.
SPELLING = 8
# Longest word that is looked for in a script without spaces.
LONGEST_UNSPACED = 8

# Stands for any character that belongs to the one before it: accents, vowel signs, joiners, variants of an emoji.
MARK = "\u0301"
LETTERS = rf"\w[\w{MARK}]*"
CHUNK = re.compile(rf"(?:https?://|www\.)\S+|[@#]{LETTERS}|\d+(?:[.,:]\d+)+|{LETTERS}(?:['’-]{LETTERS})*|[^\w\s]+")
SIGN = re.compile(rf"[^\w\s]{MARK}*")
TAIL = re.compile(r"(?:n['’]t|['’]\w+)$", re.IGNORECASE)
# Scripts that put no spaces between words: Thai to Burmese, Khmer, Chinese and Japanese.
WITHOUT_SPACES = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
UNSPACED = re.compile(f"[{WITHOUT_SPACES}]")
FINE = re.compile(rf"[{WITHOUT_SPACES}]{MARK}*|[^\W{WITHOUT_SPACES}](?:{MARK}|[^\W{WITHOUT_SPACES}])*|[^\w\s]{MARK}*")


class Place(NamedTuple):
    """Where a word stands in a text, by characters."""

    start: int
    end: int


def spelling_features(word: str) -> tuple[str, ...]:
    """SPELLING features: the shape, the first 2 to 4 letters, the last 1 to 4."""
    low = word.lower()
    begins = (f"begin:{low[:length]}" for length in (2, 3, 4))
    ends = (f"end:{low[-length:]}" for length in (1, 2, 3, 4))
    return (f"shape:{_shape(word)}", *begins, *ends)


def _shape(word: str) -> str:
    """Kinds of characters, as Xxx, 99:99 or x-X; of a run of one kind at most two."""
    kinds = (
        "X" if sign.isupper() else "x" if sign.isalpha() else "9" if sign.isdigit() else sign for sign in word[:16]
    )
    return re.sub(r"(.)\1{2,}", r"\1\1", "".join(kinds))


def fine_words(text: str) -> list[Place]:
    """Places of words and signs, cut at every sign; in a script without spaces, places of characters."""
    return [Place(*match.span()) for match in FINE.finditer(_with_marks(text))]


def words_as_known(text: str, known: frozenset[str]) -> list[Place]:
    """Places of words, cut as the known words (in lower case) were.

    "don't" is one word unless "n't" is known, "well-known" is one unless "-" is, "@anna" is two unless some known word
    begins with "@".
    """
    marked = _with_marks(text)
    prefixes = _sign_prefixes(known)
    places = []
    for chunk in CHUNK.finditer(marked):
        low = _lower(text[slice(*chunk.span())])
        pieces = _pieces_of_chunk(low, marked[slice(*chunk.span())], known, prefixes)
        places += [Place(chunk.start() + start, chunk.start() + end) for start, end in pieces]
    return places


@lru_cache(8)
def _sign_prefixes(known: frozenset[str]) -> frozenset[str]:
    """Signs that begin longer known words."""
    return frozenset(sign for sign in "@#" if any(word[0] == sign and len(word) > 1 for word in known))


def _pieces_of_chunk(low: str, marked: str, known: Set[str], prefixes: Set[str]) -> Iterator[tuple[int, int]]:
    """Words of one stretch of text without spaces."""
    size = len(marked)
    if low in known or "://" in low or low.startswith("www.") or low[0] in prefixes:
        yield 0, size
    elif UNSPACED.search(low):
        yield from _longest_known(low, known)
    elif low[0] in "@#" or not (low[0].isalnum() or low[0] == "_"):
        yield from (match.span() for match in (FINE if low[0] in "@#" else SIGN).finditer(marked))
    elif (tail := TAIL.search(low)) and tail.start() and tail.group().replace("’", "'") in known:
        yield 0, tail.start()
        yield tail.start(), size
    elif "-" in low and "-" in known:
        yield from (match.span() for match in re.finditer("-|[^-]+", marked))
    else:
        yield 0, size


def _longest_known(low: str, known: Set[str]) -> Iterator[tuple[int, int]]:
    """Known words one after the other, the longest first; where none is known, a character with its marks."""
    start = 0
    while start < len(low):
        ends = range(min(start + LONGEST_UNSPACED, len(low)), start, -1)
        end = next((end for end in ends if low[start:end] in known), start + 1)
        while end < len(low) and _is_mark(low[end]):
            end += 1
        yield start, end
        start = end


def _with_marks(text: str) -> str:
    """The text with MARK for every mark, so that a pattern can tell them; its length stays."""
    return text if text.isascii() else "".join(MARK if _is_mark(sign) else sign for sign in text)


def _lower(text: str) -> str:
    """In lower case at the same length: İ alone would become two characters, and stays."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(one if len(one.lower()) > 1 else one.lower() for one in text)


def _is_mark(sign: str) -> bool:
    return unicodedata.category(sign) in ("Mn", "Mc", "Me", "Cf")
