"""One line of JSON for each run of a comparison, and a file of them that many processes may append to.

A line is written at once, under the kernel's lock, and on disk before `append` returns. What a killed writer left of a
line is no record: readers pass it over, the next writer cuts it off. Anything else that is not a record is an error
with its file and line.
"""

import errno
import json
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from twofold.disk import naming, taken
from twofold.lab.per_text import TextSums
from twofold_runtime.checked import Limit, above, at_least, below, check_fields, from_mapping, shown

FILE = "records.jsonl"
Name = Annotated[str, Limit("that is not empty", bool)]
# Beyond, no arithmetic with floats is possible.
Whole = Annotated[int, at_least(0), below(1e300)]
Above0 = Annotated[float, above(0)]


class Point(NamedTuple):
    """An evaluation on the dev split while training."""

    tokens: int
    seconds: float
    value: float


class SelfWeight(NamedTuple):
    """What tokens keep of themselves, the mean of each layer, after so many tokens of training."""

    tokens: int
    layers: Annotated[tuple[float, ...], Limit("and not empty", bool)]


class Length(NamedTuple):
    """The metric on the dev split, read in pieces so many times as long as in training."""

    times: Annotated[int, at_least(1)]
    value: float


class Key(NamedTuple):
    """What a run is, before it has run; a comparison that is resumed leaves out those it has."""

    experiment: str
    phase: str
    arm: str
    seed: int
    lr: float
    budget: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A finished run. Fields with a default may be left out of a line."""

    experiment: Name
    phase: Annotated[str, Limit("grid or final", lambda phase: phase in ("grid", "final"))]
    """grid: one of those that the learning rate is chosen by. final: one of those that are compared."""
    arm: Name
    seed: Whole
    lr: Above0
    budget: Annotated[int, at_least(1)]
    """Tokens that the schedule was made for."""
    parameters: Whole
    metric: Name
    value: float | None
    """The metric on the dev split at the end; None where the run diverged."""
    tokens: Whole
    seconds: Above0
    """Of training alone."""
    curve: tuple[Point, ...]
    environment: Mapping[str, Any] = field(default_factory=dict)
    """Where it ran: names and versions, and "date", when it began."""
    peak_memory: float | None = None
    """Bytes."""
    gradient_tail: float | None = None
    """The largest gradient norm of a step over the median of their means over up to 25 steps."""
    self_weights: tuple[SelfWeight, ...] = ()
    uniform_self_weight: float | None = None
    """What a token would keep if it attended to all it sees alike, the mean over the same texts."""
    test: float | None = None
    """The metric on the test split, which was read once."""
    beyond: tuple[Length, ...] = ()
    texts: TextSums | None = None
    """What every text of the dev split adds to the value, where that is one sum over another."""
    test_texts: TextSums | None = None
    """The same of the test split."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("curve", "self_weights"):
            tokens = [point.tokens for point in getattr(self, name)]
            _check(name, tokens, "at rising tokens", all(one < two for one, two in pairwise(tokens)))
        layers = {len(weights.layers) for weights in self.self_weights}
        _check("self_weights", sorted(layers), "of as many layers at every point", len(layers) < 2)
        seconds = [point.seconds for point in self.curve]
        rising = all(one < two for one, two in pairwise(seconds))
        _check("curve", seconds, "at rising seconds of at least 0", rising and min(seconds, default=0) >= 0)
        if self.curve and self.value is not None:
            last = self.curve[-1].value
            _check("curve", last, f"of evaluations whose last is the value, {self.value}", last == self.value)
        for name in ("texts", "test_texts"):
            if (sums := getattr(self, name)) is not None:
                counts = len(sums.parts), len(sums.wholes)
                fits = counts[0] > 0 and counts[1] in (0, counts[0]) and sums.whole > 0
                _check(name, counts, "as many parts as wholes that add up to more than 0, or no wholes", fits)

    @property
    def key(self) -> Key:
        return Key(self.experiment, self.phase, self.arm, self.seed, self.lr, self.budget)

    def as_json(self) -> dict[str, Any]:
        """Every field, those at their default left out."""
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        required = _required(Record)
        return {name: value for name, value in told.items() if value not in (None, (), {}) or name in required}

    @classmethod
    def from_json(cls, told: Any) -> "Record":
        return from_mapping(cls, told)


def _required(kind: Any) -> list[str]:
    return [one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]


class RecordFile:
    """A file of records that others may append to; what was read once is not read again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._end = 0
        self._lines: dict[Key, int] = {}
        self._records: list[Record] = []

    def read(self, note: Callable[[str], None] = lambda text: None) -> list[Record]:
        """All records, none if there is no file. A last line that was never finished is told to `note`."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._end)
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        for line in lines:
            number = len(self._records) + 1
            if not line.endswith(b"\n"):
                note(f"{self.path}:{number}: passed over, its writer did not finish it")
                break
            self._add(line, number)
            self._end += len(line)
        return list(self._records)

    def _add(self, line: bytes, number: int) -> None:
        try:
            told = json.loads(line)
            # Half a surrogate pair, which JSON can name and no report can hold.
            json.dumps(told, ensure_ascii=False).encode()
            record = Record.from_json(told)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self.path}:{number}: {error}") from error
        if record.key in self._lines:
            same = self._lines[record.key]
            raise ValueError(f"{self.path}:{number}: the same run as line {same}: {tuple(record.key)}")
        self._lines[record.key] = number
        self._records.append(record)


def read_records(path: Path, note: Callable[[str], None] = lambda text: None) -> list[Record]:
    """All records of a file, as `RecordFile` reads it."""
    return RecordFile(path).read(note)


def append(path: Path, record: Record) -> bool:
    """Add a record, durably; False where the file has one of the same run, which stays.

    Raises where the others are of other data, or of other versions of user-defined arms: whoever ended first has fixed
    them.
    """
    line = (json.dumps(record.as_json(), ensure_ascii=False, allow_nan=False) + "\n").encode()
    with locked(path) as handle:
        whole = _whole_lines(handle)
        there = list(filter(None, map(_run_of, whole.splitlines())))
        if any(key == record.key for key, _ in there):
            return False
        for name, what in (("data", "on other data"), ("own_arms", "of another version of your own arms")):
            ours, known = record.environment.get(name), {str(told[name]) for _, told in there if told.get(name)}
            if ours is not None and known - {ours}:
                raise ValueError(f"{path} has runs {what} ({known.pop()}), got {ours}: this run is not added")
        # What a killed writer left.
        os.ftruncate(handle, len(whole))
        try:
            if os.write(handle, line) < len(line):
                raise OSError(errno.ENOSPC, "the disk took only a part of a record")
            os.fsync(handle)
        except OSError as error:
            os.ftruncate(handle, len(whole))
            raise naming(error, path) from error
    return True


@contextmanager
def locked(path: Path) -> Generator[int]:
    """The file, for this process alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle: Any = taken(path, wait=True)
    try:
        yield handle
    finally:
        os.close(handle)


def _whole_lines(handle: int) -> bytes:
    text = os.pread(handle, os.fstat(handle).st_size, 0)
    return text[: text.rfind(b"\n") + 1]


def _run_of(line: bytes) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Which run a line tells of, and its environment. Of a line that may be anything: a run is written down whatever
    stands beside it."""
    try:
        told = json.loads(line)
        key = tuple(told[name] for name in Key._fields)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    environment = told.get("environment")
    return key, environment if isinstance(environment, dict) else {}


def _check(name: str, value: Any, expected: str, holds: bool) -> None:
    if not holds:
        raise ValueError(f"{name} must be {expected}, got {shown(value)}")
