"""Which format of another tool a file is in, and the splits of a file or a folder of such files.

Goals are read as utterances, spans and parts of speech as sentences with tags.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twofold.data.examples import SPLITS, Splits
from twofold.data.files import DataError, head_of
from twofold.data.importers import columns, markup, snips, tables, templates
from twofold.data.splits import SPLIT_NAMES, find_split, unpacked_name

Reader = Callable[[Path, list[str]], list[tuple[Any, str | None]]]
GOALS, SPANS, PARTS = "goals", "spans", "parts of speech"
ENDINGS = (
    ".csv",
    ".tsv",
    ".txt",
    ".conll",
    ".conllu",
    ".bio",
    ".json",
    ".yml",
    ".yaml",
    ".ini",
    ".in",
    ".iob",
    ".md",
    ".train",
    ".testa",
    ".testb",
)
# What is in a file name between its marks: en_ewt-ud-train.conllu, eng.testa.
SPLIT_OF_WORD = {word: split for split, words in SPLIT_NAMES.items() for word in words} | {
    "training": "train",
    "development": "dev",
    "testa": "dev",
    "testb": "test",
}


@dataclass(frozen=True, slots=True)
class Format:
    """A format of another tool: whether a file is in it, and readers by what they read out of it.

    A reader gives pairs of an example and the split it names, None where it names none.
    """

    name: str
    fits: Callable[[Path, str], bool]
    readers: dict[str, Reader]


FORMATS = (
    Format("seq.in, seq.out and label", columns.is_parallel, {GOALS: columns.read_parallel}),
    Format("Snips JSON", snips.is_json, {GOALS: snips.read_json}),
    Format("Rasa NLU JSON", markup.is_rasa_json, {GOALS: markup.read_rasa_json}),
    Format("Rasa NLU Markdown", markup.is_rasa_markdown, {GOALS: markup.read_rasa_markdown}),
    Format("Rasa NLU YAML", markup.is_rasa_yaml, {GOALS: markup.read_rasa_yaml}),
    Format("Snips YAML", snips.is_yaml, {GOALS: snips.read_yaml}),
    Format("hassil templates", templates.is_hassil, {GOALS: templates.read_hassil}),
    Format("Rhasspy sentences", templates.is_rhasspy, {GOALS: templates.read_rhasspy}),
    Format("CoNLL-U", columns.is_conllu, {PARTS: columns.read_conllu}),
    Format("CoNLL columns", columns.is_conll, {SPANS: columns.read_spans, PARTS: columns.read_second}),
    Format("a table with a header", tables.is_table, {GOALS: tables.read_table}),
)


@dataclass(frozen=True, slots=True)
class Imported:
    """What was read: the name of the format, what it holds, the splits with nothing cut, notes on what was left out."""

    format: str
    holds: str
    splits: Splits[Any]
    notes: list[str] = field(default_factory=list)


def format_of(path: Path) -> Format | None:
    """The format of another tool that a file is in. None if it is in none, or is a pipe."""
    head = head_of(path)
    return next((form for form in FORMATS if head and form.fits(path, head)), None)


def import_data(path: Path | str, own_endings: Sequence[str], holds: str | None = None) -> Imported | None:
    """The data of a file or folder in a format of another tool. None where it has files in a format of our own.

    `own_endings` are those of our own formats; `holds` is what to read, where a format holds several things. Files of a
    folder that name no split are train.
    """
    path = Path(path)
    files = _files(path, own_endings)
    formats = {file: form for file in files if (form := format_of(file)) is not None}
    if not formats:
        return None
    names = sorted({form.name for form in formats.values()})
    if len(names) > 1:
        raise DataError(path, None, f"holds {' and '.join(names)}; expected files of one format")
    form = next(iter(formats.values()))
    holds = next(iter(form.readers)) if holds is None else holds
    if holds not in form.readers:
        raise DataError(path, None, f"is {form.name}, which holds {' and '.join(form.readers)}, not {holds}")
    splits: dict[str, list[Any]] = {split: [] for split in SPLITS}
    notes: list[str] = []
    for file in formats:
        own = split_of_name(file.relative_to(path)) if path.is_dir() else "train"
        for example, named in form.readers[holds](file, notes):
            splits[named or own].append(example)
    if not any(splits.values()):
        raise DataError(path, None, f"is {form.name} without an example")
    return Imported(form.name, holds, Splits(splits["train"], splits["dev"], splits["test"]), notes)


def _files(path: Path, own_endings: Sequence[str]) -> list[Path]:
    """The files that may be in a format of another tool."""
    if not path.is_dir():
        return [path]
    own = [file for split in SPLITS if (file := find_split(path, split, own_endings))]
    if any(format_of(file) is None for file in own):
        return []
    return [
        file
        for file in sorted(path.rglob("*"))
        if file.is_file()
        and unpacked_name(file).lower().endswith(ENDINGS)
        and not any(part[0] == "." for part in file.relative_to(path).parts)
    ]


def split_of_name(path: Path) -> str:
    """The split that the words of a file's name or of its folders' names say; train where they say none."""
    words = re.split(r"[^a-z]+", str(path).lower())
    return next((SPLIT_OF_WORD[word] for word in reversed(words) if word in SPLIT_OF_WORD), "train")
