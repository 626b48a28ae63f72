"""From a question to the documents that answer it.

One encoder makes vectors of questions and of documents; near means relevant. It is taught with the documents of the
whole batch: each question must find its own among them. So a step's loss depends on what else is in the batch, and a
process computes its batch in one piece.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.data import examples as data_examples
from twofold.data.embedded.retrieval import help_pages
from twofold.data.examples import Query, Splits
from twofold.data.readers import read_retrieval
from twofold.data.vocabulary import train_tokenizer
from twofold.models.configs import EmbeddingConfig
from twofold.models.encoder import EncoderForSentenceEmbedding
from twofold.tasks.hiding import with_token_dropout
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import RATES, sized
from twofold.tasks.tallies import Tally, share
from twofold.tasks.task import Features, Task, tensors_of
from twofold_runtime.codec import Encoded
from twofold_runtime.ranking import LONGEST, TOP, Document, Index

# Share of questions for which a training batch asks in the document's own words: shared words are to count.
QUOTED = 0.5
# How much of a document is then asked for.
KEPT = 1 / 3

Ranking = list[tuple[Document, float]]


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """A query, and the collection to search in: one object, shared by all."""

    query: Query
    documents: Mapping[str, data_examples.Document]


class Retrieval(Task[Search]):
    name = "retrieval"
    metric = "nDCG@10"
    metrics = ("nDCG@10", "RR@10", "R@10")
    model_class = EncoderForSentenceEmbedding
    # The index of the collection that was searched last for scores.
    scored: Index | None = None

    @classmethod
    def examples(cls, data: Path | None, seed: int = 0) -> Splits[Search]:
        found = help_pages(seed) if data is None else read_retrieval(data)
        documents = {document.id: document for document in found.documents}
        train, dev, test = (
            [Search(query, documents) for query in split]
            for split in (found.queries.train, found.queries.dev, found.queries.test)
        )
        return Splits(train, dev, test, cut=found.queries.cut)

    @classmethod
    def prepared(cls, train: Sequence[Search]) -> Self:
        texts = [one.query.text for one in train] + [document.text for document in train[0].documents.values()]
        return cls(train_tokenizer(texts, "bpe", size=8192, lowercase=True, ends="both"), {})

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        # Buckets would go by the questions' lengths, and the documents are longer; large batches have more to tell
        # apart.
        return {"epochs": 10.0, "batch_size": 64, "buckets": False, "learning_rate": RATES[size]}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        return sized(EmbeddingConfig, options, len(self.tokenizer), max_position_embeddings=LONGEST)

    def features(self, example: Search) -> Features:
        """The question's tokens, and those of every document that answers it."""
        relevant = sorted(example.query.relevant)
        return {
            "input_ids": self._read(example.query.text),
            "relevant": {name: self._read(example.documents[name].text) for name in relevant},
        }

    def tokens_of(self, row: Features) -> float:
        # The tokens at a document's ends are always asked for.
        quoted = mean(2 + KEPT * (len(tokens) - 2) for tokens in row["relevant"].values())
        return QUOTED * quoted + (1 - QUOTED) * len(row["input_ids"])

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        """Questions with one of their documents each, a document that several share once."""
        own = [list(one["relevant"])[int(torch.randint(len(one["relevant"]), ()))] for one in batch]
        tokens = {name: one["relevant"][name] for name, one in zip(own, batch, strict=True)}
        places = {name: place for place, name in enumerate(tokens)}
        asked = [
            _some_of(tokens[name]) if torch.rand(()) < QUOTED else list(one["input_ids"])
            for name, one in zip(own, batch, strict=True)
        ]
        tensors = self._padded(asked)
        tensors |= {f"document_{name}": tensor for name, tensor in self._padded(list(tokens.values())).items()}
        tensors["labels"] = torch.tensor([places[name] for name in own])
        tensors["also_right"] = torch.tensor(
            [
                [other in one["relevant"] and other != name for other in tokens]
                for name, one in zip(own, batch, strict=True)
            ]
        )
        return tensors

    def encode(self, example: Search) -> Encoded[str]:
        return self.codec.encode(example.query.text)

    def input_of(self, example: Search) -> str:
        return example.query.text

    def answers(self, model: PreTrainedModel, examples: Sequence[Search]) -> list[Ranking]:
        """For every query the documents of the collection that are nearest."""
        self.scored = index = self.index(model, examples)
        return [index.search(outputs[0]["pooler_output"], TOP) for _, outputs in self.run(model, examples)]

    def index(self, model: PreTrainedModel, examples: Sequence[Search]) -> Index:
        """The collection that the examples search in, with the vectors of its documents."""
        documents = [Document(document.id, document.text) for document in examples[0].documents.values()]
        encoded = [self.codec.encode(document.text) for document in documents]
        outputs = self.codec.run(self.engine(model), encoded)
        return Index(documents, np.stack([one["pooler_output"] for [one] in outputs]))

    def judged(self, examples: Sequence[Search], answers: Sequence[Ranking]) -> dict[str, Tally]:
        """nDCG@10, RR@10 and R@10 as ir-measures computes them, from 0 to 1."""
        return ranking_tallies([one.query for one in examples], answers)

    def write_files(self, folder: Path) -> None:
        """The index of the collection that was scored, which predictions search from then on."""
        if self.scored is None:
            raise ValueError("there is no index to write yet: score the model on a split first")
        self.scored.write(folder)

    def _read(self, text: str) -> list[int]:
        return self.codec.tokens.encode(text, LONGEST)

    def _padded(self, tokens: Sequence[list[int]]) -> dict[str, Tensor]:
        """A training batch with token dropout, drawn anew every time: no match may depend on a single word."""
        tensors = tensors_of([{"input_ids": np.array(one, np.int64)} for one in tokens])
        return tensors | {"input_ids": with_token_dropout(tensors["input_ids"])}


def ranking_tallies(queries: Sequence[Query], rankings: Sequence[Ranking]) -> dict[str, Tally]:
    """nDCG@10, RR@10 and R@10 of rankings, whoever made them."""
    from ir_measures import RR, Qrel, R, ScoredDoc, iter_calc, nDCG

    # Queries are named by their places; documents have their rank for a score, so that equal ones keep their order.
    truth = [Qrel(str(n), name, grade) for n, query in enumerate(queries) for name, grade in query.relevant.items()]
    found = [
        ScoredDoc(str(n), document.id, -float(rank))
        for n, ranking in enumerate(rankings)
        for rank, (document, _) in enumerate(ranking)
    ]
    measures: list[Any] = [nDCG @ 10, RR @ 10, R @ 10]
    values = {str(measure): [0.0] * len(queries) for measure in measures}
    for result in iter_calc(measures, truth, found):
        values[str(result.measure)][int(result.query_id)] = float(result.value)
    return {name: share(value, scale=1) for name, value in values.items()}


def _some_of(tokens: list[int]) -> list[int]:
    """About a third of a text's tokens, between those at its ends, in their order."""
    kept = (torch.rand(len(tokens)) < KEPT).tolist()
    return [tokens[0], *(token for token, keep in zip(tokens[1:-1], kept, strict=False) if keep), tokens[-1]]
