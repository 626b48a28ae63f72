"""Files as lines and records, and folders as splits. What is wrong with a file is said in one line: where and what."""

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from twofold.data.examples import SPLITS, Splits
from twofold.data.grammar import fingerprint

Example = TypeVar("Example")
NAMES = {"train": ("train",), "dev": ("dev", "valid", "validation", "val"), "test": ("test",)}
ENDINGS = (".jsonl", ".tsv", ".txt", ".bio", ".conll")
KINDS = {"string": str, "list": list, "object": dict, "whole number": int}
_is_whole: ContextVar[bool] = ContextVar("is_whole", default=False)


class DataError(ValueError):
    """Data that cannot be read. The message names the file, the line where there is one, and what is wrong."""

    def __init__(self, path: Path | str, line: int | None, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")


def text_of(path: Path | str) -> str:
    """A file's text, unpacked if it ends in .gz, without a byte order mark and with plain line ends."""
    path = Path(path)
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except FileNotFoundError:
        raise DataError(path, None, "no such file") from None
    except IsADirectoryError:
        raise DataError(path, None, "is a folder, expected a file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(path, None, "is not a whole gzip file") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start} of the file"
        raise DataError(path, line, problem) from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.strip():
        raise DataError(path, None, "is empty")
    return text


def lines_of(path: Path | str) -> list[str]:
    """Lines without spaces at their ends. Only a newline ends a line: other separators of Unicode are text."""
    return [line.strip(" \r") for line in text_of(path).removesuffix("\n").split("\n")]


def records_of(path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of a file with one JSON object a line, with their line numbers. Blank lines are passed over."""
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(path, number, f"invalid JSON: {error.msg} at column {error.colno}") from None
        except (ValueError, RecursionError) as error:
            # A number of thousands of digits, or thousands of brackets.
            raise DataError(path, number, f"invalid JSON: {error}") from None
        if not isinstance(record, dict):
            raise DataError(path, number, f"expected a JSON object, got {_shown(record)}")
        yield number, record


def field(path: Path | str, line: int | None, record: dict[str, Any], name: str, kind: str = "string") -> Any:
    """A record's field, there and of its kind."""
    if name not in record:
        raise DataError(path, line, f"missing field {name!r} (fields here: {', '.join(record) or 'none'})")
    value = record[name]
    if not isinstance(value, KINDS[kind]) or isinstance(value, bool):
        raise DataError(path, line, f"field {name!r} must be a {kind}, got {_shown(value)}")
    if isinstance(value, str):
        readable(path, line, name, value)
    return value


def counted(count: int, what: str) -> str:
    """As in "1 example" and "2 examples"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def readable(path: Path | str, line: int | None, name: str, value: str) -> None:
    """Refuse halves of characters, which JSON can spell and no tokenizer can read."""
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise DataError(path, line, f"field {name!r} holds half of a surrogate pair, which is no character")


def words_in(path: Path | str, line: int | None, record: dict[str, Any], name: str) -> str:
    """A field that must hold some text."""
    value = field(path, line, record, name)
    if not value.strip():
        raise DataError(path, line, f"field {name!r} is empty")
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 40 else f"{text[:37]}..."


def named(folder: Path, name: str) -> Path | None:
    """A file of that name, gzipped or not. A link that leads nowhere is an error: somebody meant a file to be there."""
    for path in (folder / f"{name}{end}" for end in ("", ".gz")):
        if path.is_file():
            return path
        if path.is_symlink() and not path.exists():
            raise DataError(path, None, f"is a link to {path.readlink()}, which is not there")
    return None


def find_split(folder: Path | str, split: str, endings: Sequence[str] = ENDINGS) -> Path | None:
    """A split's file: its name, one of the endings, perhaps .gz. None where there is none.

    `valid`, `validation` and `val` are dev, `test2016` is test. Of several, the first in the order of `endings` is
    taken; several that are only like test (`test2016`, `test2017`) are an error.
    """
    if split not in NAMES:
        raise ValueError(f"split must be one of {', '.join(NAMES)}, got {split!r}")
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(folder, None, "no such folder")
    for name in NAMES[split]:
        for ending in endings:
            if path := named(folder, f"{name}{ending}"):
                return path
    if split != "test":
        return None
    pattern = re.compile(rf"test[^.]*({'|'.join(map(re.escape, endings))})(\.gz)?")
    found = sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name) and path.is_file())
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise DataError(folder, None, f"has several test files ({names}); keep one, or call one test{endings[0]}")
    return found[0] if found else None


@contextmanager
def all_as_test() -> Generator[None]:
    """Readers of files give all they read as test, for whoever only scores: nothing is cut, or asked of train."""
    token = _is_whole.set(True)
    try:
        yield
    finally:
        _is_whole.reset(token)


def is_all_test() -> bool:
    return _is_whole.get()


def read_splits(
    path: Path | str,
    endings: Sequence[str],
    read: Callable[[Path], list[Example]],
    key: Callable[[Example], str] | None,
    labels: Callable[[Example], Iterable[str]] | None = None,
) -> Splits[Example]:
    """A folder's splits, or a file as train. Where train is alone, dev or test are cut from it and `cut` says so.

    A folder without train but with others is given as it is: `missing` names train. Without a key nothing is cut.
    """
    path = Path(path)
    if path.is_dir():
        files = {name: find_split(path, name, endings) for name in SPLITS}
        if not any(files.values()):
            looked = ", ".join(f"train{ending}" for ending in endings)
            raise DataError(path, None, f"holds no data: expected {looked}, or dev and test likewise")
    else:
        files = {"train": path, "dev": None, "test": None}
    found = {name: read(file) if file else [] for name, file in files.items()}
    splits = Splits(found["train"], found["dev"], found["test"])
    return splits if key is None else cut_missing(path, splits, key, labels)


def cut_missing(
    path: Path | str,
    splits: Splits[Example],
    key: Callable[[Example], str],
    labels: Callable[[Example], Iterable[str]] | None = None,
) -> Splits[Example]:
    """Splits with what is missing cut from train: a tenth each, by the hash of `key`; equal keys stay together.

    A key stays in train where that would otherwise lack one of its labels: nothing could ever predict that. Within
    `all_as_test` all of it is test.
    """
    if is_all_test():
        return Splits([], [], [*splits.train, *splits.dev, *splits.test])
    wanted = [name for name in splits.missing if name != "train"]
    if not splits.train or not wanted:
        return splits
    keys = sorted({key(example) for example in splits.train}, key=lambda text: (fingerprint(text), text))
    size = max(1, round(len(keys) / 10))
    if len(keys) < 3:
        there = counted(len(keys), "different example")
        problem = f"has {there}, too few to cut {' and '.join(wanted)} from; give those as files"
        raise DataError(path, None, problem)
    carried: dict[str, set[str]] = {text: set() for text in keys}
    if labels is not None:
        for example in splits.train:
            carried[key(example)].update(labels(example))
    left = Counter(label for found in carried.values() for label in found)
    owner: dict[str, str] = {}
    for text in keys:
        if len(owner) < size * len(wanted) and all(left[label] > 1 for label in carried[text]):
            owner[text] = wanted[len(owner) // size]
            left.subtract(carried[text])
    if lacking := [name for name in wanted if name not in owner.values()]:
        problem = f"has too few examples of its labels to cut {' and '.join(lacking)} from; give those as files"
        raise DataError(path, None, problem)
    parts: dict[str, list[Example]] = {"train": [], "dev": list(splits.dev), "test": list(splits.test)}
    for example in splits.train:
        parts[owner.get(key(example), "train")].append(example)
    return Splits(parts["train"], parts["dev"], parts["test"], cut=tuple(wanted))
