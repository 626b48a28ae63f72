"""From a text to its class, with a confidence that a temperature, set on the dev split, makes honest."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.data.embedded.classification import moods
from twofold.data.examples import Labelled, Splits
from twofold.data.files import DataError
from twofold.data.hub import is_hub
from twofold.data.hub_readers import hub_labelled
from twofold.data.readers import read_labelled
from twofold.data.vocabulary import train_tokenizer
from twofold.models.configs import EncoderConfig
from twofold.models.encoder import EncoderForSequenceClassification
from twofold.tasks.calibration import best_temperature
from twofold.tasks.hiding import with_token_dropout
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import RATES, named, sized
from twofold.tasks.tallies import Tally, calibration_error, macro_f1, verdicts
from twofold.tasks.task import CalibratedTask, Features, Result
from twofold_runtime.labels import LONGEST
from twofold_runtime.predictions import LabelPrediction

# Share of tokens that a training batch does not show: a label has few words of its own, and none may decide alone.
HIDDEN = 0.3


class Classification(CalibratedTask[Labelled]):
    name = "classification"
    metric = "accuracy"
    metrics = ("accuracy", "macro_f1", "calibration_error")
    lower = ("calibration_error",)
    reads_hub = True
    model_class = EncoderForSequenceClassification

    @classmethod
    def examples(cls, data: Path | None, seed: int = 0) -> Splits[Labelled]:
        if data is None:
            splits = moods(seed)
        else:
            splits = hub_labelled(data) if is_hub(data) else read_labelled(data)
        if splits.train and len({example.label for example in splits.train}) == 1:
            raise DataError(data or "data", None, f"train has one label, {splits.train[0].label!r}, expected several")
        return splits

    @staticmethod
    def labels(example: Labelled) -> Iterable[str]:
        return [example.label]

    @classmethod
    def prepared(cls, train: Sequence[Labelled]) -> Self:
        tokenizer = train_tokenizer([one.text for one in train], "bpe", size=4096, lowercase=True, ends="both")
        tokenizer.model_max_length = LONGEST
        return cls(tokenizer, {"labels": sorted({one.label for one in train})})

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        return {"epochs": 8.0, "batch_size": 32, "learning_rate": RATES[size]}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        more = {"max_position_embeddings": LONGEST, **named(self.reading["labels"])}
        return sized(EncoderConfig, options, len(self.tokenizer), **more)

    def known_labels(self) -> frozenset[str]:
        return frozenset(self.reading["labels"])

    def label_counts(self) -> dict[str, int]:
        return {"num_labels": len(self.reading["labels"])}

    def features(self, example: Labelled) -> Features:
        return {**self.encode(example).rows[0], "labels": self.reading["labels"].index(example.label)}

    def input_of(self, example: Labelled) -> str:
        return example.text

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        tensors = super().collate(batch)
        return {**tensors, "input_ids": with_token_dropout(tensors["input_ids"], HIDDEN)}

    def judged(self, examples: Sequence[Labelled], answers: Sequence[LabelPrediction]) -> dict[str, Tally]:
        """accuracy, and macro_f1 over all labels that occur, in per cent; and the calibration error."""
        truth, predicted = [one.label for one in examples], [answer.label for answer in answers]
        right = [true == label for true, label in zip(truth, predicted, strict=True)]
        return {
            "accuracy": verdicts(right),
            "macro_f1": macro_f1(truth, predicted),
            "calibration_error": calibration_error([answer.confidence for answer in answers], right),
        }

    def calibration(
        self, model: PreTrainedModel, examples: Sequence[Labelled], results: Sequence[Result]
    ) -> dict[str, Any]:
        logits = np.stack([outputs[0]["logits"] for _, outputs in results])
        places = {label: place for place, label in enumerate(self.reading["labels"])}
        truth = np.array([places.get(one.label, -1) for one in examples])
        # A label that train lacks is never right, and says nothing of confidence.
        known = truth >= 0
        if not known.any():
            return {"temperature": self.codec.calibration.get("temperature", 1.0)}
        return {"temperature": best_temperature(logits[known], truth[known])}
