"""The measured table that `auto` chooses by: `choices.json`, written by `twofold bench attention --tune`.

A line of the table holds, for a machine, dtype, causality and head width, the fastest backend at some lengths (the mean
over groupings of heads decides). A call takes the line that fits best, and in it the longest measured length up to its
own, or the shortest if all are longer. A line of another GPU is used if there is none of this one, and the reason says
so; all CPUs count as one machine.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import torch

# The path of a table to use instead of the package's, such as one written by --tune on this machine.
ENVIRONMENT = "TWOFOLD_CHOICES"
# The backends that a table may name; the reference is never the fastest.
BACKENDS = ("columns", "dense", "shifted", "triton")


class Line(NamedTuple):
    machine: str
    device: str  # "cpu" or "cuda"
    dtype: str
    causal: bool
    head_width: int
    tokens: tuple[int, ...]  # ascending
    backends: tuple[str, ...]


class Measured(NamedTuple):
    backend: str
    reason: str


def read(path: Path) -> list[Line]:
    """The lines of a table; ValueError if it is malformed."""
    try:
        table = json.loads(path.read_text())
        lines = [_line(**line) for line in table["lines"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no table of choices: {type(error).__name__}: {error}") from None
    for line in lines:
        if not line.tokens or len(line.tokens) != len(line.backends) or list(line.tokens) != sorted(line.tokens):
            raise ValueError(f"{path} is no table of choices: tokens must ascend, one backend each, got {line}")
        if unknown := set(line.backends) - set(BACKENDS):
            raise ValueError(f"{path} is no table of choices: backends must be of {BACKENDS}, got {unknown}")
    return lines


def _line(*, tokens: list[int], backends: list[str], **rest: Any) -> Line:
    return Line(**rest, tokens=tuple(tokens), backends=tuple(backends))


def write(path: Path, lines: list[Line]) -> None:
    rows = ",\n".join(json.dumps(line._asdict()) for line in lines)
    path.write_text(f'{{"lines": [\n{rows}\n]}}\n')


_path = os.environ.get(ENVIRONMENT)
LINES = read(Path(_path) if _path else Path(__file__).with_name("choices.json"))
# Digest of a table named by the environment, for records of runs; None for the package's own, which its version names.
GIVEN = hashlib.sha256(repr(LINES).encode()).hexdigest()[:16] if _path else None


@torch.compiler.assume_constant_result
def machine_of(device: str, index: int) -> str:
    """The name of this machine as `Line.machine` has it."""
    return torch.cuda.get_device_name(index) if device == "cuda" else "cpu"


def fastest(device: torch.device, dtype: torch.dtype, causal: bool, head_width: int, tokens: int) -> Measured | None:
    """The fastest measured backend for such a call, with the reason.

    None without a line, and for a length below all measured ones where `shifted` is the first entry: its fixed cost per
    call grows in proportion there.
    """
    here = machine_of(device.type, device.index or 0)
    dtype_name = str(dtype).removeprefix("torch.")
    best, fit = None, (True, True, True, 0)
    for line in LINES:
        if line.device != device.type or line.causal != causal:
            continue
        # In this order: same machine, same dtype, a measured width at least as wide, the nearest width.
        distance = abs(line.head_width - head_width)
        mismatch = (line.machine != here, line.dtype != dtype_name, line.head_width < head_width, distance)
        if best is None or mismatch < fit:
            best, fit = line, mismatch
    if best is None:
        return None
    # torch.compile adds a guard per comparison with a dynamic size, so compare only where the backend changes.
    changes = [at for at, name in enumerate(best.backends) if at == 0 or name != best.backends[at - 1]]
    if best.backends[0] == "shifted" and tokens < best.tokens[0]:
        return None
    at = 0
    for change in changes[1:]:
        if tokens >= best.tokens[change]:
            at = change
    where = f"{best.machine}, {best.dtype}, D = {best.head_width}, from T = {best.tokens[at]} on"
    away = "" if best.machine == here else f"; this machine ({here}) is not in the table"
    return Measured(best.backends[at], f"the fastest where it was measured ({where}){away}")
