"""Reads the content of the embedded sets: word lists and templates, in TOML files beside the code that uses them."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twofold.data.grammar import Everyday, Open, Shared, Source

FOLDER = Path(__file__).parent
SOURCES = {"open": Open, "everyday": Everyday, "shared": Shared}


def content(name: str) -> dict[str, Any]:
    """A content file by its name, as in "embedded/qa"."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def entries(written: str | list[str]) -> tuple[str, ...]:
    """The entries of a list, which is written as an array or as one text with commas between the entries."""
    if isinstance(written, str):
        return tuple(entry for part in written.split(",") if (entry := " ".join(part.split())))
    return tuple(written)


def lines(written: str) -> tuple[str, ...]:
    """The lines of a text that are not blank: templates are written one a line."""
    return tuple(line.strip() for line in written.splitlines() if line.strip())


def sources(tables: Mapping[str, Any]) -> dict[str, Source]:
    """The lists of a content file's tables [open], [everyday] and [shared], as sources of a `Lexicon`."""
    return {
        kind: source(entries(written))
        for table, source in SOURCES.items()
        for kind, written in tables.get(table, {}).items()
    }
