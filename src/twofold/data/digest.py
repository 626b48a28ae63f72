"""What data is, in a few letters: what was made of other data must not be taken for it."""

import hashlib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from twofold.data.examples import SPLITS, Splits

# By these a run and an experiment are known: what they hold is no data, wherever they lie.
MADE = ("metrics.jsonl", "registration.json")


def digest_of_files(data: Path) -> str:
    """Of all files of a folder that are not hidden, nor in a run or an experiment below it; or of one file."""
    files = sorted(path for path in data.rglob("*") if path.is_file()) if data.is_dir() else [data]
    # What is hidden no reader reads, and a file manager may leave it there.
    files = [path for path in files if not any(part.startswith(".") for part in path.relative_to(data).parts)]
    made = {path.parent for path in files if path.name in MADE} - {data}
    files = [path for path in files if made.isdisjoint(path.parents)]
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            inside = hashlib.file_digest(file, "sha256").digest()
        name = path.relative_to(data) if data.is_dir() else path.name
        digest.update(str(name).encode(errors="surrogateescape") + b"\0" + inside)
    return digest.hexdigest()[:16]


def digest_of_examples(splits: Splits[Any]) -> str:
    """Of an embedded set, which another version of the package may make otherwise."""
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
