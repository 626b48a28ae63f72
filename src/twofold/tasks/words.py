"""Words as a model sees them that must cope with new ones: the word itself, and what its spelling gives away.

A position is a word. Its vector is the sum of the word's own and of those of its cues: how it begins, how it ends, and
its shape. A word that nobody has seen still has most of them.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from twofold.data.vocabulary import listed_tokenizer

# Words and cues that occur once are not learned: those are what the unknown word stands for.
LEAST = 2
# Shares of what a training batch does not show: words with all cues but their shape, words alone, single cues.
HIDDEN_WHOLLY, HIDDEN_WORDS, HIDDEN_CUES = 0.15, 0.15, 0.1
SPELLING = 8

# Stands for whatever belongs to the character before it: accents, vowel signs, joiners, an emoji's variants.
MARK = "\u0301"
LETTERS = rf"\w[\w{MARK}]*"
CHUNK = re.compile(rf"(?:https?://|www\.)\S+|[@#]{LETTERS}|\d+(?:[.,:]\d+)+|{LETTERS}(?:['’-]{LETTERS})*|[^\w\s]+")
SIGN = re.compile(rf"[^\w\s]{MARK}*")
TAIL = re.compile(r"(?:n['’]t|['’]\w+)$", re.IGNORECASE)
# Scripts that put no spaces between words: Thai to Burmese, Khmer, Chinese and Japanese.
WITHOUT_SPACES = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
UNSPACED = re.compile(f"[{WITHOUT_SPACES}]")
SHORT = re.compile(rf"[{WITHOUT_SPACES}]{MARK}*|[^\W{WITHOUT_SPACES}](?:{MARK}|[^\W{WITHOUT_SPACES}])*|[^\w\s]{MARK}*")
LONGEST_UNSPACED = 8


class Place(NamedTuple):
    """Where a word stands in a text, by characters."""

    start: int
    end: int


def cues_of(word: str) -> tuple[str, ...]:
    """What the spelling gives away, SPELLING cues for every word."""
    low = word.lower()
    begins = (f"begin:{low[:length]}" for length in (2, 3, 4))
    ends = (f"end:{low[-length:]}" for length in (1, 2, 3, 4))
    return (f"shape:{_shape(word)}", *begins, *ends)


def _shape(word: str) -> str:
    """Xxxx, 99:99, x-X: kinds of characters, of which no more than two in a row are told."""
    kinds = (
        "X" if sign.isupper() else "x" if sign.isalpha() else "9" if sign.isdigit() else sign for sign in word[:16]
    )
    return re.sub(r"(.)\1{2,}", r"\1\1", "".join(kinds))


def learned_tokenizer(
    words: Iterable[str], marks: Iterable[str] = (), extra: tuple[str, ...] = ()
) -> PreTrainedTokenizerFast:
    """A vocabulary of the words and cues that occur, and of `marks`, which a task gives out itself."""
    counts: Counter[str] = Counter()
    for word, times in Counter(words).items():
        for token in (f"word:{word.lower()}", *cues_of(word)):
            counts[token] += times
    return listed_tokenizer([*(token for token, count in counts.items() if count >= LEAST), *marks], extra)


def encoded(
    tokenizer: PreTrainedTokenizerBase, words: Iterable[str], vocabulary: dict[str, int]
) -> tuple[list[int], list[list[int]]]:
    """Ids of words, and of their cues; a cue that is not known is padding, which adds nothing."""
    words = list(words)
    # Asked once: a tokenizer looks its special tokens up every time.
    unknown, pad = tokenizer.unk_token_id, tokenizer.pad_token_id
    ids = [vocabulary.get(f"word:{word.lower()}", unknown) for word in words]
    return ids, [[vocabulary.get(cue, pad) for cue in cues_of(word)] for word in words]


def hidden(batch: dict[str, Tensor], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tensor]:
    """The batch with some words as if nobody had ever seen them, drawn anew every time: wholly, or less so."""
    ids, cues = batch["input_ids"], batch["cue_ids"]
    draw, special = torch.rand(ids.shape), torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    unknown = (draw < HIDDEN_WHOLLY + HIDDEN_WORDS) & ~special
    left_out = torch.rand(cues.shape) < HIDDEN_CUES
    # The first cue is the shape, which the newest word has; after the spelling comes what a task knows by itself.
    left_out[..., 1:SPELLING] |= (draw < HIDDEN_WHOLLY)[..., None]
    return {
        **batch,
        "input_ids": ids.masked_fill(unknown, tokenizer.unk_token_id),
        "cue_ids": cues.masked_fill(left_out, tokenizer.pad_token_id),
    }


def short_words(text: str) -> list[Place]:
    """Words and signs of a text, cut at every sign; where a script has no spaces, characters."""
    return [Place(*found.span()) for found in SHORT.finditer(_marked(text))]


def split_words(text: str, known: frozenset[str]) -> list[Place]:
    """Words of a raw text, cut as those were that are known (in lower case).

    "don't" is one word unless "n't" is known, "well-known" is one unless "-" is, "@anna" unless nobody is called so.
    """
    marked = _marked(text)
    glued = _glued(known)
    places = []
    for chunk in CHUNK.finditer(marked):
        found = _cut(_lower(text[slice(*chunk.span())]), marked[slice(*chunk.span())], known, glued)
        places += [Place(chunk.start() + start, chunk.start() + end) for start, end in found]
    return places


@lru_cache(8)
def _glued(known: frozenset[str]) -> frozenset[str]:
    """Signs that begin known words."""
    return frozenset(sign for sign in "@#" if any(word[0] == sign and len(word) > 1 for word in known))


def _cut(low: str, marked: str, known: Set[str], glued: Set[str]) -> Iterator[tuple[int, int]]:
    """Pieces of one chunk."""
    size = len(marked)
    if low in known or "://" in low or low.startswith("www.") or low[0] in glued:
        yield 0, size
    elif UNSPACED.search(low):
        yield from _longest_known(low, known)
    elif low[0] in "@#" or not (low[0].isalnum() or low[0] == "_"):
        yield from (found.span() for found in (SHORT if low[0] in "@#" else SIGN).finditer(marked))
    elif (tail := TAIL.search(low)) and tail.start() and tail.group().replace("’", "'") in known:
        yield 0, tail.start()
        yield tail.start(), size
    elif "-" in low and "-" in known:
        yield from (found.span() for found in re.finditer("-|[^-]+", marked))
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


def _marked(text: str) -> str:
    """The text with every mark as MARK, so that a pattern can tell them; as long as it was."""
    return text if text.isascii() else "".join(MARK if _is_mark(sign) else sign for sign in text)


def _lower(text: str) -> str:
    """In lower case, and as long as it was: İ alone becomes two characters and stays."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(one if len(one.lower()) > 1 else one.lower() for one in text)


def _is_mark(sign: str) -> bool:
    return unicodedata.category(sign) in ("Mn", "Mc", "Me", "Cf")
