"""run.json: what a run or a bundle is, what reading and answering need, and the digests of its files.

This module alone reads and writes it, with the standard library, so that nobody needs torch to look into a run.

task          the name of the task
word_rules    version of the rules by which texts are cut into words; null where a tokenizer cuts them
reading       what encode and decode need: labels, lengths
calibration   what is tuned on the dev split after training: temperature, threshold, transitions
training      how the run was trained: model options, settings, choices, data and its digest
finished      whether training has ended, so that the model may be used
files         sha256 of every file that an answer depends on; empty until the run is finished
checksum      sha256 of all of this
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from twofold_runtime.checked import shortened, shown
from twofold_runtime.limits import why_too_many

FILE = "run.json"
# Older runs said what they were in task.json, of version 2 at most.
VERSION, OLD_FILE = 3, "task.json"
# Files of an index of documents begin so.
INDEX = "index-"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """The content of run.json."""

    task: str
    word_rules: int | None
    reading: Mapping[str, Any]
    calibration: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    finished: bool = False
    files: Mapping[str, str] = field(default_factory=dict)


# A shape is a type, a union of types, [shape of every item], {str: shape of every value} or {name: shape of a field}.
SHAPE: dict[str, Any] = {
    "task": str,
    "word_rules": int | None,
    "reading": dict,
    "calibration": dict,
    "training": {
        "model": dict,
        "settings": dict,
        "choices": dict,
        "data": str | None,
        "digest": str | None,
    },
    "finished": bool,
    "files": {str: str},
}


def is_run(folder: Path) -> bool:
    """Whether the folder has a run.json, readable or not."""
    return (folder / FILE).is_file()


def read_run(folder: Path) -> RunRecord:
    """The content of a folder's run.json, checked field by field. ValueError names the file and the field."""
    path = folder / FILE
    if not path.is_file():
        if (folder / OLD_FILE).is_file():
            raise ValueError(f"{folder} is a run of an older version of twofold, which has no {FILE}: train it anew")
        raise ValueError(f"{folder} is no run: it has no {FILE}")
    content = read_json(path)
    if not isinstance(content, dict) or content.get("version") != VERSION:
        version = content.get("version") if isinstance(content, dict) else None
        raise ValueError(f"{path} must be of version {VERSION}, got {shown(version)}: train the run anew")
    if content.pop("checksum", None) != _checksum(content):
        raise ValueError(f"{path} was changed after it was written: its checksum does not fit")
    del content["version"]
    check_shape(content, SHAPE, str(path))
    return RunRecord(**content)


def write_run(folder: Path, record: RunRecord) -> None:
    """Write run.json in one go: nobody ever reads a part of it."""
    content: dict[str, Any] = {"version": VERSION}
    content |= {name: getattr(record, name) for name in SHAPE}
    content["checksum"] = _checksum(content)
    write_whole(folder / FILE, json.dumps(content, ensure_ascii=False, indent=1))


def with_digests(folder: Path, record: RunRecord, names: Iterable[str]) -> RunRecord:
    """The record of a finished run, with the digests that these files of its folder have now."""
    return replace(record, finished=True, files={name: sha256_of(folder / name) for name in sorted(names)})


def check_files(folder: Path, record: RunRecord, *needed: str) -> None:
    """Raise for a file that is missing or changed since the run was finished. run.json must name those needed.

    An index can be made anew: it is checked when it is read.
    """
    if lacking := sorted(set(needed) - set(record.files)):
        raise ValueError(f"{folder / FILE}: files must name {', '.join(lacking)}")
    for name, digest in record.files.items():
        if not name.startswith(INDEX):
            check_file(folder, name, digest)


def check_file(folder: Path, name: str, digest: str) -> None:
    """Raise unless the folder has a file of that name and digest."""
    if Path(name).name != name:
        raise ValueError(f"{folder / FILE}: files must name files of its own folder, got {shown(name)}")
    path = folder / name
    if not path.is_file():
        raise ValueError(f"{folder} lacks {name}, which its {FILE} names")
    if sha256_of(path) != digest:
        raise ValueError(f"{path} is damaged or was changed: its digest is not the one in {FILE}")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path, *, any_size: bool = False) -> Any:
    """What a JSON file holds. ValueError, naming the file, where it holds none, or more than the limit allows."""
    if not any_size and (problem := why_too_many("DOCUMENT_BYTES", path.stat().st_size, "bytes")):
        raise ValueError(f"{path} has {problem}")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else shortened(str(error))
        raise ValueError(f"{path} is not readable JSON: {reason}") from error


def check_shape(value: Any, shape: Any, where: str) -> None:
    """Raise, naming the place, where a JSON value is not of the shape that is expected there."""
    if isinstance(shape, list):
        _check_type(value, list, where)
        for place, item in enumerate(value):
            check_shape(item, shape[0], f"{where}[{place}]")
    elif isinstance(shape, dict):
        _check_type(value, dict, where)
        if str in shape:
            for name, item in value.items():
                check_shape(item, shape[str], f"{where}: {shown(name)}")
            return
        for name, inner in shape.items():
            if name not in value:
                raise ValueError(f"{where}: field {name!r} is missing")
            check_shape(value[name], inner, f"{where}: {name}")
        if unknown := sorted(set(value) - set(shape)):
            raise ValueError(f"{where}: field {shown(unknown[0])} is unknown")
    else:
        _check_type(value, shape, where)


def _check_type(value: Any, kind: Any, where: str) -> None:
    # To Python a bool is an int; to JSON it is not.
    is_stray_bool = isinstance(value, bool) and kind is not bool
    if kind is float:
        kind = int | float
    is_infinite = isinstance(value, float) and not math.isfinite(value)
    if is_stray_bool or is_infinite or not isinstance(value, kind):
        expected = getattr(kind, "__name__", str(kind))
        raise ValueError(f"{where} must be {expected}, got {shown(value)}")


def write_whole(path: Path, data: bytes | str) -> None:
    """Write under another name, flush to the disk, then rename: nobody ever reads a part of the file."""
    aside = path.with_name(f".{token_hex(4)}-{path.name}")
    try:
        with aside.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        # Of a full disk the first error says more.
        with suppress(OSError):
            aside.unlink()


def _checksum(content: Mapping[str, Any]) -> str:
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()
