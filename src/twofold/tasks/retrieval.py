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

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.data.embedded.retrieval import help_pages
from twofold.data.examples import Document, Query, Splits
from twofold.data.readers import read_retrieval
from twofold.data.vocabulary import train_tokenizer
from twofold.models.configs import EmbeddingConfig
from twofold.models.encoder import EncoderForSentenceEmbedding
from twofold.tasks.hiding import some_hidden
from twofold.tasks.index import Index, read_index
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import RATES, sized
from twofold.tasks.tallies import Tally, share
from twofold.tasks.task import Features, Task, batches, padded

# Tokens of a question or a document that are read; what follows is cut off.
LONGEST = 256
# Share of questions for which a training batch asks in the document's own words: shared words are to count.
QUOTED = 0.5
# How much of a document is then asked for.
KEPT = 1 / 3
TOP = 10

Ranking = list[tuple[Document, float]]


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """A query, and the collection to search in: one object, shared by all."""

    query: Query
    documents: Mapping[str, Document]


class Retrieval(Task[Search]):
    name = "retrieval"
    metric = "nDCG@10"
    metrics = ("nDCG@10", "RR@10", "R@10")
    model_class = EncoderForSentenceEmbedding

    # Of the run that was opened or written, read when it is needed.
    folder: Path | None = None
    index: Index | None = None
    # Of the collection that was searched for scores.
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
        return {
            "epochs": 10.0,
            "batch_size": 64,
            "buckets": False,
            "learning_rate": RATES[size],
        }

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
            _some(tokens[name]) if torch.rand(()) < QUOTED else one["input_ids"]
            for name, one in zip(own, batch, strict=True)
        ]
        made = self._padded(asked)
        made |= {f"document_{name}": tensor for name, tensor in self._padded(list(tokens.values())).items()}
        made["labels"] = torch.tensor([places[name] for name in own])
        made["also_right"] = torch.tensor(
            [
                [other in one["relevant"] and other != name for other in tokens]
                for name, one in zip(own, batch, strict=True)
            ]
        )
        return made

    def scores(self, model: PreTrainedModel, examples: Sequence[Search]) -> dict[str, float]:
        """nDCG@10, RR@10 and R@10 as ir-measures computes them, from 0 to 1."""
        return ranking_scores([one.query for one in examples], self._rankings(model, examples))

    def tallies(self, model: PreTrainedModel, examples: Sequence[Search]) -> dict[str, Tally]:
        from ir_measures import iter_calc

        rankings = self._rankings(model, examples)
        measures, truth, found = _measured([one.query for one in examples], rankings)
        values = {str(measure): [0.0] * len(examples) for measure in measures}
        for told in iter_calc(measures, truth, found):
            values[str(told.measure)][int(told.query_id)] = float(told.value)
        return {name: share(value, scale=1) for name, value in values.items()}

    def predict(self, model: PreTrainedModel, text: str) -> dict[str, Any]:
        if not text.strip():
            raise ValueError("text must have something to search for, got only spaces")
        if self.index is None:
            if self.folder is None:
                raise ValueError("there is no index of documents to search in: open a run, or write one's files")
            self.index = read_index(self.folder)
        (found,) = self.index.search(self._vectors(model, [text]), TOP)
        told = [{"id": document.id, "score": score, "text": document.text} for document, score in found]
        return {"text": text, "documents": told}

    def shown(self, prediction: Mapping[str, Any]) -> str:
        found = [f"  {one['score']:5.2f}  {one['id']}: {_line(one['text'])}" for one in prediction["documents"]]
        return "\n".join([prediction["text"], *found])

    def write_files(self, folder: Path) -> None:
        """The index of the collection that was scored, which predictions search from then on."""
        if self.scored is None:
            raise ValueError("there is no index to write yet: score the model on a split first")
        self.index = self.scored
        self.index.write(folder)

    def opened_in(self, folder: Path) -> None:
        self.folder = folder

    def _rankings(self, model: PreTrainedModel, examples: Sequence[Search]) -> list[Ranking]:
        queries = self._vectors(model, [one.query.text for one in examples])
        documents = list(examples[0].documents.values())
        self.scored = Index(documents, self._vectors(model, [document.text for document in documents]))
        return self.scored.search(queries, TOP)

    def _read(self, text: str) -> list[int]:
        return self.tokenizer(text, truncation=True, max_length=LONGEST)["input_ids"]

    def _padded(self, tokens: Sequence[list[int]]) -> dict[str, Tensor]:
        """A training batch, with some tokens hidden anew every time: no match may hang on a single word."""
        made = padded([{"input_ids": one} for one in tokens], self.tokenizer.pad_token_id)
        return made | {"input_ids": some_hidden(made["input_ids"], self.tokenizer)}

    @torch.no_grad()
    def _vectors(self, model: PreTrainedModel, texts: Sequence[str]) -> Tensor:
        """(texts, width), on the CPU."""
        vectors = torch.zeros(len(texts), model.config.hidden_size)
        for places, batch in batches([{"input_ids": self._read(text)} for text in texts], self.tokenizer.pad_token_id):
            out = model(**{name: tensor.to(model.device) for name, tensor in batch.items()})
            vectors[places] = out.pooler_output.float().cpu()
        return vectors


def ranking_scores(queries: Sequence[Query], rankings: Sequence[Ranking]) -> dict[str, float]:
    """nDCG@10, RR@10 and R@10 of rankings, whoever made them."""
    from ir_measures import calc_aggregate

    measures, truth, found = _measured(queries, rankings)
    told = calc_aggregate(measures, truth, found)
    return {str(measure): float(told[measure]) for measure in measures}


def _measured(queries: Sequence[Query], rankings: Sequence[Ranking]) -> tuple[list[Any], list[Any], list[Any]]:
    """Measures, what is relevant and what was found, as ir-measures takes them; queries are named by their places."""
    from ir_measures import RR, Qrel, R, ScoredDoc, nDCG

    truth = [Qrel(str(n), name, grade) for n, query in enumerate(queries) for name, grade in query.relevant.items()]
    # By rank rather than score: the order among equals is then the ranking's, not that of names.
    found = [
        ScoredDoc(str(n), document.id, -float(rank))
        for n, ranking in enumerate(rankings)
        for rank, (document, _) in enumerate(ranking)
    ]
    return [nDCG @ 10, RR @ 10, R @ 10], truth, found


def _line(text: str, width: int = 80) -> str:
    """As much of a text as fits into a line."""
    whole = " ".join(text.split())
    return whole if len(whole) <= width else f"{whole[: width - 1]}…"


def _some(tokens: list[int]) -> list[int]:
    """About a third of a text's tokens, between those at its ends, in their order."""
    kept = (torch.rand(len(tokens)) < KEPT).tolist()
    return [tokens[0], *(token for token, keep in zip(tokens[1:-1], kept, strict=False) if keep), tokens[-1]]
