"""A run's folder: whose it is, whether it is finished, who may write into it, and its metrics.jsonl.

model.safetensors, config.json    the best model by the dev metric, once the run is finished
metrics.jsonl                     one JSON object a line; "kind" is run (the first), step, evaluation or end (the last)
checkpoints/                      only while the run is unfinished, and its lock
"""

import json
import os
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from twofold.disk import is_aside, taken
from twofold.training import checkpoints
from twofold.training.distribution import is_main_process
from twofold.training.durable import sweep
from twofold_runtime.folder import VERSION, write_whole

METRICS, CHECKPOINTS, LOCK = "metrics.jsonl", "checkpoints", "lock"
# Folders whose lock this thread holds.
_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())


def check_folder(folder: Path, *, force: bool = False, resume: bool = False) -> None:
    """Refuse a folder in which no run can begin, or go on. Nothing is written.

    A folder with something in it is refused unless there is a run in it to resume. With `force` an old run may be
    removed, and only that: a folder that is no run of ours stays as it is.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} must be a folder, and is a file")
    if resume and force:
        raise ValueError("give resume or force, not both: one goes on with the run, the other removes it")
    is_empty = not folder.exists() or _never_began(folder)
    if resume:
        if is_empty:
            raise ValueError(f"{folder} has no run to resume")
        check_format(folder)
    elif not is_empty and not _is_run(folder):
        raise ValueError(f"{folder} is not empty and no run: choose another folder, or empty it by hand")
    elif not is_empty and not force:
        raise ValueError(f"{folder} is not empty: resume its run, choose another folder, or remove it with force")


@contextmanager
def begun(
    folder: Path, *, force: bool = False, resume: bool = False, fill: Callable[[], None] | None = None
) -> Generator[None]:
    """Hold `folder` for this process, as the folder of a new run or of the one that goes on in it.

    What `fill` writes is there before a folder is known as a run: killed in between, it has none to resume, and a new
    one may begin. Other processes than the main one do nothing.
    """
    if not is_main_process():
        yield
        return
    check_folder(folder, force=force, resume=resume)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        # Another process may have been faster.
        check_folder(folder, force=force, resume=resume)
        if force and _is_run(folder):
            _empty(folder)
        if fill is not None:
            fill()
        if not resume:
            Metrics(folder).begin()
        yield


def prepare_folder(folder: Path, *, force: bool = False, resume: bool = False) -> None:
    """Make `folder` the folder of a new run, or see that it holds one to go on with, before anything is written.

    A folder with something in it is refused unless there is a run in it to resume. With `force` an old run is removed,
    and only that: a folder that is no run of ours stays as it is. Other processes than the main one do nothing.
    """
    with begun(folder, force=force, resume=resume):
        pass


def check_run(folder: Path, resume: bool) -> None:
    """A new run needs a folder without one; a resumed one needs a run of this version."""
    if (folder / METRICS).exists():
        check_format(folder)
        if not resume and (read_metrics(folder) or checkpoints.found(folder / CHECKPOINTS)):
            raise ValueError(f"{folder} has a run already: resume it, or choose another folder")
    elif resume:
        raise ValueError(f"{folder} has no run to resume")


def check_format(folder: Path) -> None:
    """Refuse a folder that holds no run, or one of another version."""
    if not _is_run(folder):
        raise ValueError(f"{folder} is no run: its {METRICS} is missing or does not begin with one")
    version = _lines(folder)[0].get("version")
    if version != VERSION:
        raise ValueError(f"{folder} is a run of version {version!r:.60}, expected {VERSION}: train it anew")


def is_finished(folder: Path) -> bool:
    """Whether the run came to its end."""
    return end_of(folder) is not None


def end_of(folder: Path) -> dict[str, Any] | None:
    lines = _lines(folder)
    return lines[-1] if lines and lines[-1].get("kind") == "end" else None


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, the first one left out."""
    return _lines(folder)[1:]


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Hold the run for this process and thread, which may ask for it again meanwhile.

    The kernel lets go however the process ends: no lock outlives its holder.
    """
    place = folder.resolve()
    if place in _held.get():
        yield
        return
    handle = _taken(folder)
    token = _held.set(_held.get() | {place})
    try:
        yield
    finally:
        _held.reset(token)
        kept = [path.name for path in (folder / CHECKPOINTS).glob("*")]
        if is_finished(folder) or (_is_run(folder) and kept == [LOCK]):
            shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        os.close(handle)


def _taken(folder: Path) -> int:
    path = folder / CHECKPOINTS / LOCK
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = taken(path, wait=False)
        except FileNotFoundError:
            continue
        if handle is None:
            raise ValueError(f"{folder} is in use: another process is training there")
        # Whoever held it may have removed the file in between: then it locks nothing.
        if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
            return handle
        os.close(handle)


class Metrics:
    """metrics.jsonl, appended to. What a full disk refuses is kept and written with the next line."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / METRICS
        self._unwritten = b""

    def begin(self, **more: Any) -> None:
        """The first line alone, by which a folder is known as a run."""
        self._rewrite([{"kind": "run", "version": VERSION, **more}])

    def cut_after(self, step: int) -> None:
        """Drop what a life wrote after its last checkpoint, an unfinished line included."""
        self._rewrite([line for line in _lines(self.path.parent) if line.get("step", 0) <= step])

    def write(self, kind: str, numbers: Mapping[str, Any]) -> None:
        """Append a line; on a full disk, raise and keep it for later."""
        self._append({"kind": kind, **numbers})

    def flush(self) -> None:
        """Wait until the disk has all lines."""
        self._append(None)
        with self.path.open("rb") as file:
            os.fsync(file.fileno())

    def _rewrite(self, lines: list[dict[str, Any]]) -> None:
        write_whole(self.path, "".join(map(_text, lines)))

    def _append(self, line: dict[str, Any] | None) -> None:
        self._unwritten += _text(line).encode() if line is not None else b""
        with self.path.open("ab", buffering=0) as file:
            while self._unwritten:
                # A nearly full disk takes a part of a line; the rest follows when there is room.
                self._unwritten = self._unwritten[file.write(self._unwritten) or 0 :]


def remove_checkpoints(folder: Path) -> None:
    """What a finished run no longer needs; the lock goes with its holder."""
    with suppress(OSError):
        _remove(path for path in (folder / CHECKPOINTS).glob("*") if path.name != LOCK)
    sweep(folder)


def _never_began(folder: Path) -> bool:
    """Nothing in it but what a start that was cut short left: the lock comes first, metrics.jsonl last."""
    names = {path.name for path in folder.iterdir() if not is_aside(path)}
    if not names:
        return True
    inside = [path.name for path in (folder / CHECKPOINTS).iterdir()] if CHECKPOINTS in names else None
    if inside == [] and names == {CHECKPOINTS}:
        # Cut short before its lock.
        return True
    return inside == [LOCK] and METRICS not in names and all(name.endswith(".json") for name in names - {CHECKPOINTS})


def _is_run(folder: Path) -> bool:
    """Whether the folder holds a run, in any version of the format."""
    return [line["kind"] for line in _lines(folder)[:1]] == ["run"]


def _lines(folder: Path) -> list[dict[str, Any]]:
    """Parsed lines up to the first that is incomplete or damaged."""
    # Opening a pipe would wait for whoever writes into it.
    if not (folder / METRICS).is_file():
        return []
    lines = []
    for line in (folder / METRICS).read_bytes().splitlines(keepends=True):
        try:
            parsed = json.loads(line) if line.endswith(b"\n") else None
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict) or "kind" not in parsed or type(parsed.get("step", 0)) is not int:
            break
        lines.append(parsed)
    return lines


def _text(line: Mapping[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False) + "\n"


def _empty(folder: Path) -> None:
    """All but the lock, metrics.jsonl last: until then it is known as a run, and can be removed again."""
    _remove(path for path in (folder / CHECKPOINTS).glob("*") if path.name != LOCK)
    _remove(path for path in folder.iterdir() if path.name not in (CHECKPOINTS, METRICS))
    (folder / METRICS).unlink(missing_ok=True)


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
