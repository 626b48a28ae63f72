"""Folders as splits: which file is train, dev and test, and how a split that is missing is cut from train."""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from twofold.data.examples import SPLITS, Splits
from twofold.data.files import DataError, counted
from twofold.data.grammar import fingerprint

Example = TypeVar("Example")
SPLIT_NAMES = {"train": ("train",), "dev": ("dev", "valid", "validation", "val"), "test": ("test",)}
ENDINGS = (".jsonl", ".tsv", ".txt", ".bio", ".conll")
_all_is_test: ContextVar[bool] = ContextVar("all_is_test", default=False)
_nothing_is_cut: ContextVar[bool] = ContextVar("nothing_is_cut", default=False)


def unpacked_name(path: Path) -> str:
    """A file's name without .gz."""
    return path.name.removesuffix(".gz")


def find_file(folder: Path, name: str) -> Path | None:
    """A file of that name, gzipped or not. A link that leads nowhere is an error: somebody meant a file to be there."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
        if path.is_symlink() and not path.exists():
            raise DataError(path, None, f"is a link to {path.readlink()}, which is not there")
    return None


def find_split(folder: Path | str, split: str, endings: Sequence[str] = ENDINGS) -> Path | None:
    """A split's file: its name, one of the endings, perhaps .gz. None where there is none.

    `valid`, `validation` and `val` are dev, `test2016` is test. Of several, the first in the order of `endings` is
    taken; several that only begin with test (`test2016`, `test2017`) are an error.
    """
    if split not in SPLIT_NAMES:
        raise ValueError(f"split must be one of {', '.join(SPLIT_NAMES)}, got {split!r}")
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(folder, None, "no such folder")
    for name in SPLIT_NAMES[split]:
        for ending in endings:
            if path := find_file(folder, f"{name}{ending}"):
                return path
    if split != "test":
        return None
    pattern = re.compile(rf"test[^.]*({'|'.join(map(re.escape, endings))})(\.gz)?")
    files = sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name) and path.is_file())
    if len(files) > 1:
        names = ", ".join(path.name for path in files)
        raise DataError(folder, None, f"has several test files ({names}); keep one, or call one test{endings[0]}")
    return files[0] if files else None


@contextmanager
def all_as_test() -> Generator[None]:
    """Within it, readers give everything they read as test, for scoring: nothing is cut, or compared with train."""
    token = _all_is_test.set(True)
    try:
        yield
    finally:
        _all_is_test.reset(token)


@contextmanager
def nothing_cut() -> Generator[None]:
    """Within it, readers give the splits that the files have, and cut none from train."""
    token = _nothing_is_cut.set(True)
    try:
        yield
    finally:
        _nothing_is_cut.reset(token)


def is_all_test() -> bool:
    return _all_is_test.get()


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
            expected = ", ".join(f"train{ending}" for ending in endings)
            raise DataError(path, None, f"holds no data: expected {expected}, or dev and test likewise")
    else:
        files = {"train": path, "dev": None, "test": None}
    examples = {name: read(file) if file else [] for name, file in files.items()}
    splits = Splits(examples["train"], examples["dev"], examples["test"])
    return splits if key is None else cut_missing(path, splits, key, labels)


def cut_missing(
    path: Path | str,
    splits: Splits[Example],
    key: Callable[[Example], str],
    labels: Callable[[Example], Iterable[str]] | None = None,
) -> Splits[Example]:
    """Splits with what is missing cut from train: a tenth each, by the hash of `key`; equal keys stay together.

    A key stays in train where train would otherwise lack one of its labels: nothing could ever predict that. Within
    `all_as_test` everything is test.
    """
    if is_all_test():
        return Splits([], [], [*splits.train, *splits.dev, *splits.test])
    wanted = [name for name in splits.missing if name != "train"]
    if _nothing_is_cut.get() or not splits.train or not wanted:
        return splits
    keys = sorted({key(example) for example in splits.train}, key=lambda text: (fingerprint(text), text))
    size = max(1, round(len(keys) / 10))
    if len(keys) < 3:
        count = counted(len(keys), "different example")
        raise DataError(path, None, f"has {count}, too few to cut {' and '.join(wanted)} from; give those as files")
    labels_of_key: dict[str, set[str]] = {text: set() for text in keys}
    if labels is not None:
        for example in splits.train:
            labels_of_key[key(example)].update(labels(example))
    keys_in_train = Counter(label for group in labels_of_key.values() for label in group)
    split_of_key: dict[str, str] = {}
    for text in keys:
        if len(split_of_key) < size * len(wanted) and all(keys_in_train[label] > 1 for label in labels_of_key[text]):
            split_of_key[text] = wanted[len(split_of_key) // size]
            keys_in_train.subtract(labels_of_key[text])
    if lacking := [name for name in wanted if name not in split_of_key.values()]:
        problem = f"has too few examples of its labels to cut {' and '.join(lacking)} from; give those as files"
        raise DataError(path, None, problem)
    parts: dict[str, list[Example]] = {"train": [], "dev": list(splits.dev), "test": list(splits.test)}
    for example in splits.train:
        parts[split_of_key.get(key(example), "train")].append(example)
    return Splits(parts["train"], parts["dev"], parts["test"], cut=tuple(wanted))
