"""The piece of a context that answers a question."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from torch import Tensor
from transformers import PreTrainedConfig

from twofold.data.embedded.qa import biographies
from twofold.data.examples import Answer, Question, Splits
from twofold.data.hub import is_hub
from twofold.data.hub_readers import hub_questions
from twofold.data.readers import read_questions
from twofold.models.configs import EncoderConfig
from twofold.models.encoder import EncoderForQuestionAnswering
from twofold.tasks.answers import exact_match, token_f1
from twofold.tasks.hiding import with_word_dropout
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import RATES, sized
from twofold.tasks.tallies import Tally, share, verdicts
from twofold.tasks.task import Features, Task
from twofold.tasks.vocabulary import word_tokenizer
from twofold_runtime.codec import Encoded
from twofold_runtime.engine import Arrays
from twofold_runtime.predictions import QuestionInput
from twofold_runtime.spans import ALIKE, LONGEST, SAME
from twofold_runtime.words import Place, fine_words


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
        words = (text[start:end] for text in texts for start, end in fine_words(text))
        return cls(word_tokenizer(words, (SAME, ALIKE), extra=("sep",)), {})

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        return {"epochs": 4.0, "batch_size": 32, "learning_rate": RATES[size]}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        return sized(EncoderConfig, options, len(self.tokenizer), max_position_embeddings=LONGEST)

    def features(self, example: Question) -> Features:
        """The first window that holds the answer, or where none holds all of it the first with its beginning."""
        encoded = self.encode(example)
        places, windows = encoded.places
        first, last = _words_of(example.answers[0], places)
        holds = [number for number, one in enumerate(windows) if one.start <= first < one.start + one.size]
        whole = (number for number in holds if last < windows[number].start + windows[number].size)
        number = next(whole, holds[0])
        window = windows[number]
        last = min(last, window.start + window.size - 1)
        shift = window.offset - window.start
        return {**encoded.rows[number], "start_positions": first + shift, "end_positions": last + shift}

    def input_of(self, example: Question) -> QuestionInput:
        return QuestionInput(example.question, example.context)

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        return with_word_dropout(super().collate(batch), separator=True)

    def answer(self, encoded: Encoded[QuestionInput], outputs: Sequence[Arrays]) -> str:
        """The text of the answer."""
        return self.codec.decode(encoded, outputs).answer

    def judged(self, examples: Sequence[Question], answers: Sequence[str]) -> dict[str, Tally]:
        """f1 of words and exact_match in per cent, both as SQuAD counts them: against the best of the true answers."""
        pairs = [(answer, [true.text for true in one.answers]) for one, answer in zip(examples, answers, strict=True)]
        return {
            "f1": share([token_f1(*pair) for pair in pairs]),
            "exact_match": verdicts([exact_match(*pair) for pair in pairs]),
        }


def _words_of(answer: Answer, places: Sequence[Place]) -> tuple[int, int]:
    """The first and the last word that an answer touches."""
    end = answer.start + len(answer.text)
    touched = [number for number, place in enumerate(places) if place.start < end and answer.start < place.end]
    return touched[0], touched[-1]
