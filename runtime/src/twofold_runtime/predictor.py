"""Predictions from a folder: its codec, and an engine that runs its model."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from twofold_runtime.codec import Codec
from twofold_runtime.engine import Engine
from twofold_runtime.folder import FILE, RunRecord
from twofold_runtime.predictions import Prediction
from twofold_runtime.tokens import TextTokenizer, WordVocabulary
from twofold_runtime.words import WORD_RULES

# The codec of every task: its module here and its name.
CODECS = {
    "goals": ("goals", "GoalsCodec"),
    "classification": ("labels", "LabelsCodec"),
    "ner": ("tagging", "NamesCodec"),
    "pos": ("tagging", "PartsOfSpeechCodec"),
    "qa": ("spans", "SpansCodec"),
    "retrieval": ("ranking", "RankingCodec"),
    "lm": ("writing", "ContinuationCodec"),
    "translation": ("writing", "TranslationCodec"),
    "summarization": ("writing", "SummaryCodec"),
    "captioning": ("captions", "CaptionCodec"),
}


def codec_class(task: str) -> type[Codec[Any]]:
    """The codec of a task, by its name."""
    if task not in CODECS:
        raise ValueError(f"task must be one of {', '.join(CODECS)}, got {task!r:.60}")
    module, name = CODECS[task]
    return getattr(import_module(f"twofold_runtime.{module}"), name)


def check_record(folder: Path, record: RunRecord) -> type[Codec[Any]]:
    """The class of a run's codec; ValueError where run.json does not hold what it needs."""
    kind = codec_class(record.task)
    kind.check(record, str(folder / FILE))
    if kind.reads_words and record.word_rules != WORD_RULES:
        raise ValueError(
            f"{folder} was trained with version {record.word_rules} of the word rules, "
            f"and this version of twofold has {WORD_RULES}: train it anew"
        )
    return kind


def read_codec(folder: Path, record: RunRecord) -> Codec[Any]:
    """The codec of a run's folder, as run.json describes it."""
    kind = check_record(folder, record)
    tokens = WordVocabulary.read(folder) if kind.reads_words else TextTokenizer.read(folder)
    codec = kind(record.reading, record.calibration, tokens)
    codec.opened_in(folder, record)
    return codec


class Predictor:
    """Answers inputs of one task."""

    def __init__(self, codec: Codec[Any], engine: Engine) -> None:
        self.codec, self.engine = codec, engine

    def predict(self, input: Any) -> Prediction:
        """The answer to one input: a text, or for other tasks a QuestionInput or an ImageInput."""
        return self.predict_many([input])[0]

    def predict_many(self, inputs: Sequence[Any]) -> list[Prediction]:
        """The answers to several inputs, which the model reads in batches."""
        encoded = [self.codec.encode(one) for one in inputs]
        outputs = self.codec.run(self.engine, encoded)
        return [self.codec.decode(*pair) for pair in zip(encoded, outputs, strict=True)]
