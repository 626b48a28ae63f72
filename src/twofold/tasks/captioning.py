"""From an image to a sentence about it.

An image is a grid of vectors that a decoder looks at while it writes. All images are brought to one size, which is that
of the training images, or 64 to a side where those are larger.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedConfig

from twofold.data.embedded.captioning import shapes
from twofold.data.examples import Captioned, Splits
from twofold.data.vocabulary import train_tokenizer
from twofold.models.captioner import CaptionerConfig, CaptionerForConditionalGeneration
from twofold.models.configs import Seq2SeqConfig
from twofold.models.engine import TorchWriter
from twofold.tasks.images import read_captions
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import RATES, sized
from twofold.tasks.tallies import Tally, corpus, signature, verdicts
from twofold.tasks.task import Features, Task, tensors_of
from twofold_runtime.captions import LONGEST, values_of
from twofold_runtime.codec import Encoded
from twofold_runtime.engine import Arrays
from twofold_runtime.predictions import ImageInput

LARGEST_SIDE = 64


class Captioning(Task[Captioned]):
    name = "captioning"
    metric = "bleu"
    metrics = ("exact_match", "bleu", "chrf")
    # BLEU is 0 until four words in a row are right, of shorter captions for good.
    kept_by = "chrf"
    engine = TorchWriter
    model_class = CaptionerForConditionalGeneration

    @classmethod
    def examples(cls, data: Path | None, seed: int = 0) -> Splits[Captioned]:
        return shapes(seed) if data is None else read_captions(data)

    @classmethod
    def prepared(cls, train: Sequence[Captioned]) -> Self:
        tokenizer = train_tokenizer([one.caption for one in train], "bpe", size=4096, ends="eos")
        sides = [min(LARGEST_SIDE, max(one.pixels.shape[side] for one in train)) for side in (0, 1)]
        return cls(tokenizer, {"height": sides[0], "width": sides[1]})

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        # Buckets would put images of one kind together, those with short captions, and norms over a batch would drift.
        return {"epochs": 12.0, "batch_size": 64, "buckets": False, "learning_rate": RATES[size]}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        # Captions are short and their words few: embeddings that start larger are told apart sooner.
        more = {"max_position_embeddings": LONGEST, "initializer_range": 0.1}
        return CaptionerConfig(decoder=sized(Seq2SeqConfig, options, len(self.tokenizer), **more))

    def features(self, example: Captioned) -> Features:
        ids = self.codec.tokens.encode(example.caption, LONGEST)
        return {"input_ids": np.array(ids, np.int64), "pixels": self.codec.sized(example.pixels.numpy())}

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        tensors = tensors_of([{"input_ids": one["input_ids"], "labels": one["input_ids"]} for one in batch])
        pixels = torch.from_numpy(values_of(np.stack([one["pixels"] for one in batch])))
        return {"pixel_values": pixels, "labels": tensors["labels"]}

    def input_of(self, example: Captioned) -> ImageInput:
        return ImageInput(example.pixels.numpy())

    def answer(self, encoded: Encoded[ImageInput], outputs: Sequence[Arrays]) -> str:
        """The caption that was written."""
        return self.codec.decode(encoded, outputs).caption

    def judged(self, examples: Sequence[Captioned], answers: Sequence[str]) -> dict[str, Tally]:
        """exact_match in per cent, and BLEU and chrF as sacreBLEU computes them; `notes` says how it does."""
        truth = [one.caption for one in examples]
        exact = verdicts([caption == one.strip() for caption, one in zip(answers, truth, strict=True)])
        return {"exact_match": exact} | {name: corpus(metric, answers, truth) for name, metric in _metrics().items()}

    def notes(self) -> dict[str, str]:
        return {name: signature(metric) for name, metric in _metrics().items()}


def _metrics() -> dict[str, Any]:
    from sacrebleu.metrics import BLEU, CHRF

    return {"bleu": BLEU(), "chrf": CHRF()}
