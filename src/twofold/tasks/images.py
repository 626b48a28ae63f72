"""Folders of images with captions. Needs Pillow."""

from pathlib import Path

import torch
from torch import Tensor

from twofold.data.examples import Captioned, Splits
from twofold.data.files import DataError, records_of, text_field
from twofold.data.splits import find_file, find_split, read_splits
from twofold_runtime.checked import shown
from twofold_runtime.images import read_image


def read_captions(path: Path | str) -> Splits[Captioned]:
    """{"image": "name.png", "caption": "..."} a line, images lying beside it: captions.jsonl, or train, dev, test.

    From captions.jsonl dev and test are cut; all captions of one image stay in one split.
    """
    path = Path(path)
    whole = find_file(path, "captions.jsonl")
    if whole is not None and (other := find_split(path, "train", (".jsonl",))) is not None:
        raise DataError(path, None, f"has {whole.name} and {other.name}: which of them is meant? Keep one")

    def read(file: Path) -> list[Captioned]:
        return [
            Captioned(
                _beside(file, line, text_field(file, line, record, "image")), text_field(file, line, record, "caption")
            )
            for line, record in records_of(file)
        ]

    def key(example: Captioned) -> str:
        return f"{tuple(example.pixels.shape)} {example.pixels.numpy().tobytes().hex()}"

    return read_splits(whole or path, (".jsonl",), read, key)


def _beside(file: Path, line: int, name: str) -> Tensor:
    """The image of a captions file's line. Its name may not lead out of the file's folder."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise DataError(file, line, f"field 'image' must name a file inside the folder, got {shown(name)}")
    try:
        return torch.from_numpy(read_image(file.parent / name))
    except ValueError as error:
        raise DataError(file, line, str(error)) from error
