"""Short hashes of data, by which a run and an experiment know what they were made from."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from twofold.data.examples import SPLITS, Splits
from twofold.data.hub import folder_of, is_hub

# A folder with one of these files is a run or an experiment, not data.
MARKS = ("metrics.jsonl", "registration.json")


def digest_of(data: Path, splits: Splits[Any]) -> str | None:
    """The digest of a folder's files, or of the examples of a single file, which may name other files.

    None for a data set of the hub.
    """
    folder = folder_of(data) if is_hub(data) else data
    if folder is None:
        return None
    return digest_of_files(folder) if folder.is_dir() else digest_of_examples(splits)


def digest_of_files(folder: Path) -> str:
    """The digest of all files of a folder that are neither hidden nor in a run or an experiment below it."""
    # No reader reads hidden files, and file managers leave some behind.
    files = [path for path in _files_below(folder) if path.name[0] != "."]
    outputs = {path.parent for path in files if path.name in MARKS} - {folder}
    digest = hashlib.sha256()
    for path in sorted(path for path in files if outputs.isdisjoint(path.parents)):
        with path.open("rb") as file:
            inside = hashlib.file_digest(file, "sha256").digest()
        digest.update(str(path.relative_to(folder)).encode(errors="surrogateescape") + b"\0" + inside)
    return digest.hexdigest()[:16]


def _files_below(folder: Path) -> Iterator[Path]:
    """All files, also those behind links to folders. Each folder is entered once."""
    seen = set()
    for here, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(here)) in seen:
            folders.clear()
            continue
        seen.add(real)
        # Hidden folders are left out here, so that a link into one is still followed.
        folders[:] = sorted(name for name in folders if name[0] != ".")
        yield from (path for name in names if (path := Path(here, name)).is_file())


def digest_of_examples(splits: Splits[Any]) -> str:
    """The digest of examples: for embedded sets too, which another version of the package may generate differently."""
    digest = hashlib.sha256()
    for name in SPLITS:
        for example in getattr(splits, name):
            digest.update(f"{name} {_plain(example)!r}\n".encode(errors="surrogatepass"))
    return digest.hexdigest()[:16]


def _plain(example: Any) -> Any:
    """An example as something whose repr is complete: repr cuts a tensor short."""
    if hasattr(example, "numpy"):
        return tuple(example.shape), example.cpu().numpy().tobytes()
    if is_dataclass(example):
        return [_plain(getattr(example, field.name)) for field in fields(example)]
    return example
