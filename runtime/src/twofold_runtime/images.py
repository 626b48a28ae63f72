"""Image files as arrays. Reading needs Pillow (the extra `images`); resizing needs numpy alone."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from twofold_runtime.limits import why_too_many

# The formats that are read: Pillow knows others that start a program, as EPS does.
FORMATS = ("PNG", "JPEG", "PPM", "BMP", "GIF", "WEBP", "TIFF")
# The longer side of an image that is kept: models here look at small ones, and a folder of photographs must fit into
# memory.
KEPT_SIDE = 128
# White, in 16 bits.
DEEPEST = 65535


def read_image(path: Path | str) -> np.ndarray:
    """(height, width, 3) of uint8, at most 128 to a side. ValueError for what is no image of FORMATS."""
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
        raise ValueError(f"{path} is no image that can be read: {error!s:.200}") from error
    return np.array(image, np.uint8)


def _in_colour(image: Any) -> Any:
    """In 8 bits, with white behind what is transparent: Pillow alone would drop transparency and cut 16 bits at 255."""
    from PIL import Image

    if image.mode.startswith("I"):
        values = np.asarray(image.convert("I"))
        if values.min() < 0 or values.max() > DEEPEST:
            raise ValueError(f"pixels must be of 8 or 16 bits, got some from {values.min()} to {values.max()}")
        grey = (values * (255 / DEEPEST)).round().astype(np.uint8)
        image = Image.fromarray(np.where(values == image.info.get("transparency"), np.uint8(255), grey))
    elif image.mode == "F":
        raise ValueError("pixels must be of 8 or 16 bits, got floating-point numbers")
    if "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def resized(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """An image (height, width, 3) of uint8 as (3, height, width) of uint8, stretched bilinearly, without aliasing."""
    planes = pixels.transpose(2, 0, 1)
    if planes.shape[1:] == (height, width):
        return np.ascontiguousarray(planes)
    rows, columns = _weights(planes.shape[1], height), _weights(planes.shape[2], width)
    stretched = rows @ planes.astype(np.float32) @ columns.T
    return stretched.round().clip(0, 255).astype(np.uint8)


@lru_cache(64)
def _weights(size: int, wanted: int) -> np.ndarray:
    """(wanted, size): how much each old pixel adds to a new one, a triangle as wide as a new pixel or an old one."""
    scale = size / wanted
    reach = max(scale, 1.0)
    centres = (np.arange(wanted) + 0.5) * scale - 0.5
    weights = np.clip(1 - np.abs(np.arange(size)[None] - centres[:, None]) / reach, 0, None)
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)
