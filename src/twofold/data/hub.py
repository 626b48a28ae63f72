"""A data set of the Hugging Face hub: its splits and rows, through `datasets`, which is an extra.

    hub:NAME[:CONFIG][,COLUMN=NAME ...][,revision=COMMIT]          as in hub:owner/reviews,text=body,label=stars

NAME may be a folder with files that `datasets` reads (JSON lines, CSV, parquet). Code of a data set is never run.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from twofold.data.examples import SPLITS
from twofold.data.files import DataError, text_field
from twofold.data.splits import SPLIT_NAMES
from twofold_runtime.checked import shown

PREFIX = "hub:"


def is_hub(data: Path | str | None) -> bool:
    return str(data).startswith(PREFIX)


def settled(data: Path | str) -> str:
    """The address with a whole path where it names a folder: it means the same from every working directory."""
    name = _name(data)
    whole = name if folder_of(data) is None else str(Path(name).resolve())
    # A path with a colon or a comma in it cannot be part of an address, so the name stays as it is.
    return PREFIX + (name if re.search("[:,]", whole) else whole) + str(data).removeprefix(PREFIX + name)


def folder_of(data: Path | str) -> Path | None:
    """The folder that an address names, if it names one."""
    name = _name(data)
    return Path(name) if name and Path(name).is_dir() else None


def _name(address: Path | str) -> str:
    return re.split("[:,]", str(address).removeprefix(PREFIX), maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class HubSet:
    address: str
    """The whole address, for errors."""
    name: str
    config: str | None
    revision: str | None
    columns: dict[str, str]
    """The set's own names of the columns that a task reads."""

    @classmethod
    def parsed(cls, address: Path | str, columns: Iterable[str]) -> "HubSet":
        """An address in which these columns may be renamed."""
        address, columns = str(address), tuple(columns)
        whole, *pairs = address.removeprefix(PREFIX).split(",")
        name, _, config = whole.partition(":")
        if not name:
            raise ValueError(f"data must be hub:NAME or hub:NAME:CONFIG, got {shown(address)}")
        renamed = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        if len(renamed) != len(pairs) or not set(renamed) <= {*columns, "revision"}:
            allowed = ", ".join(f"{column}=..." for column in (*columns, "revision"))
            raise ValueError(f"data may have after its name only {allowed}, got {shown(address)}")
        revision = renamed.pop("revision", None)
        # By its whole path: a folder called csv, say, would be taken for the library's own reader of that name.
        name = str(Path(name).resolve()) if Path(name).is_dir() else name
        return cls(address, name, config or None, revision, {column: column for column in columns} | renamed)

    def splits(self) -> dict[str, str]:
        """The set's own names of train, dev and test, as far as it has them."""
        there = self._asked(lambda hub: hub.get_dataset_split_names(self.name, self.config, revision=self.revision))
        names = {split: next((name for name in SPLIT_NAMES[split] if name in there), None) for split in SPLITS}
        if names["train"] is None:
            raise DataError(self.address, None, f"has no train split (splits there: {', '.join(there)})")
        return {split: name for split, name in names.items() if name is not None}

    def rows(self, split: str, *, streaming: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        """Rows of a split with their numbers from 1 on. Streaming reads as it goes; else all is downloaded first.

        A class is given by its name instead of its number, and as None where the row has none.
        """
        which = {"split": split, "revision": self.revision, "streaming": streaming}
        whole = self._asked(lambda hub: hub.load_dataset(self.name, self.config, **which))
        classes = {name: kind.int2str for name, kind in (whole.features or {}).items() if hasattr(kind, "int2str")}
        ready, number = iter(whole), 0
        while (row := self._asked(lambda _: next(ready, None))) is not None:
            number += 1
            is_class = {name: isinstance(row[name], int) and row[name] >= 0 for name in classes}
            named = {name: classes[name](row[name]) if is_class[name] else None for name in classes}
            yield number, {**row, **named}

    def text(self, number: int, row: dict[str, Any], column: str) -> str:
        """A row's text in a column."""
        return text_field(self.address, number, row, self.columns[column])

    def _asked(self, ask: Callable[[Any], Any]) -> Any:
        """What `datasets` answers. Its errors become a DataError of one line."""
        try:
            hub = import_module("datasets")
        except ImportError:
            raise DataError(
                self.address, None, "data of the hub needs an extra: pip install '.[hub]' in Twofold's sources"
            ) from None
        hub.disable_progress_bars()
        try:
            return ask(hub)
        # Not found, unreachable, no such configuration, a broken file: each has an exception class of its own.
        except Exception as error:
            sentence, *_ = re.split(r"(?<=[.!?]) ", " ".join(str(error).split()))
            problem = f"cannot be read: {sentence or type(error).__name__:.300}"
            raise DataError(self.address, None, problem) from error
