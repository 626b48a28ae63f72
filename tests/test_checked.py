"""Dataclasses whose annotations say what a field may hold."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import pytest

from twofold_runtime.checked import above, at_least, at_most, below, check_fields, from_mapping, shown, within


class Point(NamedTuple):
    tokens: int
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    count: Annotated[int, at_least(1)]
    rate: Annotated[float, above(0), at_most(10)] = 1.0
    share: Annotated[float, within(0, 1)] | None = None
    schedule: Literal["cosine", "linear"] = "cosine"
    is_on: bool = False
    name: str = ""
    betas: tuple[Annotated[float, below(1)], Annotated[float, below(1)]] = (0.5, 0.5)
    seeds: tuple[int, ...] = ()
    curve: tuple[Point, ...] = ()
    table: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("count", 0, "a whole number of at least 1"),
        ("count", 1.0, "a whole number of at least 1"),
        ("count", True, "a whole number of at least 1"),
        ("count", None, "a whole number of at least 1"),
        ("rate", 0, "a number above 0 and at most 10"),
        ("rate", float("nan"), "a number above 0 and at most 10"),
        ("rate", "1", "a number above 0 and at most 10"),
        ("share", 1.5, "a number from 0 to 1, or None"),
        ("share", float("inf"), "a number from 0 to 1, or None"),
        ("share", 10**400, "a number from 0 to 1, or None"),
        ("schedule", "step", "one of cosine, linear"),
        ("schedule", ["cosine"], "one of cosine, linear"),
        ("is_on", 1, "true or false"),
        ("name", b"x", "a text"),
        ("betas", [0.9], "a list of 2, each a number below 1"),
        ("betas", 0.9, "a list of 2, each a number below 1"),
        ("seeds", [1, "2"], "a list, each a whole number"),
        ("seeds", "12", "a list, each a whole number"),
        ("curve", [[1, 2, 3]], "a list, each a list of tokens, value"),
        ("table", [], "a table, or None"),
    ],
)
def test_an_error_names_the_field_what_it_may_hold_and_what_came(name, value, expected):
    with pytest.raises(ValueError, match=re.escape(f"{name} must be {expected}, got {shown(value)}")):
        Options(**{"count": 1} | {name: value})


def test_what_a_file_cannot_tell_apart_is_converted():
    made = Options(count=1, rate=2, betas=[0, 0.5], seeds=[1, 2], curve=[[1, 2]])
    assert (made.rate, made.betas, made.seeds, made.curve) == (2.0, (0.0, 0.5), (1, 2), (Point(1, 2.0),))
    assert isinstance(made.rate, float)
    assert isinstance(made.curve[0], Point)


def test_a_table_of_fields_becomes_its_dataclass():
    assert from_mapping(Options, {"count": 3, "table": {"a": 1}}) == Options(count=3, table={"a": 1})


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ([], "an? options must be a table of fields"),
        ({"count": 1, "x": 2}, "unknown field 'x'; there are: count, rate"),
        ({"rate": 1.0}, "field 'count' is missing"),
        ({"count": "1"}, "count must be a whole number"),
    ],
)
def test_what_is_no_such_table_is_refused(told, message):
    with pytest.raises(ValueError, match=message):
        from_mapping(Options, told)


def test_long_values_are_not_repeated_whole():
    with pytest.raises(ValueError, match="count must be") as error:
        Options(count="x" * 100_000)
    assert len(str(error.value)) < 120
