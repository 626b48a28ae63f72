"""One line of JSON for each run of a comparison, and a file of them that many processes may append to.

A line is written at once, under the kernel's lock, and on disk before `append` returns. What a killed writer left of a
line is no record: readers pass it over, the next writer cuts it off. Anything else that is not a record is an error
with its file and line.
"""

import errno
import json
import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from twofold.disk import naming, taken
from twofold.lab.per_text import TextSums

FILE = "records.jsonl"
PHASES = ("grid", "final")


class Point(NamedTuple):
    """A look at the dev split while training."""

    tokens: int
    seconds: float
    value: float


class SelfWeight(NamedTuple):
    """What tokens keep of themselves, the mean of each layer, after so many tokens of training."""

    tokens: int
    layers: tuple[float, ...]


class Length(NamedTuple):
    """The metric on the dev split, read in pieces so many times as long as in training."""

    times: int
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

    experiment: str
    phase: str
    """grid: one of those that the learning rate is chosen by. final: one of those that are compared."""
    arm: str
    seed: int
    lr: float
    budget: int
    """Tokens that the schedule was made for."""
    parameters: int
    metric: str
    value: float | None
    """The metric on the dev split at the end; None where the run diverged to what is no number."""
    tokens: int
    seconds: float
    """Of training alone."""
    curve: tuple[Point, ...]
    environment: Mapping[str, Any] = field(default_factory=dict)
    """Where it ran: names and versions, and "date", when it began."""
    peak_memory: int | None = None
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
        for name in ("experiment", "arm", "metric"):
            check(name, getattr(self, name), "a name", isinstance(getattr(self, name), str) and getattr(self, name))
        check("phase", self.phase, " or ".join(PHASES), self.phase in PHASES)
        for name, least in (("seed", 0), ("budget", 1), ("parameters", 0), ("tokens", 0)):
            value = getattr(self, name)
            check(name, value, f"a whole number of at least {least}", _is_whole(value) and value >= least)
        for name in ("lr", "seconds"):
            value = getattr(self, name)
            check(name, value, "a number above 0", is_number(value) and value > 0)
        for name in ("value", "peak_memory", "gradient_tail", "uniform_self_weight", "test"):
            value = getattr(self, name)
            check(name, value, "a finite number or null", value is None or is_number(value))
        check("environment", self.environment, "an object", isinstance(self.environment, Mapping))
        # Lists as JSON has them are made what they are meant as.
        object.__setattr__(self, "curve", tuple(_point(point) for point in _list("curve", self.curve)))
        weights = (_self_weight(weight) for weight in _list("self_weights", self.self_weights))
        object.__setattr__(self, "self_weights", tuple(weights))
        lengths = tuple(_length(one) for one in _list("beyond", self.beyond))
        object.__setattr__(self, "beyond", lengths)
        for name in ("texts", "test_texts"):
            object.__setattr__(self, name, _text_sums(name, getattr(self, name)))
        for name, points in (("curve", self.curve), ("self_weights", self.self_weights)):
            places = [point.tokens for point in points]
            check(name, places, "at rising tokens", all(one < two for one, two in pairwise(places)))
        layers = {len(one.layers) for one in self.self_weights}
        check("self_weights", sorted(layers), "of as many layers at every point", len(layers) < 2)
        seconds = [point.seconds for point in self.curve]
        rising = all(one < two for one, two in pairwise(seconds))
        check("curve", seconds, "at rising seconds of at least 0", rising and min(seconds, default=0) >= 0)
        if self.curve and self.value is not None:
            last = self.curve[-1].value
            check("curve", last, f"of looks whose last is the value, {self.value}", last == self.value)

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
        check_fields(cls, told)
        return cls(**told)


def check_fields(kind: Any, told: Any) -> None:
    """Raise unless what a file holds has the fields of a dataclass: none unknown, none without a default missing."""
    if not isinstance(told, dict):
        raise ValueError(f"a {kind.__name__.lower()} must be a table of fields, got {told!r:.60}")
    known = [one.name for one in fields(kind)]
    for name in told:
        if name not in known:
            raise ValueError(f"unknown field {name!r}; there are: {', '.join(known)}")
    for name in _required(kind):
        if name not in told:
            raise ValueError(f"field {name!r} is missing")


def _required(kind: Any) -> list[str]:
    return [one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]


def read_records(path: Path, note: Callable[[str], None] = lambda text: None) -> list[Record]:
    """All records of a file, none if there is no file. A last line that was never finished is told to `note`."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    if lines and not lines[-1].endswith(b"\n"):
        note(f"{path}:{len(lines)}: passed over, its writer did not finish it")
        lines.pop()
    found: dict[Key, int] = {}
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            told = json.loads(line)
            # Half a surrogate pair, which JSON can name and no report can hold.
            json.dumps(told, ensure_ascii=False).encode()
            record = Record.from_json(told)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}:{number}: {error}") from error
        if record.key in found:
            raise ValueError(f"{path}:{number}: the same run as line {found[record.key]}: {tuple(record.key)}")
        found[record.key] = number
        records.append(record)
    return records


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


def _point(told: Any) -> Point:
    shape = isinstance(told, list | tuple) and len(told) == 3
    check("curve", told, "points of tokens, seconds and value", shape and all(map(is_number, told)))
    return Point(*told)


def _self_weight(told: Any) -> SelfWeight:
    shape = isinstance(told, list | tuple) and len(told) == 2 and is_number(told[0])
    layers = told[1] if shape and isinstance(told[1], list | tuple) else ()
    check("self_weights", told, "points of tokens and a number a layer", bool(layers) and all(map(is_number, layers)))
    return SelfWeight(told[0], tuple(layers))


def _length(told: Any) -> Length:
    shape = isinstance(told, list | tuple) and len(told) == 2 and _is_whole(told[0]) and is_number(told[1])
    check("beyond", told, "pairs of a whole number and a value", shape and told[0] >= 1)
    return Length(*told)


def _text_sums(name: str, told: Any) -> TextSums | None:
    if told is None:
        return None
    shape = isinstance(told, list | tuple) and len(told) == 3 and is_number(told[0])
    lists = [told[1], told[2]] if shape else []
    fits = shape and all(isinstance(one, list | tuple) and all(map(is_number, one)) for one in lists)
    check(name, told, "a scale and two lists of numbers, one a text", fits and len(told[2]) in (0, len(told[1])))
    sums = TextSums(told[0], tuple(told[1]), tuple(told[2]))
    check(name, told, "of texts that add up to a whole", sums.whole > 0)
    return sums


def _list(name: str, value: Any) -> list[Any] | tuple[Any, ...]:
    check(name, value, "a list", isinstance(value, list | tuple))
    return value


def is_number(value: Any) -> bool:
    """Whether a value of a file is a number that there can be, and not a truth value."""
    # A whole number may be larger than any float.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and is_number(value)


def check(name: str, value: Any, expected: str, holds: Any) -> None:
    if not holds:
        raise ValueError(f"{name} must be {expected}, got {value!r:.60}")
