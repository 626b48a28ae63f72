"""The checkpoints of a run: which there are, which is whole, which may go. What is in them, the caller knows."""

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
    """Write a checkpoint, then let the oldest go. An OSError leaves all that were there and nothing of the new one."""

    def fill(aside: Path) -> None:
        for name, named in tensors.items():
            write_tensors(aside / f"{name}.safetensors", named)
        write_json(aside / STATE, state)

    made = Checkpoint(folder / f"step-{step:09d}")
    write_folder(made.path, fill)
    for old in found(folder)[:-keep]:
        remove(old.path)
    return made


def found(folder: Path) -> list[Checkpoint]:
    """All that are there, the newest last; whole or not."""
    return [Checkpoint(path) for path in sorted(folder.glob("step-*")) if path.name[len("step-") :].isdigit()]


def newest_whole(folder: Path, note: Callable[[str], None], read: Callable[[Checkpoint], Read]) -> Read | None:
    """What `read` makes of the newest checkpoint that is as it was written, and that it can read; None without any.

    Those after it are reported and removed. Where every one is damaged, none is removed and a ValueError says so:
    starting again is not for us to decide.
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
