"""From a text to another, by an encoder-decoder: what translation and summarization have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.checked import at_most, check_fields, within
from twofold.data.examples import Pair
from twofold.data.vocabulary import check_vocabulary, train_tokenizer
from twofold.models.configs import Seq2SeqConfig
from twofold.models.recurrent_seq2seq import RecurrentForConditionalGeneration
from twofold.models.seq2seq import Seq2SeqForConditionalGeneration
from twofold.tasks.decoding import Decoding
from twofold.tasks.generation import Aloud, Say, WritingTask, chance, decoded
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import recurrent, sized
from twofold.tasks.task import Features, batches

# Most tokens of a source, and of what is written.
LONGEST = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class PairChoices:
    """How texts are read and written."""

    vocabulary: Annotated[int, at_most(1_000_000)] = 4096
    """Most tokens, byte pairs of both sides together."""
    beams: Annotated[int, within(1, 256)] = 1
    """Beginnings kept at every step when the model is scored or predicts; 1 is greedy, more is slower and better."""
    copies: bool = False
    """Let a transformer copy tokens of the source: for names that training never showed."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_vocabulary("bpe", self.vocabulary)


class PairTask(WritingTask[Pair]):
    """One table of tokens for both sides. A source that is too long loses its end."""

    model_class = Seq2SeqForConditionalGeneration
    recurrent_class = RecurrentForConditionalGeneration

    @classmethod
    def learned(cls, train: Sequence[Pair], choices: PairChoices) -> tuple[Any, dict[str, Any]]:
        """Tokenizer and state. What is written may get half as long again as what was ever seen, and a little."""
        texts = [text for pair in train for text in (pair.source, pair.target)]
        tokenizer = train_tokenizer(texts, "bpe", size=choices.vocabulary, alike=choices.copies, ends="eos")
        longest = max(map(len, tokenizer([pair.target for pair in train])["input_ids"]))
        longest = min(longest * 3 // 2 + 10, LONGEST)
        return tokenizer, {"beams": choices.beams, "copies": choices.copies, "longest": longest}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        if options.model != "transformer":
            return recurrent(options, len(self.tokenizer))
        more = {"max_position_embeddings": LONGEST, "copies": self.state["copies"]}
        return sized(Seq2SeqConfig, options, len(self.tokenizer), **more)

    def features(self, example: Pair) -> Features:
        return {"input_ids": self._cut(example.source), "labels": self._cut(example.target)}

    def written(self, model: PreTrainedModel, sources: Sequence[str], decoding: Decoding) -> list[str]:
        """What the model makes of each source."""
        texts = [""] * len(sources)
        features = [{"input_ids": self._cut(source)} for source in sources]
        with chance(decoding, model):
            for places, batch in batches(features, self.tokenizer.pad_token_id):
                for place, ids in zip(places, self._generated(model, batch, decoding), strict=True):
                    texts[place] = decoded(self.tokenizer, ids)
        return texts

    def write(
        self, model: PreTrainedModel, prompt: str, decoding: Decoding | None = None, say: Say | None = None
    ) -> str:
        if not prompt.strip():
            raise ValueError(f"prompt must hold some text, got {prompt!r}")
        decoding = decoding or self.usual_decoding
        aloud = None if say is None else Aloud(self.tokenizer, say)
        with chance(decoding, model):
            batch = {"input_ids": torch.tensor([self._cut(prompt)])}
            return decoded(self.tokenizer, self._generated(model, batch, decoding, aloud)[0])

    @property
    def usual_decoding(self) -> Decoding:
        return Decoding(beams=self.state["beams"], max_new_tokens=self.state["longest"])

    def _generated(
        self, model: PreTrainedModel, batch: Mapping[str, Any], decoding: Decoding, aloud: Aloud | None = None
    ) -> list[list[int]]:
        found: Any = model.generate(  # type: ignore[not-callable]
            **{name: tensor.to(model.device) for name, tensor in batch.items()},
            max_new_tokens=min(decoding.max_new_tokens, LONGEST),
            streamer=aloud,
            **self.arguments(decoding),
        )
        return found[:, 1:].tolist()

    def _cut(self, text: str) -> list[int]:
        """Tokens with eos at their end, which stays when a text is too long."""
        return list(self.tokenizer(text, truncation=True, max_length=LONGEST)["input_ids"])
