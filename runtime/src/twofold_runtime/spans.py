"""qa: the piece of a context that answers a question.

Both are read as one row of words, each marked if the other side has it too, and the model scores where the answer
starts and ends. A long context is read in windows that overlap; the likeliest piece of all of them is the answer.
"""

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twofold_runtime.codec import Codec, Encoded, checked_text
from twofold_runtime.engine import Arrays
from twofold_runtime.predictions import AnswerPrediction, Prediction, QuestionInput
from twofold_runtime.tokens import BEGIN, END, PAD, SEPARATOR, WordVocabulary
from twofold_runtime.words import SPELLING, Place, fine_words

# Words that are read together, those of them that a question may have, and those of an answer.
LONGEST, LONGEST_QUESTION, LONGEST_ANSWER = 384, 64, 30
# Between question and context in one line of text.
BETWEEN = "|||"
# Features of a word that the other side has too, or one that begins alike.
SAME, ALIKE, ALIKE_LETTERS = "match:same", "match:alike", 4


class Window(NamedTuple):
    """A stretch of a context's words: `size` of them from `start` on, which stand in the row from `offset` on."""

    start: int
    size: int
    offset: int


class Places(NamedTuple):
    """Places of the context's words, and the windows in which they are read."""

    words: list[Place]
    windows: list[Window]


class Piece(NamedTuple):
    """A window's best piece, by its first and last word of the context, and the log-sum-exp of all its pieces."""

    first: int
    last: int
    score: float
    all_scores: float


class SpansCodec(Codec[QuestionInput]):
    """Encodes a question with its context, one row a window."""

    task = "qa"
    reads_words = True
    per_token = frozenset({"start_logits", "end_logits"})
    batch = 32
    tokens: WordVocabulary

    def input_of_line(self, line: str) -> QuestionInput:
        return question_of_line(line)

    def encode(self, input: QuestionInput) -> Encoded[QuestionInput]:
        if not isinstance(input, QuestionInput):
            raise ValueError(f"input must be a QuestionInput, got {type(input).__name__}")
        question, context = checked_text(input.question, "question"), checked_text(input.context, "context")
        asked = [question[start:end] for start, end in fine_words(question)[:LONGEST_QUESTION]]
        places = fine_words(context)
        if not places:
            raise ValueError("context has no words")
        words = [context[start:end] for start, end in places]
        size = LONGEST - 3 - len(asked)
        # Half of a window is in the next one too, so that what surrounds an answer is seen with it.
        starts = range(0, max(1, len(words) - size // 2), size // 2) if len(words) > size else (0,)
        windows = [Window(start, len(words[start : start + size]), len(asked) + 2) for start in starts]
        rows = tuple(self._row(asked, words[one.start : one.start + one.size]) for one in windows)
        return Encoded(input, rows, Places(places, windows))

    def decode(self, encoded: Encoded[QuestionInput], outputs: Sequence[Arrays]) -> AnswerPrediction:
        words, windows = encoded.places
        pieces = [_best_piece(output, window) for output, window in zip(outputs, windows, strict=True)]
        best = max(pieces, key=lambda piece: (piece.score, -piece.first))
        highest = max(piece.all_scores for piece in pieces)
        total = highest + math.log(sum(math.exp(piece.all_scores - highest) for piece in pieces))
        question, context = encoded.input.question, encoded.input.context
        start, end = words[best.first].start, words[best.last].end
        return AnswerPrediction(question, context, context[start:end], start, end, math.exp(best.score - total))

    def shown(self, prediction: Prediction) -> str:
        return f"{prediction['question']}\n  {prediction['answer']} ({prediction['confidence']:.0%})"

    def _row(self, asked: Sequence[str], words: Sequence[str]) -> dict[str, np.ndarray]:
        ids, features = [BEGIN], [[PAD] * (SPELLING + 1)]
        for side, other, end in ((asked, words, SEPARATOR), (words, asked, END)):
            side_ids, side_features = self.tokens.encode(side)
            ids += [*side_ids, end]
            marks = self._marks(side, other)
            features += [[*row, mark] for row, mark in zip(side_features, marks, strict=True)]
            features.append([PAD] * (SPELLING + 1))
        return {"input_ids": np.array(ids, np.int64), "cue_ids": np.array(features, np.int64)}

    def _marks(self, words: Sequence[str], others: Sequence[str]) -> list[int]:
        """For every word whether the other side has it, or one that begins alike, or neither."""
        same = {word.lower() for word in others}
        alike = {word[:ALIKE_LETTERS] for word in same if len(word) >= ALIKE_LETTERS}
        ids = self.tokens.ids
        return [
            ids[SAME] if word in same else ids[ALIKE] if word[:ALIKE_LETTERS] in alike else PAD
            for word in map(str.lower, words)
        ]


def question_of_line(line: str) -> QuestionInput:
    """Of one text: {"question": ..., "context": ...}, or both with ||| between."""
    if line.lstrip().startswith("{"):
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"text begins like a JSON object and is none: {error!s:.100}") from None
        for name in ("question", "context"):
            if not isinstance(content.get(name), str):
                raise ValueError(f"text must have a string {name!r} in its JSON object, got {content.get(name)!r:.60}")
        return QuestionInput(content["question"], content["context"])
    question, between, context = line.partition(BETWEEN)
    if not between:
        raise ValueError(
            f'text must be "question {BETWEEN} context" or {{"question": ..., "context": ...}}, got {line[:60]!r}'
        )
    return QuestionInput(question.strip(), context.strip())


def _best_piece(output: Arrays, window: Window) -> Piece:
    """The best of all pieces of a window's words."""
    inside = slice(window.offset, window.offset + window.size)
    starts, ends = (output[name][inside].astype(np.float64) for name in ("start_logits", "end_logits"))
    size = np.arange(len(starts))
    length = size[None] - size[:, None]
    scores = np.where((length < 0) | (length >= LONGEST_ANSWER), -np.inf, starts[:, None] + ends[None])
    first, last = divmod(int(scores.argmax()), len(starts))
    highest = float(scores.max())
    total = highest + math.log(float(np.exp(scores - highest).sum()))
    return Piece(window.start + first, window.start + last, highest, total)
