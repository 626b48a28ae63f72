"""Words in columns (CoNLL-2003, CoNLL-U), and utterances as parallel files (seq.in, seq.out, label)."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from twofold.data.bio import joined
from twofold.data.examples import Tagged, Utterance, in_scope
from twofold.data.files import DataError, check_count, lines_of
from twofold_runtime.checked import shown

SPAN_TAG = re.compile(r"O|[BIESLUM]-\S+")
CONLLU_FIELDS = 10


def to_bio(path: Path, lines: Sequence[int], tags: list[str]) -> tuple[str, ...]:
    """Tags of IOB1, IOBES or BILOU as BIO. `lines` are those of the tags."""
    converted: list[str] = []
    open_name = None
    for line, tag in zip(lines, tags, strict=True):
        if not SPAN_TAG.fullmatch(tag):
            raise DataError(path, line, f"tag {shown(tag)} is none of O, B-..., I-...")
        prefix, _, name = tag.partition("-")
        goes_on = prefix in "IELM" and name == open_name
        converted.append("O" if tag == "O" else f"{'I' if goes_on else 'B'}-{name}")
        open_name = None if prefix in "OSUEL" else name
    return tuple(converted)


def is_parallel(path: Path, head: str) -> bool:
    return path.name == "seq.in"


def read_parallel(path: Path, notes: list[str]) -> list[tuple[Utterance, str | None]]:
    """seq.in with a sentence a line, seq.out beside it with the tags, label with the goals."""
    texts, tags, goals = (lines_of(path.with_name(name)) for name in ("seq.in", "seq.out", "label"))
    for name, lines in (("seq.out", tags), ("label", goals)):
        if len(lines) != len(texts):
            raise DataError(path.with_name(name), None, f"has {len(lines)} lines, but seq.in has {len(texts)}")
    utterances: list[tuple[Utterance, str | None]] = []
    for number, (text, line, goal) in enumerate(zip(texts, tags, goals, strict=True), 1):
        words, own = text.split(), line.split()
        check_count(path, number, "WORDS", len(words), "words in one utterance")
        if len(words) != len(own):
            raise DataError(path.with_name("seq.out"), number, f"has {len(own)} tags for {len(words)} words")
        if words and not goal:
            raise DataError(path.with_name("label"), number, "is an empty line, expected a goal")
        if words:
            tagged = Tagged(tuple(words), to_bio(path.with_name("seq.out"), [number] * len(own), own))
            text, slots = joined(tagged)
            utterances.append((Utterance(text, in_scope(goal), slots), None))
    return utterances


def is_conllu(path: Path, head: str) -> bool:
    """Whether the first line that is no comment has ten fields, the first a number."""
    line = next((line for line in head.split("\n") if line.strip() and line[0] != "#"), "")
    fields = line.split("\t")
    return len(fields) == CONLLU_FIELDS and fields[0].replace("-", "").replace(".", "").isdigit()


def read_conllu(path: Path, notes: list[str]) -> list[tuple[Tagged, str | None]]:
    """Words with their universal part-of-speech tags (UPOS). Ranges of words and empty nodes are passed over."""
    sentences: list[tuple[Tagged, str | None]] = []
    for number, rows in _blocks(path):
        words, tags = [], []
        for place, row in enumerate(rows):
            fields = row.split("\t")
            if row[0] == "#":
                continue
            if len(fields) != CONLLU_FIELDS:
                raise DataError(path, number + place, f"has {len(fields)} fields, expected {CONLLU_FIELDS}")
            if not fields[0].isdigit():
                continue
            if fields[3] in ("", "_"):
                raise DataError(path, number + place, "field 4 (UPOS) is empty")
            words.append(fields[1])
            tags.append(fields[3])
        if words:
            sentences.append((Tagged(tuple(words), tuple(tags)), None))
    return sentences


def is_conll(path: Path, head: str) -> bool:
    """Whether most lines have the same columns, parted by spaces, or three and more by tabs, the last a span's tag."""
    lines = [line for line in head.split("\n")[:-1] if line.strip()][:50]
    if not lines or lines[0].startswith("-DOCSTART-"):
        return bool(lines)
    rows = [_row(line) for line in lines]
    width = len(rows[0])
    good = sum(len(row) == width and SPAN_TAG.fullmatch(row[-1]) is not None for row in rows)
    return width >= (3 if "\t" in lines[0] else 2) and good >= 0.8 * len(rows)


def read_spans(path: Path, notes: list[str]) -> list[tuple[Tagged, str | None]]:
    """The first column as words, the last as tags of spans in BIO."""
    return [
        (Tagged(tuple(row[0] for row in rows), to_bio(path, lines, [row[-1] for row in rows])), None)
        for lines, rows in _tables(path)
    ]


def read_second(path: Path, notes: list[str]) -> list[tuple[Tagged, str | None]]:
    """The first column as words, the second as parts of speech."""
    tables = _tables(path)
    if tables and len(tables[0][1][0]) < 3:
        raise DataError(path, tables[0][0][0], "has tags of spans, expected a column of parts of speech beside them")
    return [(Tagged(tuple(row[0] for row in rows), tuple(row[1] for row in rows)), None) for _, rows in tables]


def _tables(path: Path) -> list[tuple[range, list[list[str]]]]:
    """Sentences as rows of equally many cells, each sentence with the numbers of its lines."""
    tables = []
    width = 0
    for number, rows in _blocks(path):
        cells = [_row(row) for row in rows if not row.startswith("-DOCSTART-")]
        number += len(rows) - len(cells)
        for place, row in enumerate(cells):
            width = width or len(row)
            if len(row) != width:
                raise DataError(path, number + place, f"has {len(row)} columns, expected {width}")
        if cells:
            tables.append((range(number, number + len(cells)), cells))
    return tables


def _row(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()


def _blocks(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Runs of lines that are not blank, each with the number of its first line."""
    rows: list[str] = []
    for number, line in enumerate([*lines_of(path), ""], 1):
        if line.strip():
            rows.append(line)
        elif rows:
            check_count(path, number - len(rows), "WORDS", len(rows), "words in one sentence")
            yield number - len(rows), rows
            rows = []
