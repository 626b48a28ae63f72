"""Language models of characters, words or byte pairs: how likely a text is, and how it goes on.

Texts lie end to end in one stream of tokens. Training cuts pieces of the context's length out of it, elsewhere every
time. Scoring slides a window over it by half of its length, so that every token but the first few is predicted from at
least half a context, and every token is counted once.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.data.embedded.lm import stories
from twofold.data.examples import Splits
from twofold.data.hub import is_hub
from twofold.data.hub_readers import hub_texts
from twofold.data.readers import read_texts
from twofold.data.streaming import Streamed
from twofold.data.vocabulary import check_vocabulary, train_tokenizer
from twofold.models.configs import DecoderConfig
from twofold.models.decoder import DecoderForCausalLM
from twofold.models.engine import TorchWriter
from twofold.models.recurrent import RecurrentForCausalLM
from twofold.tasks.options import ModelOptions
from twofold.tasks.pieces import Pieces
from twofold.tasks.sizes import recurrent, sized
from twofold.tasks.tallies import Tally, digest, perplexity, share
from twofold.tasks.task import IGNORED, Features, Task, tensors_of
from twofold_runtime.checked import at_most, check_fields, within
from twofold_runtime.tokens import BEGIN, END, PAD, UNKNOWN

# Tokens whose logits are computed at once when scoring.
AT_ONCE = 8192
# Texts that are made tokens of at once.
TOGETHER = 1000
# Models are compared by texts; where there are fewer than so many, by pieces of them of so many characters.
FEW, PIECE = 50, 1000
# Texts of a stream from which the tokenizer is learned; and characters from which byte pairs are, of all texts alike.
LEARNED_FROM, CHARACTERS = 10_000, 20_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageChoices:
    """How text is read."""

    tokenization: Literal["char", "word", "bpe"] = "char"
    """What a token is: a character, a word, or a byte pair."""
    vocabulary: Annotated[int, at_most(1_000_000)] = 8192
    """Most tokens, of words or byte pairs. Words beyond are unknown."""
    context_length: Annotated[int, within(4, 1_000_000)] = 256
    """Most tokens that the model reads at once."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_vocabulary(self.tokenization, self.vocabulary)


USUAL = LanguageChoices()


class Losses(NamedTuple):
    """What a text costs: nats and tokens, ends counted in; its characters, and its unknown words."""

    nats: float
    tokens: int
    characters: int
    unknown: int


class Scored(NamedTuple):
    """Texts as they are scored: windows over them, the part that every token is in, and each part's characters and
    unknown words.
    """

    texts: list[str]
    windows: list[tuple[Tensor, Tensor]]
    parts: np.ndarray
    characters: list[int]
    unknown: list[int]


class LanguageModelling(Task[str]):
    name = "lm"
    metric = "perplexity"
    metrics = lower = ("perplexity", "nats_per_token", "nats_per_character", "bits_per_character")
    model_class = DecoderForCausalLM
    engine = TorchWriter
    recurrent_class = RecurrentForCausalLM
    reads_hub = True
    Choices = LanguageChoices
    # The last texts that were scored: a dev split is scored again and again.
    _last: Scored | None = None

    @classmethod
    def examples(cls, data: Path | None, seed: int = 0, choices: LanguageChoices = USUAL) -> Splits[str]:
        del choices
        if data is None:
            return stories(seed)
        return hub_texts(data) if is_hub(data) else read_texts(data)

    @classmethod
    def prepared(cls, train: Sequence[str] | Streamed[str], choices: LanguageChoices = USUAL) -> Self:
        kind = choices.tokenization
        if isinstance(train, Streamed):
            train = list(islice(train, LEARNED_FROM))
        texts = _some(train) if kind == "bpe" else train
        # For whoever generates from several prompts with transformers; here nobody pads them.
        tokenizer = train_tokenizer(texts, kind, size=choices.vocabulary, padding_side="left")
        # One long text never ends; several do, and a model of them learns where.
        return cls(tokenizer, {"tokenization": kind, "context": choices.context_length, "ends": len(train) > 1})

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        return {"epochs": 2.0, "batch_size": 32, "learning_rate": {"tiny": 4e-3, "small": 2e-3, "base": 1e-3}[size]}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        if options.model != "transformer":
            return recurrent(options, len(self.tokenizer))
        return sized(DecoderConfig, options, len(self.tokenizer), max_position_embeddings=self.reading["context"])

    def features(self, example: str) -> Features:
        """Of a whole text."""
        ids = self._stream([example])
        return {"input_ids": ids, "labels": ids}

    def rows(self, examples: Sequence[str] | Streamed[str]) -> Sequence[Features] | Streamed[Features]:
        """Pieces of the stream, twice as long as the context: `collate` cuts one context out of each."""
        if isinstance(examples, Streamed):
            return Streamed(lambda: self._pieces(examples))
        parts = (examples[start : start + TOGETHER] for start in range(0, len(examples), TOGETHER))
        stream = np.concatenate([np.array(self._stream(part), np.int32) for part in parts])
        return Pieces(stream, self.reading["context"])

    def _pieces(self, texts: Iterable[str]) -> Iterator[Features]:
        """Each begins where the one before it has its middle. No more of the stream is held than that."""
        context, held, is_first = self.reading["context"], [], True
        for text in texts:
            held += self._stream([text])
            start = 0
            while len(held) - start >= 2 * context:
                yield {"input_ids": held[start : start + 2 * context]}
                start, is_first = start + context, False
            del held[:start]
        if len(held) > context or is_first:
            yield {"input_ids": held}

    def tokens_of(self, row: Features) -> int:
        return min(len(row["input_ids"]), self.reading["context"])

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        """One context of every piece, beginning elsewhere every time, so that no token always has the same past.

        Nothing is said of padding where there is none: a mask costs attention its fastest kernels.
        """
        context, cut = self.reading["context"], []
        for features in batch:
            ids = features["input_ids"]
            start = int(torch.randint(max(1, len(ids) - context + 1), ()))
            cut.append(np.asarray(ids[start : start + context]))
        if all(len(ids) == context for ids in cut):
            made = torch.from_numpy(np.stack(cut).astype(np.int64))
            return {"input_ids": made, "labels": made.clone()}
        return tensors_of([{"input_ids": ids.astype(np.int64), "labels": ids.astype(np.int64)} for ids in cut])

    def longer(self, times: int) -> Self:
        return type(self)(self.tokenizer, {**self.reading, "context": times * self.reading["context"]})

    def input_of(self, example: str) -> str:
        return example

    def answers(self, model: PreTrainedModel, examples: Sequence[str]) -> list[Losses]:
        """What the tokens of every text cost, or of its pieces where texts are few."""
        scored = self._scored(examples)
        # Windows follow the stream and count every token once, so that losses come in the tokens' own order.
        losses = torch.cat([self._losses(model, ids, targets) for ids, targets in scored.windows])
        nats = np.bincount(scored.parts, losses.double().cpu().numpy(), len(scored.characters))
        tokens = np.bincount(scored.parts, minlength=len(scored.characters))
        return [Losses(*row) for row in zip(nats, tokens, scored.characters, scored.unknown, strict=True)]

    def judged(self, examples: Sequence[str], answers: Sequence[Losses]) -> dict[str, Tally]:
        """perplexity and nats of a token; nats and bits of a character, which tokenizations can be compared by.

        Of several texts, each one's end is predicted too, and counts as a character. Words hide how the unknown ones
        are spelt, so of words there is no figure for characters, but the share of unknown words in per cent.
        """
        del examples
        nats, tokens, characters, unknown = (np.array(column, float) for column in zip(*answers, strict=True))
        per = f"token of {digest([self.tokenizer.backend_tokenizer.to_str(), self.reading['ends']])}"
        tallies = {"perplexity": perplexity(nats, tokens, per), "nats_per_token": share(nats, tokens, scale=1, per=per)}
        if self.reading["tokenization"] == "word":
            return tallies | {"unknown_words": share(unknown, tokens, per=per)}
        per = "character or end of a text" if self.reading["ends"] else "character"
        return tallies | {
            "nats_per_character": share(nats, characters, scale=1, per=per),
            "bits_per_character": share(nats, characters, scale=1 / math.log(2), per=per),
        }

    def _stream(self, texts: Sequence[str]) -> list[int]:
        """All texts in a row. Each begins with bos, and where texts end at all, it ends with eos."""
        stream: list[int] = []
        end = [END] if self.reading["ends"] else []
        # All at once, for several texts are shared out over the processor's cores; and by the library underneath, which
        # makes nothing but ids, in half the time.
        library: Any = self.tokenizer
        for encoded in library.backend_tokenizer.encode_batch_fast(list(texts)):
            stream += [BEGIN, *encoded.ids, *end]
        return stream

    def _parts(self, texts: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
        """The part that every token of the stream but bos begins in; and of every part its characters, ends counted
        in, and its unknown words.
        """
        length = PIECE if len(texts) < FEW else max(1, *map(len, texts))
        parts: list[int] = []
        characters: list[int] = []
        unknown: list[int] = []
        encoded = self.tokenizer([*texts], return_offsets_mapping=True)
        for text, places, ids in zip(texts, encoded["offset_mapping"], encoded["input_ids"], strict=True):
            first = len(characters)
            characters += [len(text[start : start + length]) for start in range(0, max(1, len(text)), length)]
            unknown += [0] * (len(characters) - first)
            last = len(characters) - 1
            own = [min(first + start // length, last) for start, _ in places]
            for part, token in zip(own, ids, strict=True):
                unknown[part] += token == UNKNOWN
            parts += own
            if self.reading["ends"]:
                parts.append(last)
                characters[last] += 1
        return parts, characters, unknown

    @torch.no_grad()
    def _losses(self, model: PreTrainedModel, ids: Tensor, targets: Tensor) -> Tensor:
        """Of every target of a batch of windows, in order."""
        logits = model(input_ids=ids.to(model.device), use_cache=False).logits.float().flatten(0, 1)
        targets = targets.to(model.device).flatten()
        return cross_entropy(logits, targets, reduction="none")[targets != IGNORED]

    def _scored(self, examples: Sequence[str]) -> Scored:
        texts = list(examples)
        if self._last is None or self._last.texts != texts:
            parts, characters, unknown = self._parts(texts)
            self._last = Scored(texts, [*self._windows(self._stream(texts))], np.array(parts), characters, unknown)
        return self._last

    def _windows(self, stream: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of windows over the stream and what each position is to predict; all else, and bos, is ignored."""
        context = self.reading["context"]
        step = context // 2
        rows: list[tuple[list[int], list[int]]] = []
        for start in range(0, max(1, len(stream) - 1 - context + step), step):
            ids = stream[start : start + context]
            targets = stream[start + 1 : start + context + 1]
            ids = ids[: len(targets)]
            seen = 0 if start == 0 else context - step
            labels = [IGNORED if place < seen or target == BEGIN else target for place, target in enumerate(targets)]
            missing = context - len(ids)
            rows.append((ids + [PAD] * missing, labels + [IGNORED] * missing))
        size = max(1, AT_ONCE // context)
        for start in range(0, len(rows), size):
            ids, targets = zip(*rows[start : start + size], strict=True)
            yield torch.tensor(ids), torch.tensor(targets)


def _some(texts: Sequence[str]) -> Sequence[str]:
    """As many texts, evenly out of all, as byte pairs are learned from: more would change them little and take long."""
    share = sum(map(len, texts)) / CHARACTERS
    return texts if share <= 1 else texts[:: math.ceil(share)]
