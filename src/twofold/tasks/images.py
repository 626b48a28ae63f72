"""Image files as tensors, and folders of images with captions. Needs Pillow."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from twofold.checked import shown
from twofold.data.examples import Captioned, Splits
from twofold.data.files import DataError, records_of, text_field
from twofold.data.limits import why_too_many
from twofold.data.splits import find_file, find_split, read_splits

# The longer side of an image that is kept: models here look at small ones, and a folder of photographs must fit into
# memory.
KEPT_SIDE = 128
# Pillow reads many more, some of them by starting other programs (EPS: ghostscript).
FORMATS = ("PNG", "JPEG", "PPM", "BMP", "GIF", "WEBP", "TIFF")
# White, in 16 bits.
DEEPEST = 65535


def read_image(path: Path | str) -> Tensor:
    """(height, width, 3) of uint8 from an image file in one of FORMATS, at most 128 to a side."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ModuleNotFoundError as error:
        raise ValueError(f"reading {path} needs Pillow, which is not installed: pip install pillow") from error
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} must be an image file, and there is none")
    try:
        with Image.open(path, formats=FORMATS) as file:
            if problem := why_too_many("PIXELS", file.width * file.height, "pixels"):
                raise ValueError(problem)
            image = _in_colour(ImageOps.exif_transpose(file))
            image.thumbnail((KEPT_SIDE, KEPT_SIDE))
    except UnidentifiedImageError as error:
        raise ValueError(f"{path} must be an image in one of {', '.join(FORMATS)}") from error
    # Each format has its own errors: SyntaxError, TypeError, NotImplementedError, a decompression bomb ...
    except Exception as error:
        raise ValueError(f"{path} is no image that can be read: {error}") from error
    return torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(image.height, image.width, 3)


def _in_colour(image: Any) -> Any:
    """Of 8 bits, what is transparent on white: Pillow would take off what says so, or cut larger numbers at 255."""
    from PIL import Image

    if image.mode.startswith("I"):
        values = np.asarray(image.convert("I"))
        if values.min() < 0 or values.max() > DEEPEST:
            raise ValueError(f"pixels must be of 8 or 16 bits, got some from {values.min()} to {values.max()}")
        grey = (values * (255 / DEEPEST)).round().astype(np.uint8)
        image = Image.fromarray(np.where(values == image.info.get("transparency"), np.uint8(255), grey))
    elif image.mode == "F":
        raise ValueError("pixels must be of 8 or 16 bits, got numbers with a point")
    if "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def resized(pixels: Tensor, height: int, width: int) -> Tensor:
    """An image (height, width, 3) of uint8 as (3, height, width) of uint8, stretched where it must be."""
    planes = pixels.permute(2, 0, 1)
    if planes.shape[1:] == (height, width):
        return planes
    stretched = interpolate(planes[None].float(), (height, width), mode="bilinear", antialias=True)[0]
    return stretched.round().clamp(0, 255).to(torch.uint8)


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
        return read_image(file.parent / name)
    except ValueError as error:
        raise DataError(file, line, str(error)) from error
