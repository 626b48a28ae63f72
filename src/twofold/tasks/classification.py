"""From a text to its class, with a confidence that a temperature, set on the dev split, makes honest."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.data.embedded.classification import moods
from twofold.data.examples import Labelled, Splits
from twofold.data.files import DataError
from twofold.data.hub import is_hub
from twofold.data.hub_readers import hub_labelled
from twofold.data.readers import check_known, read_labelled
from twofold.data.vocabulary import train_tokenizer
from twofold.models.configs import EncoderConfig
from twofold.models.encoder import EncoderForSequenceClassification
from twofold.tasks.calibration import best_temperature, expected_calibration_error
from twofold.tasks.hiding import some_hidden
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import RATES, named, sized
from twofold.tasks.tallies import Tally, verdicts
from twofold.tasks.task import Features, Task, batches, check_labels

# Of a longer text the rest is not read.
LONGEST = 512
# How many classes beside the best one a prediction names.
OTHERS = 2
# Share of tokens that a training batch does not show: a class has few words of its own, and none may be all there is.
HIDDEN = 0.3


class Classification(Task[Labelled]):
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
        check_known(splits, cls.labels, "the embedded set" if data is None else data)
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
        return cls(tokenizer, {"labels": sorted({one.label for one in train}), "temperature": 1.0})

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        return {"epochs": 8.0, "batch_size": 32, "learning_rate": RATES[size]}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        return sized(
            EncoderConfig, options, len(self.tokenizer), **named(self.state["labels"]), max_position_embeddings=LONGEST
        )

    def features(self, example: Labelled) -> Features:
        return {**self._read(example.text), "labels": self.state["labels"].index(example.label)}

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        made = super().collate(batch)
        return {**made, "input_ids": some_hidden(made["input_ids"], self.tokenizer, HIDDEN)}

    def scores(self, model: PreTrainedModel, examples: Sequence[Labelled]) -> dict[str, float]:
        """accuracy and macro_f1 (scikit-learn's, over all labels that occur) in per cent, and the calibration error."""
        confidence, best = self._weights(self._logits(model, [one.text for one in examples])).max(1)
        found = [self.state["labels"][place] for place in best]
        right = [one.label == label for one, label in zip(examples, found, strict=True)]
        error = expected_calibration_error(confidence.tolist(), right)
        return {**self.judged(examples, found), "calibration_error": error}

    def judged(self, examples: Sequence[Labelled], found: Sequence[str]) -> dict[str, float]:
        """accuracy and macro_f1 of labels, whoever found them."""
        from sklearn.metrics import accuracy_score, f1_score

        check_labels((one.label for one in examples), self.state["labels"])
        truth = [one.label for one in examples]
        return {
            "accuracy": 100 * float(accuracy_score(truth, found)),
            "macro_f1": 100 * float(f1_score(truth, found, average="macro", zero_division=0)),
        }

    def tallies(self, model: PreTrainedModel, examples: Sequence[Labelled]) -> dict[str, Tally]:
        check_labels((one.label for one in examples), self.state["labels"])
        _, best = self._weights(self._logits(model, [one.text for one in examples])).max(1)
        right = [one.label == self.state["labels"][place] for one, place in zip(examples, best, strict=True)]
        return {"accuracy": verdicts(right)}

    def predict(self, model: PreTrainedModel, text: str) -> dict[str, Any]:
        if not text.strip():
            raise ValueError("text must not be empty: nothing has no class")
        confidence, places = self._weights(self._logits(model, [text]))[0].sort(descending=True, stable=True)
        ranked = [
            {"label": self.state["labels"][place], "confidence": sure}
            for sure, place in zip(confidence.tolist(), places.tolist(), strict=True)
        ]
        return {"text": text, **ranked[0], "others": ranked[1 : 1 + OTHERS]}

    def shown(self, prediction: Mapping[str, Any]) -> str:
        others = ", ".join(f"{one['label']} {one['confidence']:.0%}" for one in prediction["others"])
        return f"{prediction['text']}\n  {prediction['label']} ({prediction['confidence']:.0%}; {others})"

    def tune(self, model: PreTrainedModel, dev: Sequence[Labelled]) -> None:
        truth = torch.tensor([self.state["labels"].index(one.label) for one in dev])
        self.state["temperature"] = best_temperature(self._logits(model, [one.text for one in dev]), truth)

    def _read(self, text: str) -> Features:
        return {"input_ids": self.tokenizer(text, truncation=True, max_length=LONGEST)["input_ids"]}

    @torch.no_grad()
    def _logits(self, model: PreTrainedModel, texts: Sequence[str]) -> Tensor:
        """(N, labels)."""
        logits = torch.zeros(len(texts), len(self.state["labels"]))
        for places, batch in batches([self._read(text) for text in texts], self.tokenizer.pad_token_id):
            out = model(**{name: tensor.to(model.device) for name, tensor in batch.items()})
            logits[places] = out.logits.float().cpu()
        return logits

    def _weights(self, logits: Tensor) -> Tensor:
        return (logits / self.state["temperature"]).softmax(-1)
