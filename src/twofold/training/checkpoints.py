"""The checkpoints of a run: listed, written, read and removed. What their tensors mean, the caller knows."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from twofold.training.durable import (
    UNREADABLE_JSON,
    remove,
    sweep,
    why_damaged,
    write_folder,
    write_json,
    write_tensors,
)
from twofold_runtime.checked import shortened

STATE = "state.json"
Tensors = Mapping[str, Tensor]
Read = TypeVar("Read")
# What reading a checkpoint may raise that holds something else than it should.
UNREADABLE = (*UNREADABLE_JSON, SafetensorError)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder of tensors by name and one JSON object."""

    path: Path

    def state(self) -> dict[str, Any]:
        return json.loads((self.path / STATE).read_text(encoding="utf-8"))

    def tensors(self, name: str) -> dict[str, Tensor]:
        return load_file(self.path / f"{name}.safetensors")


def save(folder: Path, step: int, state: Mapping[str, Any], tensors: Mapping[str, Tensors], keep: int) -> Checkpoint:
    """Write a checkpoint, then remove all but the newest `keep`. After an OSError nothing of it is there."""

    def fill(aside: Path) -> None:
        for name, named in tensors.items():
            write_tensors(aside / f"{name}.safetensors", named)
        write_json(aside / STATE, state)

    checkpoint = Checkpoint(folder / f"step-{step:09d}")
    write_folder(checkpoint.path, fill)
    for old in found(folder)[:-keep]:
        remove(old.path)
    return checkpoint


def found(folder: Path) -> list[Checkpoint]:
    """All checkpoints of a folder, whole or not, the newest last."""
    return [Checkpoint(path) for path in sorted(folder.glob("step-*")) if path.name[len("step-") :].isdigit()]


def newest_whole(folder: Path, note: Callable[[str], None], read: Callable[[Checkpoint], Read]) -> Read | None:
    """What `read` makes of the newest checkpoint that is as it was written, and that it can read; None without any.

    Damaged ones after it are reported and removed. If all are damaged, none is removed and a ValueError is raised: the
    user decides whether to start again.
    """
    sweep(folder)
    damaged: list[tuple[Checkpoint, str]] = []
    whole = None
    for checkpoint in reversed(found(folder)):
        why = why_damaged(checkpoint.path)
        if why is None:
            try:
                whole = read(checkpoint)
                break
            except UNREADABLE as error:
                why = f"it cannot be read: {type(error).__name__}: {shortened(str(error))}"
        damaged.append((checkpoint, why))
    if damaged and whole is None:
        checkpoint, why = damaged[0]
        raise ValueError(
            f"{checkpoint.path} is damaged ({why}) and there is no older one: start again with force, not resume"
        )
    for checkpoint, why in damaged:
        note(f"{checkpoint.path.name} is damaged ({why}): removed, the one before it is used")
        remove(checkpoint.path)
    return whole
