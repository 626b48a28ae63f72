"""Readers of files: a folder or a file in, examples out. Every file may be gzipped; every error says where and what.

A folder has train, dev (or valid, validation, val) and test files. If only train is there, dev and test are cut from
it by hash, a tenth each, and the result's `cut` says so.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from twofold.data import bio
from twofold.data.examples import (
    OUT_OF_SCOPE,
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
    Utterance,
)
from twofold.data.files import DataError, check_count, counted, field, lines_of, records_of, text_field, text_of
from twofold.data.importers.formats import GOALS, PARTS, SPANS, import_data
from twofold.data.splits import SPLIT_NAMES, cut_missing, find_file, is_all_test, read_splits, unpacked_name
from twofold_runtime.checked import shown

Example = TypeVar("Example")
# Labels that a sentence about unknown ones names.
NAMED = 20


def read_tagged(path: Path | str, *, bio_tags: bool = False) -> Splits[Tagged]:
    """`word<TAB>tag` a line, a blank line between sentences. With `bio_tags`, spans must be well formed."""

    def read(file: Path) -> list[Tagged]:
        return [sentence.tagged for sentence in bio.sentences(file, bio=bio_tags)]

    endings = (".tsv", ".bio", ".conll", ".txt")
    if imported := import_data(path, endings, SPANS if bio_tags else PARTS):
        return cut_missing(path, imported.splits, lambda tagged: " ".join(tagged.words), lambda tagged: tagged.tags)
    return read_splits(path, endings, read, lambda tagged: " ".join(tagged.words), lambda tagged: tagged.tags)


def read_labelled(path: Path | str) -> Splits[Labelled]:
    """{"text", "label"} a line (.jsonl), or text<TAB>label a line (.tsv)."""

    def read(file: Path) -> list[Labelled]:
        if ".jsonl" in file.suffixes:
            return [
                Labelled(text_field(file, line, record, "text"), text_field(file, line, record, "label").strip())
                for line, record in records_of(file)
            ]
        if unpacked_name(file).endswith(".json"):
            raise DataError(
                file, None, "expected a JSON object a line, in a file called .jsonl, or text<TAB>label in a .tsv"
            )
        return [_labelled(file, number, line) for number, line in enumerate(lines_of(file), 1) if line.strip()]

    endings = (".jsonl", ".tsv")
    if imported := import_data(path, endings, GOALS):
        train, dev, test = (_without_slots(getattr(imported.splits, name)) for name in SPLITS)
        splits = Splits(train, dev, test)
        return cut_missing(path, splits, lambda example: example.text, lambda example: [example.label])
    return read_splits(path, endings, read, lambda example: example.text, lambda example: [example.label])


def _without_slots(utterances: list[Utterance]) -> list[Labelled]:
    return [Labelled(utterance.text, utterance.goal or OUT_OF_SCOPE) for utterance in utterances]


def _labelled(path: Path, number: int, line: str) -> Labelled:
    text, _, label = (part.strip() for part in line.rpartition("\t"))
    if not text or not label:
        raise DataError(path, number, f"expected text<TAB>label, got {shown(line)}")
    return Labelled(text, label)


def read_pairs(folder: Path | str, source: str, target: str) -> Splits[Pair]:
    """Parallel text: line n of `train.en` belongs to line n of `train.de`; also `train.en-de.en`, `train.en-de.de`."""
    folder = Path(folder)
    endings = [f".{source}", f".{source}-{target}.{source}", f".{target}-{source}.{source}"]

    def read(file: Path) -> list[Pair]:
        name = unpacked_name(file).removesuffix(source) + target
        beside = find_file(folder, name)
        if beside is None:
            raise DataError(file, None, f"has no {name} beside it")
        sources, targets = lines_of(file), lines_of(beside)
        if len(sources) != len(targets):
            raise DataError(beside, None, f"has {counted(len(targets), 'line')}, but {file.name} has {len(sources)}")
        pairs = [Pair(*texts) for texts in zip(sources, targets, strict=True)]
        for number, pair in enumerate(pairs, 1):
            if bool(pair.source) != bool(pair.target):
                empty, full = (beside, file) if pair.source else (file, beside)
                raise DataError(empty, number, f"is an empty line, but that line of {full.name} is not")
        return [pair for pair in pairs if pair.source]

    return read_splits(folder, endings, read, lambda pair: pair.source)


def read_summaries(path: Path | str) -> Splits[Pair]:
    """{"text", "summary"} a line."""

    def read(file: Path) -> list[Pair]:
        return [
            Pair(text_field(file, line, record, "text"), text_field(file, line, record, "summary"))
            for line, record in records_of(file)
        ]

    return read_splits(path, (".jsonl",), read, lambda pair: pair.source)


def read_questions(path: Path | str) -> Splits[Question]:
    """{"id", "context", "question", "answers": [{"text", "start"}]} a line; every answer must stand at its start."""

    def read(file: Path) -> list[Question]:
        return [_question(file, number, record) for number, record in records_of(file)]

    return read_splits(path, (".jsonl",), read, lambda question: question.context)


def _question(path: Path, line: int, record: dict) -> Question:
    context = text_field(path, line, record, "context")
    answers = []
    for entry in field(path, line, record, "answers", "list"):
        if not isinstance(entry, dict):
            raise DataError(path, line, f"field 'answers' must hold objects, got {shown(entry)}")
        text, start = text_field(path, line, entry, "text"), field(path, line, entry, "start", "whole number")
        there = context[start : start + len(text)] if start >= 0 else ""
        if there != text:
            problem = f"answer {shown(text)} is not at {shown(start)} of the context, {shown(there)} is"
            raise DataError(path, line, problem)
        answers.append(Answer(text, start))
    if not answers:
        raise DataError(path, line, "field 'answers' is empty")
    return Question(str(record.get("id", line)), context, text_field(path, line, record, "question"), tuple(answers))


def read_retrieval(folder: Path | str) -> Retrieval:
    """`docs.jsonl` {"doc_id", "title"?, "text"}; `queries.train.jsonl` {"query_id", "text"}; `qrels.train.tsv`.

    A judgement is query_id<TAB>doc_id<TAB>relevance; 0 is not relevant, and a higher grade counts for more.
    A query may bring its own "relevant": [doc_id, ...] instead.
    """
    folder = Path(folder)
    if not folder.is_dir():
        problem = "is a file, expected a folder with docs.jsonl in it" if folder.exists() else "no such folder"
        raise DataError(folder, None, problem)
    file = find_file(folder, "docs.jsonl")
    if file is None:
        raise DataError(folder, None, "holds no docs.jsonl")
    documents: dict[str, Document] = {}
    for line, record in records_of(file):
        name, text = text_field(file, line, record, "doc_id"), field(file, line, record, "text")
        if name in documents:
            raise DataError(file, line, f"doc_id {shown(name)} occurs twice")
        title = field(file, line, record, "title") if "title" in record else ""
        documents[name] = Document(name, f"{title}\n{text}".strip())
    by_split = {split: _queries(folder, split, documents) for split in SPLITS}
    if not any(by_split.values()):
        raise DataError(folder, None, "holds no queries: expected queries.train.jsonl, or dev and test likewise")
    queries = Splits(by_split["train"], by_split["dev"], by_split["test"])
    return Retrieval(list(documents.values()), cut_missing(folder, queries, lambda query: query.text))


def _queries(folder: Path, split: str, documents: dict[str, Document]) -> list[Query]:
    file = next((path for name in SPLIT_NAMES[split] if (path := find_file(folder, f"queries.{name}.jsonl"))), None)
    if file is None:
        return []
    judged = find_file(folder, f"qrels.{file.name.split('.')[1]}.tsv")
    relevant = _judgements(judged, documents) if judged else {}
    queries, seen = [], set()
    for line, record in records_of(file):
        names: dict[str, int] = {}
        # A query that brings its own judgement needs no name.
        if "query_id" in record or "relevant" not in record:
            name = text_field(file, line, record, "query_id")
            if name in seen:
                raise DataError(file, line, f"query_id {shown(name)} occurs twice")
            seen.add(name)
            names = relevant.pop(name, {})
            if names and judged and "relevant" in record:
                problem = f"is judged here and in {judged.name}: leave one out"
                raise DataError(file, line, f"query {shown(name)} {problem}")
        if "relevant" in record:
            names = {str(name): 1 for name in field(file, line, record, "relevant", "list")}
        if not names:
            raise DataError(file, line, "query without a relevant document")
        if unknown := next((name for name in names if name not in documents), None):
            raise DataError(file, line, f"unknown doc_id {shown(unknown)}")
        queries.append(Query(text_field(file, line, record, "text"), names))
    if relevant and judged:
        raise DataError(judged, None, f"judges query {shown(next(iter(relevant)))}, which {file.name} lacks")
    return queries


def _judgements(path: Path, documents: dict[str, Document]) -> dict[str, dict[str, int]]:
    relevant: dict[str, dict[str, int]] = {}
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        parts = line.split("\t")
        if len(parts) != 3 or not re.fullmatch(r"-?[0-9]{1,18}", parts[2].strip()):
            raise DataError(path, number, f"expected query_id<TAB>doc_id<TAB>relevance, got {shown(line)}")
        query, document, grade = parts[0], parts[1], int(parts[2])
        if document not in documents:
            raise DataError(path, number, f"unknown doc_id {shown(document)}")
        check_count(path, number, "GRADE", grade, "is the relevance")
        if grade > 0:
            relevant.setdefault(query, {})[document] = grade
    return relevant


def read_texts(path: Path | str) -> Splits[str]:
    """Plain text (.txt), one string a file, or {"text"} a line (.jsonl), for language modelling.

    Where train is alone and one text, its last 5 % are test, and the 5 % before them dev.
    """

    def read(file: Path) -> list[str]:
        if ".jsonl" in file.suffixes:
            return [text_field(file, number, record, "text") for number, record in records_of(file)]
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
        count = counted(len(text), "character")
        raise DataError(path, None, f"has {count}, too few to cut {' and '.join(wanted)} from")
    ends = [text[len(text) - size * (len(wanted) - place) :][:size] for place in range(len(wanted))]
    parts = {"dev": splits.dev, "test": splits.test} | {name: [end] for name, end in zip(wanted, ends, strict=True)}
    return Splits([text[: len(text) - size * len(wanted)]], parts["dev"], parts["test"], cut=tuple(wanted))


def unknown_labels(
    splits: Splits[Example], labels: Callable[[Example], Iterable[str]], path: Path | str = "data"
) -> dict[str, int]:
    """Labels of dev and test that train lacks, each with how many examples have it; nothing could ever predict them.

    Empty where there is no train to compare with. Raises if train has more labels than the limit.
    """
    known = {label for example in splits.train for label in labels(example)}
    check_count(path, None, "LABELS", len(known), "different labels in train")
    others = (example for part in (splits.dev, splits.test) for example in part) if splits.train else ()
    return dict(Counter(label for example in others for label in set(labels(example)) if label not in known))


def says_unknown(unknown: Mapping[str, int]) -> str:
    """One sentence that names all unknown labels, the most common first."""
    names = sorted(unknown, key=lambda label: (-unknown[label], label))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    listed = ", ".join(f"{shown(name)} ({unknown[name]})" for name in names[:NAMED])
    return f"{counted(len(names), 'label')} not in train, counted as wrong: {listed}{more}"
