"""A tag for every word: what named entities and parts of speech share.

Words come as the data has them; for a prediction a raw text is split the way those words were. Tags are chosen
together: a tag that may not follow another never does.
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.data.examples import Tagged
from twofold.models.configs import EncoderConfig
from twofold.models.encoder import EncoderForTokenClassification
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import RATES, named, sized
from twofold.tasks.task import Features, Task, batches, check_labels
from twofold.tasks.viterbi import best_path
from twofold.tasks.words import Place, encoded, hidden, learned_tokenizer, split_words

# Words that are read together. A longer sentence is read in pieces.
LONGEST = 512


class Tagging(Task[Tagged]):
    """Examples, scores and what is printed are a subclass's."""

    model_class = EncoderForTokenClassification

    @classmethod
    def prepared(cls, train: Sequence[Tagged]) -> Self:
        tokenizer = learned_tokenizer(word for one in train for word in one.words)
        return cls(tokenizer, {"tags": cls.all_tags(train)})

    @classmethod
    def all_tags(cls, train: Sequence[Tagged]) -> list[str]:
        return sorted({tag for one in train for tag in one.tags})

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        return {"epochs": 4.0, "batch_size": 32, "learning_rate": RATES[size]}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        return sized(
            EncoderConfig, options, len(self.tokenizer), **named(self.state["tags"]), max_position_embeddings=LONGEST
        )

    def features(self, example: Tagged) -> Features:
        return {**self._read(example.words), "labels": [self.state["tags"].index(tag) for tag in example.tags]}

    def rows(self, examples: Sequence[Tagged]) -> list[Features]:
        return [self.features(piece) for one in examples for piece in _pieces(one)]

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        return hidden(super().collate(batch), self.tokenizer)

    def scores(self, model: PreTrainedModel, examples: Sequence[Tagged]) -> dict[str, float]:
        return self.judged(examples, self._tags(model, [one.words for one in examples]))

    @abstractmethod
    def judged(self, examples: Sequence[Tagged], found: Sequence[Sequence[str]]) -> dict[str, float]:
        """The scores of these tags, whoever found them."""

    def tagged(self, model: PreTrainedModel, text: str) -> tuple[list[Place], list[str]]:
        """The words of a raw text by place, and their tags."""
        if not text.strip():
            raise ValueError("text must not be empty: there is no word in it")
        places = split_words(text, self._known)
        return places, self._tags(model, [[text[start:end] for start, end in places]])[0]

    @torch.no_grad()
    def _tags(self, model: PreTrainedModel, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """The best tags of every sentence's words."""
        pieces = [
            (number, words[start : start + LONGEST])
            for number, words in enumerate(sentences)
            for start in range(0, len(words), LONGEST)
        ]
        logits: list[list[Tensor]] = [[] for _ in sentences]
        found: list[Tensor] = [torch.empty(0)] * len(pieces)
        for places, batch in batches([self._read(words) for _, words in pieces], self.tokenizer.pad_token_id):
            out = model(**{name: tensor.to(model.device) for name, tensor in batch.items()}).logits.float().cpu()
            for row, place in enumerate(places):
                found[place] = out[row, : len(pieces[place][1])]
        for (number, _), piece in zip(pieces, found, strict=True):
            logits[number].append(piece)
        return [[self.state["tags"][tag] for tag in best_path(torch.cat(one), self._moves)] for one in logits]

    def _true_tags(self, examples: Sequence[Tagged]) -> list[list[str]]:
        check_labels((tag for one in examples for tag in one.tags), self.state["tags"])
        return [list(one.tags) for one in examples]

    def _read(self, words: Sequence[str]) -> Features:
        ids, cues = encoded(self.tokenizer, words, self.vocabulary)
        return {"input_ids": ids, "cue_ids": cues}

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(token.removeprefix("word:") for token in self.vocabulary if token.startswith("word:"))

    @cached_property
    def _moves(self) -> Tensor | None:
        """What `best_path` takes: 0 where a tag may follow another, -inf where not; None where all may."""
        tags = self.state["tags"]
        may = torch.tensor([[self.may_follow(tag, before) for tag in tags] for before in (*tags, None)])
        return None if bool(may.all()) else torch.zeros(may.shape).masked_fill(~may, -torch.inf)

    @staticmethod
    def may_follow(tag: str, before: str | None) -> bool:
        """Any tag may, unless a subclass knows better."""
        del tag, before
        return True


def _pieces(example: Tagged) -> list[Tagged]:
    """A sentence in pieces that are read together."""
    starts = range(0, len(example.words), LONGEST)
    return [Tagged(example.words[at : at + LONGEST], example.tags[at : at + LONGEST]) for at in starts]
