"""captioning: a sentence about an image. All images are brought to the size that training saw."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from twofold_runtime.codec import Encoded
from twofold_runtime.decoding import Decoding
from twofold_runtime.engine import Arrays
from twofold_runtime.images import read_image, resized
from twofold_runtime.predictions import CaptionPrediction, ImageInput, Prediction
from twofold_runtime.writing import WritingCodec

# Tokens of a caption; what follows is neither learned nor written.
LONGEST = 64


class CaptionCodec(WritingCodec[ImageInput]):
    """Encodes an image as pixel_values, (3, height, width) from -1 to 1."""

    task = "captioning"
    reading_shape: ClassVar[Mapping[str, Any]] = {"height": int, "width": int}
    batch = 100

    @property
    def usual_decoding(self) -> Decoding:
        return Decoding(max_new_tokens=LONGEST)

    def input_of_line(self, line: str) -> ImageInput:
        return ImageInput(read_image(line), line)

    def encode(self, input: ImageInput) -> Encoded[ImageInput]:
        if not isinstance(input, ImageInput):
            raise ValueError(f"input must be an ImageInput, got {type(input).__name__}")
        pixels = input.pixels
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8 or not pixels.size:
            raise ValueError(f"pixels must be (height, width, 3) of uint8, got {pixels.shape} of {pixels.dtype}")
        return Encoded(input, ({"pixel_values": values_of(self.sized(pixels))},))

    def sized(self, pixels: np.ndarray) -> np.ndarray:
        """(3, height, width) of uint8, of the size that the model reads."""
        return resized(pixels, self.reading["height"], self.reading["width"])

    def decode(self, encoded: Encoded[ImageInput], outputs: Sequence[Arrays]) -> CaptionPrediction:
        return CaptionPrediction(encoded.input.name, self.text_of(outputs).strip())

    def shown(self, prediction: Prediction) -> str:
        return f"{prediction['image']}\n  {prediction['caption']}"


def values_of(planes: np.ndarray) -> np.ndarray:
    """Pixels of uint8 as numbers from -1 to 1."""
    return planes.astype(np.float32) / np.float32(127.5) - 1
