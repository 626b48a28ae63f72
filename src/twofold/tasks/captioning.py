"""From an image to a sentence about it.

An image is a grid of vectors that a decoder looks at while it writes. All images are brought to one size, which is that
of the training images, or 64 to a side where those are larger.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.data.embedded.captioning import shapes
from twofold.data.examples import Captioned, Splits
from twofold.data.vocabulary import train_tokenizer
from twofold.models.captioner import CaptionerConfig, CaptionerForConditionalGeneration
from twofold.models.configs import Seq2SeqConfig
from twofold.tasks.images import read_captions, read_image, resized
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import RATES, sized
from twofold.tasks.tallies import Tally, corpus, signature, verdicts
from twofold.tasks.task import IGNORED, Features, Task

LARGEST_SIDE = 64
# Tokens of a caption; what follows is neither learned nor written.
LONGEST = 64
# Images that are captioned at once.
BATCH = 100


class Captioning(Task[Captioned]):
    name = "captioning"
    metric = "bleu"
    metrics = ("exact_match", "bleu", "chrf")
    # BLEU is 0 until four words in a row are right, of shorter captions for good.
    kept_by = "chrf"
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
        return {
            "epochs": 12.0,
            "batch_size": 64,
            "buckets": False,
            "learning_rate": RATES[size],
        }

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        # Captions are short and their words few: embeddings that start larger are told apart sooner.
        more = {"max_position_embeddings": LONGEST, "initializer_range": 0.1}
        return CaptionerConfig(decoder=sized(Seq2SeqConfig, options, len(self.tokenizer), **more))

    def features(self, example: Captioned) -> Features:
        ids = self.tokenizer(example.caption, truncation=True, max_length=LONGEST)["input_ids"]
        return {"input_ids": ids, "pixels": self._sized(example.pixels)}

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        longest = max(len(one["input_ids"]) for one in batch)
        labels = [one["input_ids"] + [IGNORED] * (longest - len(one["input_ids"])) for one in batch]
        return {"pixel_values": _values([one["pixels"] for one in batch]), "labels": torch.tensor(labels)}

    def scores(self, model: PreTrainedModel, examples: Sequence[Captioned]) -> dict[str, float]:
        """exact_match in per cent, and BLEU and chrF as sacreBLEU computes them; `notes` says how it does."""
        return self.judged(examples, self._captions(model, [self._sized(one.pixels) for one in examples]))

    def judged(self, examples: Sequence[Captioned], found: Sequence[str]) -> dict[str, float]:
        """The same of captions, whoever wrote them."""
        truth = [one.caption for one in examples]
        exact = [caption == one.strip() for caption, one in zip(found, truth, strict=True)]
        scores = {name: metric.corpus_score(found, [truth]).score for name, metric in _metrics().items()}
        return {"exact_match": 100 * sum(exact) / len(exact), **scores}

    def notes(self) -> dict[str, str]:
        return {name: signature(metric) for name, metric in _metrics().items()}

    def tallies(self, model: PreTrainedModel, examples: Sequence[Captioned]) -> dict[str, Tally]:
        found = self._captions(model, [self._sized(one.pixels) for one in examples])
        truth = [one.caption for one in examples]
        exact = verdicts([caption == one.strip() for caption, one in zip(found, truth, strict=True)])
        return {"exact_match": exact} | {name: corpus(metric, found, truth) for name, metric in _metrics().items()}

    def predict(self, model: PreTrainedModel, text: str) -> dict[str, Any]:
        """Of the image file that `text` is the path of."""
        (caption,) = self._captions(model, [self._sized(read_image(text))])
        return {"image": text, "caption": caption}

    def shown(self, prediction: Mapping[str, Any]) -> str:
        return f"{prediction['image']}\n  {prediction['caption']}"

    def _sized(self, pixels: Tensor) -> Tensor:
        return resized(pixels, self.state["height"], self.state["width"])

    @torch.no_grad()
    def _captions(self, model: PreTrainedModel, images: Sequence[Tensor]) -> list[str]:
        # Any: what generate() asks of its model, no type checker grants to one of transformers.
        writer: Any = model
        found: list[str] = []
        for start in range(0, len(images), BATCH):
            pixels = _values(images[start : start + BATCH]).to(model.device)
            written = writer.generate(pixel_values=pixels, max_new_tokens=LONGEST, do_sample=False)
            found += self.tokenizer.batch_decode(written, skip_special_tokens=True)
        return [caption.strip() for caption in found]


def _metrics() -> dict[str, Any]:
    from sacrebleu.metrics import BLEU, CHRF

    return {"bleu": BLEU(), "chrf": CHRF()}


def _values(images: Sequence[Tensor]) -> Tensor:
    """Images of uint8 as numbers from -1 to 1."""
    return torch.stack(list(images)).float() / 127.5 - 1
