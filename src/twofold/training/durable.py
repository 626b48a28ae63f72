"""Folders that are whole or absent: written aside, on disk before they get their name, checked by hashes.

Knows nothing of training. A crash at any moment leaves the old folder or the new one, and perhaps a leftover named
`.saving-...`, which `sweep` removes.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from twofold.disk import flush, is_aside, system_errors

MANIFEST = "manifest.json"
# What reading a JSON file may raise, whatever is in its place: text that is none, nesting without end, other fields.
UNREADABLE_JSON = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
ASIDE = ".saving-"


def write_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make `folder` from what `fill` writes into an empty one. After an error nothing of it is left.

    The manifest comes last and names every other file with its size and sha256.
    """
    aside = folder.with_name(ASIDE + folder.name)
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        fill(aside)
        files = {path.name: _measured(path) for path in sorted(aside.iterdir())}
        for name in files:
            flush(aside / name)
        write_json(aside / MANIFEST, {"files": files})
        flush(aside / MANIFEST)
        flush(aside)
        aside.rename(folder)
        flush(folder.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def why_damaged(folder: Path) -> str | None:
    """What is wrong with a folder that `write_folder` made; None if every byte is as it was written."""
    if not (folder / MANIFEST).is_file():
        return f"{MANIFEST} is missing"
    try:
        files: dict[str, Any] = json.loads((folder / MANIFEST).read_text())["files"]
        for name, expected in files.items():
            if not (folder / name).is_file():
                return f"{name} is missing"
            if _measured(folder / name) != expected:
                return f"{name} is not what was written"
    except UNREADABLE_JSON as error:
        return f"its {MANIFEST} cannot be read ({type(error).__name__})"
    return None


def sweep(parent: Path) -> None:
    """Remove what unfinished writes left in `parent`, folders and files."""
    for path in parent.glob(".*"):
        if path.name.startswith(ASIDE) or is_aside(path):
            remove(path)


def remove(path: Path) -> None:
    """A folder or a file, whatever has that name, if it can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    with system_errors():
        save_file(dict(tensors), path)


def move_in(source: Path, target: Path) -> None:
    """Bring the files of one folder into another, each at once; both on one file system."""
    names = sorted(path.name for path in source.iterdir())
    for name in names:
        # safetensors makes its files private; here they are as open as the folder that they come into.
        (source / name).chmod(target.stat().st_mode & 0o666)
        flush(source / name)
    for name in names:
        (source / name).replace(target / name)
    flush(target)


def _measured(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
