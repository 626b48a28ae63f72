"""Dataclasses that check themselves: what a field may hold stands in its annotation, and one function reads it there.

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Options:
        steps: Annotated[int, at_least(1)] | None = None
        rate: Annotated[float, above(0), at_most(10)] = 1e-3
        schedule: Literal["cosine", "linear"] = "cosine"

        def __post_init__(self) -> None:
            check_fields(self)

Every error is a ValueError that names the field, what it may hold and what came. Numbers are finite, and a truth value
is no number. What JSON and TOML cannot tell apart is converted: a list where a tuple is annotated, a whole number where
a float is. Imports the standard library alone: a command reads these classes for its help.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

Checked = TypeVar("Checked")
# Characters of a value that an error repeats.
SHOWN = 60


class Limit(NamedTuple):
    """What a value of the annotated type must satisfy besides; `words` go on with "must be a number ..."."""

    words: str
    holds: Callable[[Any], bool]


def at_least(low: float) -> Limit:
    return Limit(f"at least {_number(low)}", lambda value: value >= low)


def at_most(high: float) -> Limit:
    return Limit(f"at most {_number(high)}", lambda value: value <= high)


def above(low: float) -> Limit:
    return Limit(f"above {_number(low)}", lambda value: value > low)


def below(high: float) -> Limit:
    return Limit(f"below {_number(high)}", lambda value: value < high)


def within(low: float, high: float) -> Limit:
    """Both ends allowed."""
    return Limit(f"from {_number(low)} to {_number(high)}", lambda value: low <= value <= high)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


# More is almost certainly a typo, and more than some of torch's functions take.
Count = Annotated[int, within(1, 2**31)]
# What torch's generators take.
Seed = Annotated[int, at_least(0), Limit("below 2**64", lambda value: value < 2**64)]


def check_fields(options: Any) -> None:
    """Raise unless every field of a dataclass holds what it is annotated with; convert lists and whole numbers."""
    for name, hint in _hints(type(options)).items():
        value = getattr(options, name)
        converted = checked(name, value, hint)
        if converted is not value:
            object.__setattr__(options, name, converted)


def checked(name: str, value: Any, hint: Any) -> Any:
    """The value as `hint` wants it, or a ValueError that names it."""
    kind = _kind(hint)
    try:
        return kind.read(value)
    except TypeError:
        raise ValueError(f"{name} must be {kind.expected}, got {shown(value)}") from None


def from_mapping(kind: type[Checked], content: Any) -> Checked:
    """A dataclass of what a file holds: no field unknown, none without a default missing."""
    known = {field.name: field.default is MISSING and field.default_factory is MISSING for field in fields(kind)}  # type: ignore[arg-type]
    if not isinstance(content, Mapping):
        raise ValueError(f"a {kind.__name__.lower()} must be a table of fields, got {shown(content)}")
    for name in content:
        if name not in known:
            raise ValueError(f"unknown field {shown(name)}; there are: {', '.join(known)}")
    for name, is_required in known.items():
        if is_required and name not in content:
            raise ValueError(f"field {name!r} is missing")
    return kind(**content)


def shown(value: Any) -> str:
    """A value as an error repeats it: whole if it is short."""
    return shortened(repr(value))


def shortened(text: str, most: int = SHOWN) -> str:
    """A text that an error repeats: its beginning and its end if it is long."""
    half = most // 2 - 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


class _Kind(NamedTuple):
    """What a type hint comes to: words for an error, and a function that converts a value or raises TypeError."""

    expected: str
    read: Callable[[Any], Any]


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}


@cache
def _kind(hint: Any) -> _Kind:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _limited(_kind(arguments[0]), [one for one in arguments[1:] if isinstance(one, Limit)])
    if origin in (Union, UnionType):
        return _any_of([_kind(one) for one in arguments])
    if origin is Literal:
        return _Kind(f"one of {', '.join(map(str, arguments))}", _if(lambda value: value in arguments))
    if origin is tuple:
        return _tuple(arguments)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint is Any:
        return _Kind("anything", lambda value: value)
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        row = _rows([_kind(one) for one in get_type_hints(hint, include_extras=True).values()])
        return _Kind(f"a list of {', '.join(hint._fields)}", lambda value: hint(*row(value)))
    kind = origin or hint
    words = "a table" if issubclass(kind, Mapping) else f"a {kind.__name__}"
    return _Kind(words, _if(lambda value: isinstance(value, kind)))


def _if(holds: Callable[[Any], bool]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not holds(value):
            raise TypeError
        return value

    return read


def _is_number(value: Any) -> bool:
    # A whole number may be larger than any float.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _as_float(value: Any) -> float:
    if not _is_number(value):
        raise TypeError
    return float(value)


_PLAIN = {
    bool: _Kind("true or false", _if(lambda value: isinstance(value, bool))),
    int: _Kind("a whole number", _if(lambda value: type(value) is int)),
    float: _Kind("a number", _as_float),
    str: _Kind("a text", _if(lambda value: isinstance(value, str))),
    NoneType: _Kind("None", _if(lambda value: value is None)),
}


def _limited(kind: _Kind, limits: list[Limit]) -> _Kind:
    def read(value: Any) -> Any:
        converted = kind.read(value)
        if not all(limit.holds(converted) for limit in limits):
            raise TypeError
        return converted

    words = " and ".join(limit.words for limit in limits)
    joint = " of " if words.startswith("at ") else " "
    return _Kind(f"{kind.expected}{joint}{words}" if words else kind.expected, read)


def _any_of(kinds: list[_Kind]) -> _Kind:
    def read(value: Any) -> Any:
        for kind in kinds:
            try:
                return kind.read(value)
            except TypeError:
                continue
        raise TypeError

    return _Kind(", or ".join(kind.expected for kind in kinds), read)


def _tuple(arguments: tuple[Any, ...]) -> _Kind:
    if len(arguments) == 2 and arguments[1] is ...:
        item = _kind(arguments[0])
        return _Kind(f"a list, each {item.expected}", lambda value: tuple(item.read(one) for one in _listed(value)))
    kinds = [_kind(one) for one in arguments]
    each = " and ".join(dict.fromkeys(kind.expected for kind in kinds))
    return _Kind(f"a list of {len(kinds)}, each {each}", _rows(kinds))


def _rows(kinds: list[_Kind]) -> Callable[[Any], tuple[Any, ...]]:
    def read(value: Any) -> tuple[Any, ...]:
        if len(_listed(value)) != len(kinds):
            raise TypeError
        return tuple(kind.read(one) for kind, one in zip(kinds, value, strict=True))

    return read


def _listed(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise TypeError
    return value
