"""classification: from a text to its label, with a calibrated confidence."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from twofold_runtime.codec import Encoded, TextCodec, checked_text, softmax
from twofold_runtime.engine import Arrays
from twofold_runtime.folder import RunRecord
from twofold_runtime.predictions import LabelChance, LabelPrediction, Prediction
from twofold_runtime.tokens import TextTokenizer

# Tokens; the rest of a longer text is not read.
LONGEST = 512
# Labels beside the best one that a prediction names.
OTHERS = 2


class LabelsCodec(TextCodec):
    """calibration: temperature of the confidences."""

    task = "classification"
    reads_words = False
    reading_shape: ClassVar[Mapping[str, Any]] = {"labels": [str]}
    calibration_shape: ClassVar[Mapping[str, Any]] = {"temperature": float}
    tokens: TextTokenizer

    @classmethod
    def check(cls, record: RunRecord, where: str) -> None:
        super().check(record, where)
        if record.finished and record.calibration["temperature"] <= 0:
            temperature = record.calibration["temperature"]
            raise ValueError(f"{where}: calibration: temperature must be above 0, got {temperature}")

    def encode(self, input: str) -> Encoded[str]:
        text = checked_text(input)
        return Encoded(text, ({"input_ids": np.array(self.tokens.encode(text, LONGEST), np.int64)},))

    def decode(self, encoded: Encoded[str], outputs: Sequence[Arrays]) -> LabelPrediction:
        logits = outputs[0]["logits"].astype(np.float64)
        chances = softmax(logits / self.calibration.get("temperature", 1.0))
        ranked = np.argsort(-chances, kind="stable")[: 1 + OTHERS]
        best, *others = (LabelChance(self.reading["labels"][place], float(chances[place])) for place in ranked)
        return LabelPrediction(encoded.input, best.label, best.confidence, tuple(others))

    def shown(self, prediction: Prediction) -> str:
        others = ", ".join(f"{one['label']} {one['confidence']:.0%}" for one in prediction["others"])
        return f"{prediction['text']}\n  {prediction['label']} ({prediction['confidence']:.0%}; {others})"
