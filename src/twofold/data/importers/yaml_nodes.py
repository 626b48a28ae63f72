"""YAML as nodes that know their lines, so that errors can name them. No object of a YAML file is ever built."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twofold.data.files import DataError, text_of


def documents(path: Path) -> list[Any]:
    """The documents of a YAML file."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return list(yaml.compose_all(text_of(path, "YAML_BYTES"), Loader=loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise DataError(path, mark.line + 1 if mark else None, f"invalid YAML: {' '.join(problem.split())}") from None
    except RecursionError:
        raise DataError(path, None, "invalid YAML: nested too deeply") from None


def line_of(node: Any) -> int:
    return node.start_mark.line + 1


def is_mapping(node: Any) -> bool:
    return type(node).__name__ == "MappingNode"


def fields(path: Path, node: Any) -> dict[str, Any]:
    """A mapping's nodes by their names."""
    if not is_mapping(node):
        raise DataError(path, line_of(node), "expected a mapping (name: value)")
    return {str(name.value): value for name, value in node.value}


def items(path: Path, node: Any) -> list[Any]:
    """A sequence's nodes."""
    if type(node).__name__ != "SequenceNode":
        raise DataError(path, line_of(node), "expected a list (- item)")
    return node.value


def text(path: Path, node: Any) -> str:
    """A scalar's text."""
    if type(node).__name__ != "ScalarNode":
        raise DataError(path, line_of(node), "expected a text")
    return node.value


def lines(path: Path, node: Any) -> Iterator[tuple[int, str]]:
    """The lines of a text with their numbers in the file: those of a block begin below its sign (|)."""
    value = text(path, node)
    first = line_of(node) + (node.style in ("|", ">"))
    for number, line in enumerate(value.split("\n"), first):
        if line.strip():
            yield number, line.strip()
