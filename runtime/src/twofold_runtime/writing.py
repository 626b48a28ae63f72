"""Tasks whose answer is text, written token by token: lm, translation, summarization."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from twofold_runtime.codec import Codec, Encoded, Input, TextCodec, batches, checked_text, padded
from twofold_runtime.decoding import Decoding
from twofold_runtime.engine import Arrays, Writer
from twofold_runtime.predictions import (
    ContinuationPrediction,
    Prediction,
    SummaryPrediction,
    TranslationPrediction,
)
from twofold_runtime.tokens import BEGIN, END, PAD, UNKNOWN, TextTokenizer

# Most tokens of a source, and of what is written about it.
LONGEST = 512
# Half of a character is decoded as this, and waits for its other half.
UNFINISHED = "\ufffd"

Say = Callable[[str], None]


class Streamer:
    """Says the text of ids that arrive piece by piece."""

    def __init__(self, tokens: TextTokenizer, say: Say) -> None:
        self.tokens, self.say = tokens, say
        self.ids: list[int] = []
        self.said = 0

    def add(self, ids: Sequence[int]) -> None:
        self.ids += ids
        text = self.tokens.decode(self.ids)
        if not text.endswith(UNFINISHED):
            self._say(text)

    def end(self) -> None:
        """Say what waited."""
        self._say(self.tokens.decode(self.ids))

    def _say(self, text: str) -> None:
        if len(text) > self.said:
            self.say(text[self.said :])
            self.said = len(text)


class WritingCodec(Codec[Input]):
    """A task whose model writes. Its engine is a Writer; the output of a row is the array "ids"."""

    reads_words = False
    tokens: TextTokenizer
    never: ClassVar[tuple[int, ...]] = (PAD, BEGIN, UNKNOWN)
    """Ids that no text has."""

    @property
    @abstractmethod
    def usual_decoding(self) -> Decoding:
        """How a prediction is written."""

    @property
    def most_tokens(self) -> int:
        """Longest text that the model can write at once."""
        return LONGEST

    def run(self, engine: Any, inputs: Sequence[Encoded[Input]]) -> list[list[dict[str, np.ndarray]]]:
        return [[{"ids": np.array(ids, np.int64)}] for ids in self.write(engine, inputs, self.usual_decoding)]

    def write(
        self, writer: Writer, inputs: Sequence[Encoded[Input]], decoding: Decoding, say: Say | None = None
    ) -> list[list[int]]:
        """What the model writes for each input; say hears the text of a single input while it is written."""
        rows = [one.rows[0] for one in inputs]
        streamer = None if say is None else Streamer(self.tokens, say)
        written: list[list[int]] = [[] for _ in rows]
        for places in batches([len(next(iter(row.values()))) for row in rows], self.batch):
            made = writer.write(
                padded([rows[place] for place in places]),
                decoding=decoding,
                max_new_tokens=min(decoding.max_new_tokens, self.most_tokens),
                never=self.never,
                listen=None if streamer is None else streamer.add,
            )
            for place, ids in zip(places, made, strict=True):
                written[place] = ids
        if streamer is not None:
            streamer.end()
        return written

    def text_of(self, outputs: Sequence[Arrays]) -> str:
        """The text of what was written."""
        return self.tokens.decode(outputs[0]["ids"].tolist())


class ContinuationCodec(TextCodec, WritingCodec[str]):
    """lm: how a text goes on. A text longer than the context is written in pieces, each from half a context."""

    task = "lm"
    reading_shape: ClassVar[Mapping[str, Any]] = {"tokenization": str, "context": int, "ends": bool}

    @property
    def usual_decoding(self) -> Decoding:
        return Decoding(temperature=0.8, top_p=0.95)

    def encode(self, input: str) -> Encoded[str]:
        text = checked_text(input, may_be_empty=True)
        ids = self.tokens.encode(text)
        if self.reading["ends"] or not ids:
            ids = [BEGIN, *ids]
        return Encoded(text, ({"input_ids": np.array(ids, np.int64)},))

    def decode(self, encoded: Encoded[str], outputs: Sequence[Arrays]) -> Prediction:
        return ContinuationPrediction(encoded.input, self.text_of(outputs))

    def shown(self, prediction: Prediction) -> str:
        between = " " if self.reading["tokenization"] == "word" else ""
        return f"{prediction['text']}{between}{prediction['continuation']}"

    def write(
        self, writer: Writer, inputs: Sequence[Encoded[str]], decoding: Decoding, say: Say | None = None
    ) -> list[list[int]]:
        return [self._continued(writer, one.rows[0]["input_ids"].tolist(), decoding, say) for one in inputs]

    def _continued(self, writer: Writer, prompt: list[int], decoding: Decoding, say: Say | None) -> list[int]:
        context, written = self.reading["context"], []
        streamer = None if say is None else Streamer(self.tokens, say)
        # Where texts have no end, a model of them writes on and on.
        never = self.never if self.reading["ends"] else (*self.never, END)
        while len(written) < decoding.max_new_tokens and END not in written:
            # Room for as much as is wanted, but never by forgetting more than half of a context.
            left = decoding.max_new_tokens - len(written)
            read = [*prompt, *written][-(context - min(left, context // 2)) :]
            [ids] = writer.write(
                padded([{"input_ids": np.array(read, np.int64)}]),
                # With one seed for all, every piece would be drawn by the same random numbers.
                decoding=replace(decoding, seed=(decoding.seed + len(written)) % 2**64),
                max_new_tokens=min(left, context - len(read)),
                never=never,
                listen=None if streamer is None else streamer.add,
            )
            written += ids
        if streamer is not None:
            streamer.end()
        return written


class PairCodec(TextCodec, WritingCodec[str]):
    """A text from a text. A source that is too long loses its end."""

    reading_shape: ClassVar[Mapping[str, Any]] = {"beams": int, "copies": bool, "longest": int}

    @property
    def usual_decoding(self) -> Decoding:
        return Decoding(beams=self.reading["beams"], max_new_tokens=self.reading["longest"])

    def encode(self, input: str) -> Encoded[str]:
        text = checked_text(input)
        return Encoded(text, ({"input_ids": np.array(self.tokens.encode(text, LONGEST), np.int64)},))


class TranslationCodec(PairCodec):
    """translation: a sentence in another language."""

    task = "translation"
    reading_shape: ClassVar[Mapping[str, Any]] = {**PairCodec.reading_shape, "words": str}

    def decode(self, encoded: Encoded[str], outputs: Sequence[Arrays]) -> Prediction:
        return TranslationPrediction(encoded.input, self.text_of(outputs))

    def shown(self, prediction: Prediction) -> str:
        return f"{prediction['text']}\n  {prediction['translation']}"


class SummaryCodec(PairCodec):
    """summarization: a text in short."""

    task = "summarization"

    def decode(self, encoded: Encoded[str], outputs: Sequence[Arrays]) -> Prediction:
        return SummaryPrediction(encoded.input, self.text_of(outputs))

    def shown(self, prediction: Prediction) -> str:
        return str(prediction["summary"])
