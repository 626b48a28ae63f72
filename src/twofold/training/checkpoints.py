"""The checkpoints of a run: which there are, which is whole, which may go. What is in them, the caller knows."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from twofold.training.durable import MANIFEST, sweep, why_damaged, write_folder, write_json, write_tensors

STATE = "state.json"
Tensors = Mapping[str, Tensor]


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
        shutil.rmtree(old.path, ignore_errors=True)
    return made


def found(folder: Path) -> list[Checkpoint]:
    """All that are there, the newest last; whole or not."""
    return [Checkpoint(path) for path in sorted(folder.glob("step-*")) if path.name[len("step-") :].isdigit()]


def newest_whole(folder: Path, note: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint whose hashes hold; those after it are reported and removed. None if there are none at all.

    Where every one is damaged, none is removed and a ValueError says so: starting again is not for us to decide.
    """
    sweep(folder)
    damaged: list[tuple[Checkpoint, str]] = []
    whole = None
    for checkpoint in reversed(found(folder)):
        why = why_damaged(checkpoint.path)
        if why is None:
            whole = checkpoint
            break
        if not (checkpoint.path / MANIFEST).exists():
            note(f"{checkpoint.path.name} was never finished: removed")
            shutil.rmtree(checkpoint.path, ignore_errors=True)
            continue
        damaged.append((checkpoint, why))
    if damaged and whole is None:
        checkpoint, why = damaged[0]
        raise ValueError(
            f"{checkpoint.path} is damaged ({why}) and there is no older one: start again with force, not resume"
        )
    for checkpoint, why in damaged:
        note(f"{checkpoint.path.name} is damaged ({why}): removed, the one before it is used")
        shutil.rmtree(checkpoint.path, ignore_errors=True)
    return whole
