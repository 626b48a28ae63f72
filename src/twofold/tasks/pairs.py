"""From a text to another, by an encoder-decoder: what translation and summarization have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from transformers import PreTrainedConfig

from twofold.data.examples import Pair
from twofold.data.vocabulary import check_vocabulary, train_tokenizer
from twofold.models.configs import Seq2SeqConfig
from twofold.models.engine import TorchWriter
from twofold.models.recurrent_seq2seq import RecurrentForConditionalGeneration
from twofold.models.seq2seq import Seq2SeqForConditionalGeneration
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import recurrent, sized
from twofold.tasks.task import Features, Task
from twofold_runtime.checked import at_most, check_fields, within
from twofold_runtime.codec import Encoded
from twofold_runtime.engine import Arrays
from twofold_runtime.writing import LONGEST


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


class PairTask(Task[Pair]):
    """One table of tokens for both sides. A source that is too long loses its end."""

    model_class = Seq2SeqForConditionalGeneration
    engine = TorchWriter
    recurrent_class = RecurrentForConditionalGeneration

    @classmethod
    def learned(cls, train: Sequence[Pair], choices: PairChoices) -> tuple[Any, dict[str, Any]]:
        """Tokenizer and reading. What is written may get half as long again as what was ever seen, and a little."""
        texts = [text for pair in train for text in (pair.source, pair.target)]
        tokenizer = train_tokenizer(texts, "bpe", size=choices.vocabulary, alike=choices.copies, ends="eos")
        longest = max(map(len, tokenizer([pair.target for pair in train])["input_ids"]))
        longest = min(longest * 3 // 2 + 10, LONGEST)
        return tokenizer, {"beams": choices.beams, "copies": choices.copies, "longest": longest}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        if options.model != "transformer":
            return recurrent(options, len(self.tokenizer))
        more = {"max_position_embeddings": LONGEST, "copies": self.reading["copies"]}
        return sized(Seq2SeqConfig, options, len(self.tokenizer), **more)

    def features(self, example: Pair) -> Features:
        source, target = (self.codec.tokens.encode(text, LONGEST) for text in (example.source, example.target))
        return {"input_ids": np.array(source, np.int64), "labels": np.array(target, np.int64)}

    def input_of(self, example: Pair) -> str:
        return example.source

    def answer(self, encoded: Encoded[str], outputs: Sequence[Arrays]) -> str:
        """The text that was written."""
        return self.codec.text_of(outputs)
