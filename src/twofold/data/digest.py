"""A short hash of data, so that what was made of other data is not taken for it."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from twofold.data.examples import SPLITS, Splits
from twofold.data.hub import folder_of, is_hub

# By these a run and an experiment are known: what they hold is no data, wherever they lie.
MADE = ("metrics.jsonl", "registration.json")


def digest_of(data: Path, splits: Splits[Any]) -> str | None:
    """Of a folder's files, or of what was read of a single file, for that may name others. None of a set on the hub."""
    folder = folder_of(data) if is_hub(data) else data
    if folder is None:
        return None
    return digest_of_files(folder) if folder.is_dir() else digest_of_examples(splits)


def digest_of_files(folder: Path) -> str:
    """Of all files of a folder that are not hidden, nor in a run or an experiment below it."""
    # What is hidden no reader reads, and a file manager may leave it there.
    files = [path for path in _below(folder) if path.name[0] != "."]
    made = {path.parent for path in files if path.name in MADE} - {folder}
    digest = hashlib.sha256()
    for path in sorted(path for path in files if made.isdisjoint(path.parents)):
        with path.open("rb") as file:
            inside = hashlib.file_digest(file, "sha256").digest()
        digest.update(str(path.relative_to(folder)).encode(errors="surrogateescape") + b"\0" + inside)
    return digest.hexdigest()[:16]


def _below(folder: Path) -> Iterator[Path]:
    """All files, also those behind links to folders, each of which is entered once."""
    seen = set()
    for here, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(here)) in seen:
            folders.clear()
            continue
        seen.add(real)
        # What is hidden must not hide what a link shows of it.
        folders[:] = sorted(name for name in folders if name[0] != ".")
        yield from (path for name in names if (path := Path(here, name)).is_file())


def digest_of_examples(splits: Splits[Any]) -> str:
    """Of examples, whatever they were read from: another version of the package may make an embedded set otherwise."""
    digest = hashlib.sha256()
    for name in SPLITS:
        for example in getattr(splits, name):
            digest.update(f"{name} {_plain(example)!r}\n".encode(errors="surrogatepass"))
    return digest.hexdigest()[:16]


def _plain(example: Any) -> Any:
    """What repr shows whole: a tensor it would cut short."""
    if hasattr(example, "numpy"):
        return tuple(example.shape), example.cpu().numpy().tobytes()
    return [_plain(getattr(example, one.name)) for one in fields(example)] if is_dataclass(example) else example
