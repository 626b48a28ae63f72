"""Tags of words: the best sequence of tags, spans of BIO tags, and the tasks ner and pos."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from twofold_runtime.codec import Encoded, TextCodec, checked_text
from twofold_runtime.engine import Arrays
from twofold_runtime.predictions import EntitiesPrediction, Entity, Prediction, TaggedWord, WordsPrediction
from twofold_runtime.tokens import WordVocabulary
from twofold_runtime.words import Place, words_as_known

# Words that are read together. A longer sentence is read in pieces.
LONGEST = 512


class Span(NamedTuple):
    """A named piece of a text, by characters."""

    name: str
    start: int
    end: int


def best_path(scores: np.ndarray, transitions: np.ndarray | None) -> list[int]:
    """The sequence of tags with the greatest sum of scores (T, tags) and transitions: the Viterbi algorithm.

    transitions (tags + 1, tags): from a row's tag to a column's, the last row from the start; -inf never happens.
    """
    if transitions is None or not len(scores):
        return [int(tag) for tag in scores.argmax(-1)]
    start, between = transitions[-1], transitions[:-1]
    total, backwards = scores[0] + start, []
    for row in scores[1:]:
        candidates = total[:, None] + between
        before = candidates.argmax(0)
        backwards.append(before)
        total = candidates[before, np.arange(len(before))] + row
    path = [int(total.argmax())]
    for before in reversed(backwards):
        path.append(int(before[path[-1]]))
    return path[::-1]


def spans_of(words: Sequence[tuple[int, int]], tags: Sequence[str]) -> list[Span]:
    """Named pieces of words at these places with BIO tags; a piece that begins with I begins all the same."""
    spans: list[Span] = []
    open_name = None
    for (start, end), tag in zip(words, tags, strict=True):
        name = tag[2:] or None
        if name is not None and name == open_name and tag[0] == "I":
            spans[-1] = Span(name, spans[-1].start, end)
        elif name is not None:
            spans.append(Span(name, start, end))
        open_name = name
    return spans


def may_follow_bio(tag: str, before: str | None) -> bool:
    """Whether a BIO tag may follow another, None being the start: I-x only follows B-x and I-x."""
    return tag[0] != "I" or (before or "O")[2:] == tag[2:]


class TaggingCodec(TextCodec):
    """A tag for every word of a text; tags are chosen together, and one that may not follow another never does."""

    reads_words = True
    reading_shape: ClassVar[Mapping[str, Any]] = {"tags": [str]}
    per_token = frozenset({"logits"})
    tokens: WordVocabulary

    def encode(self, input: str) -> Encoded[str]:
        text = checked_text(input)
        places = words_as_known(text, self.tokens.known)
        return self.encode_words([text[start:end] for start, end in places], text, places)

    def encode_words(self, words: Sequence[str], text: str = "", places: Sequence[Place] = ()) -> Encoded[str]:
        """The same of words that are cut already."""
        pieces = (words[start : start + LONGEST] for start in range(0, len(words), LONGEST))
        return Encoded(text, tuple(map(self.row, pieces)), places)

    def row(self, words: Sequence[str]) -> dict[str, np.ndarray]:
        """What the model reads of words."""
        ids, features = self.tokens.encode(words)
        return {"input_ids": np.array(ids, np.int64), "cue_ids": np.array(features, np.int64)}

    def tags(self, outputs: Sequence[Arrays]) -> list[str]:
        """The best tags of all words, from the outputs for every piece."""
        names = self.reading["tags"]
        if not outputs:
            return []
        scores = np.concatenate([output["logits"] for output in outputs]).astype(np.float64)
        return [names[tag] for tag in best_path(scores, self._transitions)]

    @cached_property
    def _transitions(self) -> np.ndarray | None:
        """0 where a tag may follow another, -inf where not; None where every tag may."""
        tags = self.reading["tags"]
        may = np.array([[self.may_follow(tag, before) for tag in tags] for before in (*tags, None)])
        return None if may.all() else np.where(may, 0.0, -np.inf)

    @staticmethod
    def may_follow(tag: str, before: str | None) -> bool:
        """Any tag may, unless a task knows better."""
        del tag, before
        return True


class NamesCodec(TaggingCodec):
    """ner: names in a text, by BIO tags."""

    task = "ner"
    may_follow = staticmethod(may_follow_bio)

    def decode(self, encoded: Encoded[str], outputs: Sequence[Arrays]) -> Prediction:
        text = encoded.input
        spans = spans_of(encoded.places, self.tags(outputs))
        return EntitiesPrediction(text, tuple(Entity(name, text[start:end], start, end) for name, start, end in spans))

    def shown(self, prediction: Prediction) -> str:
        entities = ", ".join(f"{entity['kind']} = {entity['value']!r}" for entity in prediction["entities"])
        return f"{prediction['text']}\n  {entities or 'no names'}"


class PartsOfSpeechCodec(TaggingCodec):
    """pos: the part of speech of every word."""

    task = "pos"

    def decode(self, encoded: Encoded[str], outputs: Sequence[Arrays]) -> Prediction:
        text = encoded.input
        words = zip(encoded.places, self.tags(outputs), strict=True)
        return WordsPrediction(text, tuple(TaggedWord(text[start:end], tag, start, end) for (start, end), tag in words))

    def shown(self, prediction: Prediction) -> str:
        return " ".join(f"{word['word']}/{word['tag']}" for word in prediction["words"])
