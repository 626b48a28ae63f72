"""Which backend was the fastest where it was measured: `choices.json`, written by `twofold bench attention --tune`.

A machine has a list of measured lines, each a (dtype, causal, head width) with the fastest backend at some lengths, in
the mean over groupings of heads. A call takes the line that fits it best and there the longest measured length that is
not longer than its own, or the shortest where all are. What was measured on another GPU than this one is used all the
same, and the reason says so; all CPUs count as one machine.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import torch

# Another table than the package's own, such as one that --tune made on this machine.
ENVIRONMENT = "TWOFOLD_CHOICES"
# What a table may choose between; the reference is never the fastest.
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
    """The lines of a table, or a ValueError that says what is wrong with it."""
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


_given = os.environ.get(ENVIRONMENT)
LINES = read(Path(_given) if _given else Path(__file__).with_name("choices.json"))
# Of a table that was given, in a few letters; the package's own is part of its code.
GIVEN = hashlib.sha256(repr(LINES).encode()).hexdigest()[:16] if _given else None


@torch.compiler.assume_constant_result
def machine_of(device: str, index: int) -> str:
    """What `Line.machine` is called here."""
    return torch.cuda.get_device_name(index) if device == "cuda" else "cpu"


def fastest(device: torch.device, dtype: torch.dtype, causal: bool, head_width: int, tokens: int) -> Measured | None:
    """The backend that the table has for such a call, and where it was measured.

    None for what is shorter than all lengths measured where `shifted`, which sets up something for each, was fastest.
    """
    here = machine_of(device.type, device.index or 0)
    number = str(dtype).removeprefix("torch.")
    best, fit = None, (True, True, True, 0)
    for line in LINES:
        if line.device != device.type or line.causal != causal:
            continue
        # This machine before others, this dtype before others, wide enough before too narrow, then the nearest width.
        apart = abs(line.head_width - head_width)
        found = (line.machine != here, line.dtype != number, line.head_width < head_width, apart)
        if best is None or found < fit:
            best, fit = line, found
    if best is None:
        return None
    # A compiler guards every comparison with a size that may change, so only changes of backend are looked at.
    changes = [at for at, name in enumerate(best.backends) if at == 0 or name != best.backends[at - 1]]
    if best.backends[0] == "shifted" and tokens < best.tokens[0]:
        return None
    at = 0
    for position in changes[1:]:
        if tokens >= best.tokens[position]:
            at = position
    where = f"{best.machine}, {best.dtype}, D = {best.head_width}, from T = {best.tokens[at]} on"
    away = "" if best.machine == here else f"; this machine ({here}) is not in the table"
    return Measured(best.backends[at], f"the fastest where it was measured ({where}){away}")
