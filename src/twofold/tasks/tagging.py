"""A tag for every word: what named entities and parts of speech share.

Words come as the data has them; for a prediction a raw text is cut as those words were.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from torch import Tensor
from transformers import PreTrainedConfig

from twofold.data.examples import Tagged
from twofold.models.configs import EncoderConfig
from twofold.models.encoder import EncoderForTokenClassification
from twofold.tasks.hiding import with_word_dropout
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import RATES, named, sized
from twofold.tasks.task import Features, Task
from twofold.tasks.vocabulary import word_tokenizer
from twofold_runtime.codec import Encoded
from twofold_runtime.engine import Arrays
from twofold_runtime.tagging import LONGEST


class Tagging(Task[Tagged]):
    """Examples and scores are a subclass's. The answers that are judged are lists of tags."""

    model_class = EncoderForTokenClassification

    @classmethod
    def prepared(cls, train: Sequence[Tagged]) -> Self:
        tokenizer = word_tokenizer(word for one in train for word in one.words)
        return cls(tokenizer, {"tags": cls.all_tags(train)})

    @classmethod
    def all_tags(cls, train: Sequence[Tagged]) -> list[str]:
        return sorted({tag for one in train for tag in one.tags})

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        return {"epochs": 4.0, "batch_size": 32, "learning_rate": RATES[size]}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        return sized(
            EncoderConfig, options, len(self.tokenizer), **named(self.reading["tags"]), max_position_embeddings=LONGEST
        )

    def label_counts(self) -> dict[str, int]:
        return {"num_labels": len(self.reading["tags"])}

    def features(self, example: Tagged) -> Features:
        tags = self.reading["tags"]
        return {**self.codec.row(example.words), "labels": np.array([tags.index(tag) for tag in example.tags])}

    def rows(self, examples: Sequence[Tagged]) -> list[Features]:
        return [self.features(piece) for one in examples for piece in _pieces(one)]

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        return with_word_dropout(super().collate(batch))

    def input_of(self, example: Tagged) -> Sequence[str]:
        return example.words

    def encode(self, example: Tagged) -> Encoded[Any]:
        """The words as the data has them."""
        return self.codec.encode_words(example.words)

    def answer(self, encoded: Encoded[Any], outputs: Sequence[Arrays]) -> list[str]:
        """The tags of the words."""
        return self.codec.tags(outputs)


def _pieces(example: Tagged) -> list[Tagged]:
    """A sentence in pieces that are read together."""
    starts = range(0, len(example.words), LONGEST)
    return [Tagged(example.words[at : at + LONGEST], example.tags[at : at + LONGEST]) for at in starts]
