"""The piece of a context that answers a question.

Both are read as one row of words, each marked if the other has it too, and the model says where the answer starts and
ends. A long context is read in windows that overlap, and the likeliest piece of all of them is the answer.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.data.embedded.qa import biographies
from twofold.data.examples import Answer, Question, Splits
from twofold.data.hub import is_hub
from twofold.data.hub_readers import hub_questions
from twofold.data.readers import read_questions
from twofold.models.configs import EncoderConfig
from twofold.models.encoder import EncoderForQuestionAnswering
from twofold.tasks.answers import exact_match, token_f1
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import RATES, sized
from twofold.tasks.tallies import Tally, share, verdicts
from twofold.tasks.task import Features, Task, batches
from twofold.tasks.words import Place, encoded, hidden, learned_tokenizer, short_words

# Words that are read together, those of them that a question may have, and those of an answer.
LONGEST, LONGEST_QUESTION, LONGEST_ANSWER = 384, 64, 30
# What stands between question and context in one line of text.
BETWEEN = "|||"
# Of a word that the other side has too, or another that begins alike.
SAME, ALIKE, ALIKE_LETTERS = "match:same", "match:alike", 4


class Window(NamedTuple):
    """A stretch of a context's words, `size` of them from `start` on, which stand in the row from `offset` on."""

    start: int
    size: int
    offset: int
    features: Features


class Piece(NamedTuple):
    """The best of a window's pieces, by its first and last word of the context, beside the log-sum-exp of all."""

    first: int
    last: int
    score: float
    all_scores: float


class Qa(Task[Question]):
    name = "qa"
    metric = "f1"
    metrics = ("f1", "exact_match")
    reads_hub = True
    model_class = EncoderForQuestionAnswering

    @classmethod
    def examples(cls, data: Path | None, seed: int = 0) -> Splits[Question]:
        if data is None:
            return biographies(seed)
        return hub_questions(data) if is_hub(data) else read_questions(data)

    @classmethod
    def prepared(cls, train: Sequence[Question]) -> Self:
        # A context counts once, however many questions there are about it.
        texts = [*dict.fromkeys(one.context for one in train), *(one.question for one in train)]
        words = (word for text in texts for word in _words(text, short_words(text)))
        return cls(learned_tokenizer(words, (SAME, ALIKE), extra=("sep",)), {})

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        return {"epochs": 4.0, "batch_size": 32, "learning_rate": RATES[size]}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        return sized(EncoderConfig, options, len(self.tokenizer), max_position_embeddings=LONGEST)

    def features(self, example: Question) -> Features:
        """The first window that holds the answer, or where none holds it all the first with its beginning."""
        places, windows = self._windows(example.question, example.context)
        first, last = _words_of(example.answers[0], places)
        holds = [one for one in windows if one.start <= first < one.start + one.size]
        window = next((one for one in holds if last < one.start + one.size), holds[0])
        last = min(last, window.start + window.size - 1)
        shift = window.offset - window.start
        return {**window.features, "start_positions": first + shift, "end_positions": last + shift}

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        return hidden(super().collate(batch), self.tokenizer)

    def scores(self, model: PreTrainedModel, examples: Sequence[Question]) -> dict[str, float]:
        """exact_match and f1 of words in per cent, both as SQuAD counts them: against the best of the true answers."""
        return self.judged(examples, self._answer_texts(model, examples))

    @staticmethod
    def judged(examples: Sequence[Question], answers: Sequence[str]) -> dict[str, float]:
        """The same of answers, whoever gave them."""
        pairs = [(answer, [true.text for true in one.answers]) for one, answer in zip(examples, answers, strict=True)]
        return {
            "f1": 100 * sum(token_f1(*pair) for pair in pairs) / len(pairs),
            "exact_match": 100 * sum(exact_match(*pair) for pair in pairs) / len(pairs),
        }

    def tallies(self, model: PreTrainedModel, examples: Sequence[Question]) -> dict[str, Tally]:
        truths = [[true.text for true in one.answers] for one in examples]
        pairs = [*zip(self._answer_texts(model, examples), truths, strict=True)]
        return {
            "f1": share([token_f1(*pair) for pair in pairs]),
            "exact_match": verdicts([exact_match(*pair) for pair in pairs]),
        }

    def predict(self, model: PreTrainedModel, text: str) -> dict[str, Any]:
        """`text` is "question ||| context", or a JSON object with both."""
        return self.answer(model, *question_and_context(text))

    def answer(self, model: PreTrainedModel, question: str, context: str) -> dict[str, Any]:
        """The answer, its place in the context, and its share of the likelihood of all the pieces there are."""
        for name, given in (("question", question), ("context", context)):
            if not given.strip():
                raise ValueError(f"{name} must not be empty")
        ((start, end), confidence) = self._answers(model, [(question, context)])[0]
        place = {"answer": context[start:end], "start": start, "end": end, "confidence": confidence}
        return {"question": question, "context": context, **place}

    def shown(self, prediction: Mapping[str, Any]) -> str:
        return f"{prediction['question']}\n  {prediction['answer']} ({prediction['confidence']:.0%})"

    def _answer_texts(self, model: PreTrainedModel, examples: Sequence[Question]) -> list[str]:
        found = self._answers(model, [(one.question, one.context) for one in examples])
        return [one.context[place.start : place.end] for one, (place, _) in zip(examples, found, strict=True)]

    @torch.no_grad()
    def _answers(self, model: PreTrainedModel, pairs: Sequence[tuple[str, str]]) -> list[tuple[Place, float]]:
        """Of every question and context: where the likeliest answer stands, and how likely it is."""
        read = [self._windows(*pair) for pair in pairs]
        whose = [(number, window) for number, (_, windows) in enumerate(read) for window in windows]
        of: list[list[Piece]] = [[] for _ in pairs]
        for places, batch in batches([window.features for _, window in whose], self.tokenizer.pad_token_id, 32):
            out = model(**{name: tensor.to(model.device) for name, tensor in batch.items()})
            starts, ends = out.start_logits.float().cpu(), out.end_logits.float().cpu()
            for row, place in enumerate(places):
                number, window = whose[place]
                inside = slice(window.offset, window.offset + window.size)
                of[number].append(_best_piece(starts[row, inside], ends[row, inside], window.start))
        return [_likeliest(places, found) for (places, _), found in zip(read, of, strict=True)]

    def _windows(self, question: str, context: str) -> tuple[list[Place], list[Window]]:
        """Places of the context's words, and the stretches of them in which it is read."""
        asked = _words(question, short_words(question))[:LONGEST_QUESTION]
        places = short_words(context)
        words = _words(context, places)
        size = LONGEST - 3 - len(asked)
        # Half of a window is in the next one too, so that what surrounds an answer is seen with it.
        starts = range(0, max(1, len(words) - size // 2), size // 2) if len(words) > size else (0,)
        return places, [self._window(asked, words[start : start + size], start) for start in starts]

    def _window(self, asked: Sequence[str], words: Sequence[str], start: int) -> Window:
        tokenizer = self.tokenizer
        ids, cues = [tokenizer.bos_token_id], [[]]
        for side, other, end in ((asked, words, tokenizer.sep_token_id), (words, asked, tokenizer.eos_token_id)):
            own, told = encoded(tokenizer, side, self.vocabulary)
            ids += [*own, end]
            cues += [*([*row, mark] for row, mark in zip(told, self._marks(side, other), strict=True)), []]
        width = max(map(len, cues))
        full = [row or [tokenizer.pad_token_id] * width for row in cues]
        return Window(start, len(words), len(asked) + 2, {"input_ids": ids, "cue_ids": full})

    def _marks(self, words: Sequence[str], others: Sequence[str]) -> list[int]:
        """Of every word: whether the other side has it, or one that begins alike, or neither."""
        same = {word.lower() for word in others}
        alike = {word[:ALIKE_LETTERS] for word in same if len(word) >= ALIKE_LETTERS}
        marks = []
        for word in map(str.lower, words):
            mark = SAME if word in same else ALIKE if word[:ALIKE_LETTERS] in alike else None
            marks.append(self.tokenizer.pad_token_id if mark is None else self.vocabulary[mark])
        return marks


def question_and_context(text: str) -> tuple[str, str]:
    """Out of one text: {"question": ..., "context": ...}, or both with ||| between."""
    if text.lstrip().startswith("{"):
        try:
            told = json.loads(text)
        except ValueError as error:
            raise ValueError(f"text begins like a JSON object and is none: {error}") from None
        for name in ("question", "context"):
            if not isinstance(told.get(name), str):
                raise ValueError(f"text must have a string {name!r} in its JSON object, got {told.get(name)!r}")
        return told["question"], told["context"]
    question, between, context = text.partition(BETWEEN)
    if not between:
        raise ValueError(
            f'text must be "question {BETWEEN} context" or {{"question": ..., "context": ...}}, got {text[:60]!r}'
        )
    return question.strip(), context.strip()


def _words(text: str, places: Sequence[Place]) -> list[str]:
    return [text[start:end] for start, end in places]


def _words_of(answer: Answer, places: Sequence[Place]) -> tuple[int, int]:
    """The first and the last word that an answer touches."""
    end = answer.start + len(answer.text)
    touched = [number for number, place in enumerate(places) if place.start < end and answer.start < place.end]
    return touched[0], touched[-1]


def _best_piece(starts: Tensor, ends: Tensor, offset: int) -> Piece:
    """Of a window's words: all pieces are scored, and only the best one is kept."""
    size = torch.arange(len(starts))
    length = size[None] - size[:, None]
    scores = (starts[:, None] + ends[None]).masked_fill((length < 0) | (length >= LONGEST_ANSWER), -torch.inf)
    first, last = divmod(int(scores.argmax()), len(starts))
    return Piece(offset + first, offset + last, float(scores.max()), float(scores.flatten().logsumexp(0)))


def _likeliest(places: Sequence[Place], found: Sequence[Piece]) -> tuple[Place, float]:
    """The best piece of all windows, and its share among all of theirs."""
    best = max(found, key=lambda piece: (piece.score, -piece.first))
    whole = torch.tensor([piece.all_scores for piece in found], dtype=torch.float64).logsumexp(0)
    return Place(places[best.first].start, places[best.last].end), math.exp(best.score - float(whole))
