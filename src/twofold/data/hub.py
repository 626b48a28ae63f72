"""Data sets of the Hugging Face hub by name, through `datasets`, which is an extra."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from twofold.data.files import DataError


def from_hub(name: str, split: str, *, streaming: bool = True, subset: str | None = None) -> Iterator[dict[str, Any]]:
    """Rows of a split. Streaming reads as it goes; without it the set is downloaded first."""
    try:
        datasets = import_module("datasets")
    except ImportError:
        raise DataError(name, None, "data sets of the hub need an extra: pip install 'twofold[hub]'") from None
    return (dict(row) for row in datasets.load_dataset(name, subset, split=split, streaming=streaming))
