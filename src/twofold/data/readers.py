"""Readers of files: a folder or a file in, examples out. Every file may be gzipped; every error says where and what.

A folder has train, dev (or valid, validation, val) and test files. If only train is there, dev and test are cut from
it by hash, a tenth each, and the result's `cut` says so.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from twofold.data import bio
from twofold.data.examples import (
    SPLITS,
    Answer,
    Document,
    Labelled,
    Pair,
    Query,
    Question,
    Retrieval,
    Splits,
    Tagged,
)
from twofold.data.files import (
    NAMES,
    DataError,
    counted,
    cut_missing,
    field,
    is_all_test,
    lines_of,
    named,
    read_splits,
    records_of,
    text_of,
    words_in,
)

Example = TypeVar("Example")


def read_tagged(path: Path | str, *, bio_tags: bool = False) -> Splits[Tagged]:
    """`word<TAB>tag` a line, a blank line between sentences. With `bio_tags`, spans must be well formed."""

    def read(file: Path) -> list[Tagged]:
        return [sentence.tagged for sentence in bio.sentences(file, bio=bio_tags)]

    return read_splits(
        path, (".tsv", ".bio", ".conll", ".txt"), read, lambda one: " ".join(one.words), lambda one: one.tags
    )


def read_labelled(path: Path | str) -> Splits[Labelled]:
    """{"text", "label"} a line (.jsonl), or text<TAB>label a line (.tsv)."""

    def read(file: Path) -> list[Labelled]:
        if ".jsonl" in file.suffixes:
            found = records_of(file)
            labels = ((n, one, words_in(file, n, one, "label").strip()) for n, one in found)
            return [Labelled(words_in(file, n, one, "text"), label) for n, one, label in labels]
        if file.name.removesuffix(".gz").endswith(".json"):
            raise DataError(
                file, None, "expected a JSON object a line, in a file called .jsonl, or text<TAB>label in a .tsv"
            )
        return [_labelled(file, n, line) for n, line in enumerate(lines_of(file), 1) if line.strip()]

    return read_splits(path, (".jsonl", ".tsv"), read, lambda one: one.text, lambda one: [one.label])


def _labelled(path: Path, number: int, line: str) -> Labelled:
    text, _, label = (part.strip() for part in line.rpartition("\t"))
    if not text or not label:
        raise DataError(path, number, f"expected text<TAB>label, got {line!r:.60}")
    return Labelled(text, label)


def read_pairs(folder: Path | str, source: str, target: str) -> Splits[Pair]:
    """Parallel text: line n of `train.en` belongs to line n of `train.de`; also `train.en-de.en`, `train.en-de.de`."""
    folder = Path(folder)
    endings = [f".{source}", f".{source}-{target}.{source}", f".{target}-{source}.{source}"]

    def read(file: Path) -> list[Pair]:
        name = file.name.removesuffix(".gz").removesuffix(source) + target
        beside = named(folder, name)
        if beside is None:
            raise DataError(file, None, f"has no {name} beside it")
        ours, theirs = lines_of(file), lines_of(beside)
        if len(ours) != len(theirs):
            raise DataError(beside, None, f"has {counted(len(theirs), 'line')}, but {file.name} has {len(ours)}")
        pairs = []
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True), 1):
            if bool(one) != bool(other):
                empty, full = (file, beside) if other else (beside, file)
                raise DataError(empty, number, f"is an empty line, but that line of {full.name} is not")
            if one:
                pairs.append(Pair(one, other))
        return pairs

    return read_splits(folder, endings, read, lambda pair: pair.source)


def read_summaries(path: Path | str) -> Splits[Pair]:
    """{"text", "summary"} a line."""

    def read(file: Path) -> list[Pair]:
        found = records_of(file)
        return [Pair(words_in(file, n, one, "text"), words_in(file, n, one, "summary")) for n, one in found]

    return read_splits(path, (".jsonl",), read, lambda pair: pair.source)


def read_questions(path: Path | str) -> Splits[Question]:
    """{"id", "context", "question", "answers": [{"text", "start"}]} a line; every answer must stand at its start."""

    def read(file: Path) -> list[Question]:
        return [_question(file, number, record) for number, record in records_of(file)]

    return read_splits(path, (".jsonl",), read, lambda question: question.context)


def _question(path: Path, line: int, record: dict) -> Question:
    context = words_in(path, line, record, "context")
    answers = []
    for entry in field(path, line, record, "answers", "list"):
        if not isinstance(entry, dict):
            raise DataError(path, line, f"every answer must be an object, got {entry!r}")
        text, start = words_in(path, line, entry, "text"), field(path, line, entry, "start", "whole number")
        found = context[start : start + len(text)] if start >= 0 else ""
        if found != text:
            raise DataError(path, line, f"answer {text!r} is not at {start} of the context, {found!r} is")
        answers.append(Answer(text, start))
    if not answers:
        raise DataError(path, line, "field 'answers' is empty")
    return Question(str(record.get("id", line)), context, words_in(path, line, record, "question"), tuple(answers))


def read_retrieval(folder: Path | str) -> Retrieval:
    """`docs.jsonl` {"doc_id", "title"?, "text"}; `queries.train.jsonl` {"query_id", "text"}; `qrels.train.tsv`.

    A judgement is query_id<TAB>doc_id<TAB>relevance; 0 is not relevant, and a higher grade counts for more.
    A query may bring its own "relevant": [doc_id, ...] instead.
    """
    folder = Path(folder)
    if not folder.is_dir():
        problem = "is a file, expected a folder with docs.jsonl in it" if folder.exists() else "no such folder"
        raise DataError(folder, None, problem)
    file = named(folder, "docs.jsonl")
    if file is None:
        raise DataError(folder, None, "holds no docs.jsonl")
    documents: dict[str, Document] = {}
    for line, record in records_of(file):
        name, text = words_in(file, line, record, "doc_id"), field(file, line, record, "text")
        if name in documents:
            raise DataError(file, line, f"doc_id {name!r} occurs twice")
        title = field(file, line, record, "title") if "title" in record else ""
        documents[name] = Document(name, f"{title}\n{text}".strip())
    found = {split: _queries(folder, split, documents) for split in SPLITS}
    if not any(found.values()):
        raise DataError(folder, None, "holds no queries: expected queries.train.jsonl, or dev and test likewise")
    queries = Splits(found["train"], found["dev"], found["test"])
    return Retrieval(list(documents.values()), cut_missing(folder, queries, lambda query: query.text))


def _queries(folder: Path, split: str, documents: dict[str, Document]) -> list[Query]:
    file = next((path for name in NAMES[split] if (path := named(folder, f"queries.{name}.jsonl"))), None)
    if file is None:
        return []
    judged = named(folder, f"qrels.{file.name.split('.')[1]}.tsv")
    relevant = _judgements(judged, documents) if judged else {}
    queries, seen = [], set()
    for line, record in records_of(file):
        names: dict[str, int] = {}
        # Whoever brings the judgement along needs no name.
        if "query_id" in record or "relevant" not in record:
            name = words_in(file, line, record, "query_id")
            if name in seen:
                raise DataError(file, line, f"query_id {name!r} is there twice")
            seen.add(name)
            names = relevant.pop(name, {})
            if names and judged and "relevant" in record:
                raise DataError(file, line, f"query {name!r} is judged here and in {judged.name}: leave one out")
        if "relevant" in record:
            names = {str(one): 1 for one in field(file, line, record, "relevant", "list")}
        strange = [one for one in names if one not in documents]
        if strange or not names:
            raise DataError(
                file, line, f"unknown doc_id {strange[0]!r}" if strange else "query without a relevant document"
            )
        queries.append(Query(words_in(file, line, record, "text"), names))
    if relevant and judged:
        raise DataError(judged, None, f"judges query {next(iter(relevant))!r}, which {file.name} lacks")
    return queries


def _judgements(path: Path, documents: dict[str, Document]) -> dict[str, dict[str, int]]:
    relevant: dict[str, dict[str, int]] = {}
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        parts = line.split("\t")
        if len(parts) != 3 or not re.fullmatch(r"-?[0-9]{1,9}", parts[2].strip()):
            raise DataError(path, number, f"expected query_id<TAB>doc_id<TAB>relevance, got {line!r:.60}")
        if parts[1] not in documents:
            raise DataError(path, number, f"unknown doc_id {parts[1]!r}")
        if int(parts[2]) > 0:
            relevant.setdefault(parts[0], {})[parts[1]] = int(parts[2])
    return relevant


def read_texts(path: Path | str) -> Splits[str]:
    """Plain text (.txt), one string a file, or {"text"} a line (.jsonl), for language modelling.

    Where train is alone and one text, its last 5 % are test, and the 5 % before them dev.
    """

    def read(file: Path) -> list[str]:
        if ".jsonl" in file.suffixes:
            return [words_in(file, number, record, "text") for number, record in records_of(file)]
        return [text_of(file)]

    splits = read_splits(path, (".txt", ".jsonl"), read, None)
    if len(splits.train) > 1 or is_all_test():
        return cut_missing(path, splits, lambda text: text)
    wanted = [name for name in ("dev", "test") if name in splits.missing]
    if not splits.train or not wanted:
        return splits
    text = splits.train[0]
    size = len(text) // 20
    if not size:
        there = counted(len(text), "character")
        raise DataError(path, None, f"has {there}, too few to cut {' and '.join(wanted)} from")
    ends = [text[len(text) - size * (len(wanted) - place) :][:size] for place in range(len(wanted))]
    parts = {"dev": splits.dev, "test": splits.test} | {name: [end] for name, end in zip(wanted, ends, strict=True)}
    return Splits([text[: len(text) - size * len(wanted)]], parts["dev"], parts["test"], cut=tuple(wanted))


def check_known(splits: Splits[Example], labels: Callable[[Example], Iterable[str]], path: Path | str = "data") -> None:
    """Raises if dev or test has a label that train lacks: nothing could ever predict it."""
    if not splits.train:
        return
    known = {label for example in splits.train for label in labels(example)}
    for name in ("dev", "test"):
        for place, example in enumerate(getattr(splits, name), 1):
            for label in labels(example):
                if label not in known:
                    raise DataError(path, None, f"label {label!r} of example {place} in {name} does not occur in train")
