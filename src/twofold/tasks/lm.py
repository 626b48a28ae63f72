"""Language models of characters, words or byte pairs: how likely a text is, and how it goes on.

Texts lie end to end in one stream of tokens. Training cuts pieces of the context's length out of it, elsewhere every
time. Scoring slides a window over it by half of its length, so that every token but the first few is predicted from at
least half a context, and every token is counted once.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.checked import at_most, check_fields, within
from twofold.data.embedded.lm import stories
from twofold.data.examples import Splits
from twofold.data.hub import is_hub
from twofold.data.hub_readers import hub_texts
from twofold.data.readers import read_texts
from twofold.data.streaming import Streamed
from twofold.data.vocabulary import check_vocabulary, train_tokenizer
from twofold.models.configs import DecoderConfig
from twofold.models.decoder import DecoderForCausalLM
from twofold.models.recurrent import RecurrentForCausalLM
from twofold.tasks.decoding import Decoding
from twofold.tasks.generation import Aloud, Say, WritingTask, chance, decoded
from twofold.tasks.options import ModelOptions
from twofold.tasks.pieces import Pieces
from twofold.tasks.sizes import recurrent, sized
from twofold.tasks.tallies import Tally, digest, perplexity, share
from twofold.tasks.task import IGNORED, Features, padded

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


class LanguageModelling(WritingTask[str]):
    name = "lm"
    metric = "perplexity"
    metrics = lower = ("perplexity", "nats_per_token", "nats_per_character", "bits_per_character")
    model_class = DecoderForCausalLM
    recurrent_class = RecurrentForCausalLM
    reads_hub = True
    Choices = LanguageChoices
    _kept: tuple[list[str], list[tuple[Tensor, Tensor]]] = ([], [])

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
        return sized(DecoderConfig, options, len(self.tokenizer), max_position_embeddings=self.state["context"])

    def features(self, example: str) -> Features:
        """Of a whole text."""
        ids = self._stream([example])
        return {"input_ids": ids, "labels": ids}

    def rows(self, examples: Sequence[str] | Streamed[str]) -> Sequence[Features] | Streamed[Features]:
        """Pieces of the stream, twice as long as the context: `collate` cuts one context out of each."""
        if isinstance(examples, Streamed):
            return Streamed(lambda: self._pieces(examples))
        parts = (examples[start : start + TOGETHER] for start in range(0, len(examples), TOGETHER))
        return Pieces(np.concatenate([np.array(self._stream(part), np.int32) for part in parts]), self.state["context"])

    def _pieces(self, texts: Iterable[str]) -> Iterator[Features]:
        """Each begins where the one before it has its middle. No more of the stream is held than that."""
        context, held, is_first = self.state["context"], [], True
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
        return min(len(row["input_ids"]), self.state["context"])

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        """One context of every piece, beginning elsewhere every time, so that no token always has the same past.

        Nothing is said of padding where there is none: a mask costs attention its fastest kernels.
        """
        context, cut = self.state["context"], []
        for features in batch:
            ids = features["input_ids"]
            start = int(torch.randint(max(1, len(ids) - context + 1), ()))
            cut.append(np.asarray(ids[start : start + context]))
        if all(len(ids) == context for ids in cut):
            made = torch.from_numpy(np.stack(cut).astype(np.int64))
            return {"input_ids": made, "labels": made.clone()}
        whole = [{"input_ids": ids.tolist(), "labels": ids.tolist()} for ids in cut]
        return padded(whole, self.tokenizer.pad_token_id)

    def longer(self, times: int) -> Self:
        return type(self)(self.tokenizer, self.state | {"context": times * self.state["context"]})

    def scores(self, model: PreTrainedModel, examples: Sequence[str]) -> dict[str, float]:
        """perplexity and nats of a token; nats and bits of a character, which tokenizations can be compared by.

        Of several texts, each one's end is predicted too, and counts as a character. Words hide how the unknown ones
        are spelt, so of words there is no figure for characters, but the share of unknown words in per cent.
        """
        total, tokens = 0.0, 0
        for logits, targets in self._guesses(model, examples):
            total += cross_entropy(logits, targets, reduction="sum").item()
            tokens += int((targets != IGNORED).sum())
        nats = total / max(tokens, 1)
        scores = {"perplexity": math.exp(min(nats, 700.0)), "nats_per_token": nats}
        if self.state["tokenization"] == "word":
            known = self._stream(examples)
            return scores | {"unknown_words": 100 * known.count(self.tokenizer.unk_token_id) / max(len(known), 1)}
        return scores | self.judged(examples, total)

    def judged(self, examples: Sequence[str], nats: float) -> dict[str, float]:
        """nats and bits of a character, if all of these texts together cost so many."""
        characters = sum(map(len, examples)) + (len(examples) if self.state["ends"] else 0)
        return {"nats_per_character": nats / characters, "bits_per_character": nats / characters / math.log(2)}

    def tallies(self, model: PreTrainedModel, examples: Sequence[str]) -> dict[str, Tally]:
        """Of every text, or of pieces where texts are few. They are the same pieces for every tokenization."""
        # Windows follow the stream and count every token once, so that losses come in the tokens' own order.
        losses = [
            cross_entropy(logits, targets, reduction="none")[targets != IGNORED].cpu()
            for logits, targets in self._guesses(model, examples)
        ]
        whose, characters = self._parts(examples)
        nats = np.bincount(whose, torch.cat(losses).double().numpy(), len(characters))
        tokens = np.bincount(whose, minlength=len(characters)).astype(float)
        per = f"token of {digest([self.tokenizer.backend_tokenizer.to_str(), self.state['ends']])}"
        tallies = {"perplexity": perplexity(nats, tokens, per), "nats_per_token": share(nats, tokens, scale=1, per=per)}
        if self.state["tokenization"] == "word":
            return tallies
        per = "character or end of a text" if self.state["ends"] else "character"
        return tallies | {
            "nats_per_character": share(nats, characters, scale=1, per=per),
            "bits_per_character": share(nats, characters, scale=1 / math.log(2), per=per),
        }

    def write(
        self, model: PreTrainedModel, prompt: str, decoding: Decoding | None = None, say: Say | None = None
    ) -> str:
        """How the prompt goes on. A text longer than the context is written in pieces, each from half a context."""
        decoding = decoding or Decoding(temperature=0.8, top_p=0.95)
        context, end = self.state["context"], self.tokenizer.eos_token_id
        aloud = None if say is None else Aloud(self.tokenizer, say)
        prompted = self._tokens(prompt)
        if self.state["ends"] or not prompted:
            prompted = [self.tokenizer.bos_token_id, *prompted]
        made: list[int] = []
        with chance(decoding, model):
            while len(made) < decoding.max_new_tokens and end not in made:
                read = [*prompted, *made]
                # Room for as much as is wanted, but never by forgetting more than half of a context.
                room = min(decoding.max_new_tokens - len(made), context // 2)
                read = read[-(context - room) :]
                ids = torch.tensor([read], device=model.device)
                found: Any = model.generate(  # type: ignore[not-callable]
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=min(decoding.max_new_tokens - len(made), context - len(read)),
                    streamer=aloud,
                    **self.arguments(decoding, ends=self.state["ends"]),
                )
                made += found[0, len(read) :].tolist()
        return decoded(self.tokenizer, made)

    def predict(self, model: PreTrainedModel, text: str) -> dict[str, Any]:
        return {"text": text, "continuation": self.write(model, text)}

    def shown(self, prediction: Mapping[str, Any]) -> str:
        between = " " if self.state["tokenization"] == "word" else ""
        return f"{prediction['text']}{between}{prediction['continuation']}"

    def _tokens(self, text: str) -> list[int]:
        return list(self.tokenizer(text)["input_ids"])

    def _stream(self, texts: Sequence[str]) -> list[int]:
        """All texts in a row. Each begins with bos, and where texts end at all, it ends with eos."""
        stream: list[int] = []
        bos, end = self.tokenizer.bos_token_id, [self.tokenizer.eos_token_id] if self.state["ends"] else []
        # All at once, for several texts are shared out over the processor's cores; and by the library underneath, which
        # makes nothing but ids, in half the time.
        library: Any = self.tokenizer
        for encoded in library.backend_tokenizer.encode_batch_fast(list(texts)):
            stream += [bos, *encoded.ids, *end]
        return stream

    def _parts(self, texts: Sequence[str]) -> tuple[list[int], list[int]]:
        """Of every token of the stream but bos: the part it begins in; and of every part: its characters, and ends."""
        length = PIECE if len(texts) < FEW else max(1, *map(len, texts))
        whose: list[int] = []
        characters: list[int] = []
        told = self.tokenizer([*texts], return_offsets_mapping=True)["offset_mapping"]
        for text, places in zip(texts, told, strict=True):
            first = len(characters)
            characters += [len(text[start : start + length]) for start in range(0, max(1, len(text)), length)]
            last = len(characters) - 1
            whose += [min(first + start // length, last) for start, _ in places]
            if self.state["ends"]:
                whose.append(last)
                characters[last] += 1
        return whose, characters

    @torch.no_grad()
    def _guesses(self, model: PreTrainedModel, examples: Sequence[str]) -> Iterator[tuple[Tensor, Tensor]]:
        """Logits (positions, tokens) and targets (positions), batch by batch."""
        for ids, targets in self._scored(examples):
            logits = model(input_ids=ids.to(model.device), use_cache=False).logits.float()
            yield logits.flatten(0, 1), targets.to(model.device).flatten()

    def _scored(self, examples: Sequence[str]) -> list[tuple[Tensor, Tensor]]:
        """Windows over these texts. Those of the last texts are kept, for a dev split is scored again and again."""
        texts, found = self._kept
        if texts != list(examples):
            found = [*self._windows(self._stream(examples))]
            self._kept = [*examples], found
        return found

    def _windows(self, stream: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of windows over the stream and what each position is to predict; all else, and bos, is ignored."""
        context = self.state["context"]
        step = context // 2
        # A tokenizer looks its special tokens up anew each time, which is slow for every token of a text.
        bos, pad = self.tokenizer.bos_token_id, self.tokenizer.pad_token_id
        rows: list[tuple[list[int], list[int]]] = []
        for start in range(0, max(1, len(stream) - 1 - context + step), step):
            ids = stream[start : start + context]
            targets = stream[start + 1 : start + context + 1]
            ids = ids[: len(targets)]
            seen = 0 if start == 0 else context - step
            told = [IGNORED if place < seen or target == bos else target for place, target in enumerate(targets)]
            missing = context - len(ids)
            rows.append((ids + [pad] * missing, told + [IGNORED] * missing))
        size = max(1, AT_ONCE // context)
        for start in range(0, len(rows), size):
            ids, targets = zip(*rows[start : start + size], strict=True)
            yield torch.tensor(ids), torch.tensor(targets)


def _some(texts: Sequence[str]) -> Sequence[str]:
    """As many texts, evenly out of all, as byte pairs are learned from: more would change them little and take long."""
    share = sum(map(len, texts)) / CHARACTERS
    return texts if share <= 1 else texts[:: math.ceil(share)]
