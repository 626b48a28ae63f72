"""Images become arrays of one size, and only arrays of pixels are images."""

import numpy as np
import pytest
from fakes import FIRST, ByteTokenizer

from twofold_runtime.captions import LONGEST, CaptionCodec, values_of
from twofold_runtime.predictions import ImageInput
from twofold_runtime.predictor import Predictor
from twofold_runtime.tokens import END, TextTokenizer


class Brightness:
    """Writes how bright each image is, in hundredths."""

    def write(self, arrays, *, decoding, max_new_tokens, never, listen=None):
        assert max_new_tokens == LONGEST
        assert arrays["pixel_values"].dtype == np.float32
        assert arrays["pixel_values"].shape[1:] == (3, 4, 6)
        levels = ((arrays["pixel_values"].mean((1, 2, 3)) + 1) * 50).round().astype(int)
        return [[FIRST + byte for byte in f" {level} ".encode()] + [END] for level in levels]


@pytest.fixture
def predictor():
    codec = CaptionCodec({"height": 4, "width": 6}, {}, TextTokenizer(ByteTokenizer()))
    return Predictor(codec, Brightness())


def plain(value, height=5, width=9):
    return np.full((height, width, 3), value, np.uint8)


def test_images_of_any_size_are_answered_in_their_order(predictor):
    inputs = [ImageInput(plain(value, 1 + value % 7, 1 + value % 50), str(value)) for value in range(0, 256, 2)]
    predictions = predictor.predict_many(inputs)
    assert [dict(one) for one in predictions] == [
        {"image": str(value), "caption": str(round(value / 2.55))} for value in range(0, 256, 2)
    ]
    assert predictions[3] == predictor.predict(inputs[3])


def test_an_image_needs_no_name(predictor):
    prediction = predictor.predict(ImageInput(plain(255)))
    assert dict(prediction) == {"image": None, "caption": "100"}


def test_values_go_from_minus_one_to_one():
    assert values_of(np.array([0, 255], np.uint8)).tolist() == [-1, 1]


def test_a_file_name_is_no_image(predictor, tmp_path):
    for wrong in ("a.png", tmp_path / "a.png", plain(3), None):
        with pytest.raises(ValueError, match=f"^input must be an ImageInput, got {type(wrong).__name__}$"):
            predictor.predict(wrong)


@pytest.mark.parametrize(
    "pixels",
    [
        plain(3).astype(np.float32),
        plain(3)[..., :2],
        plain(3)[..., 0],
        plain(3, 0, 4),
    ],
)
def test_pixels_of_another_kind_are_refused(predictor, pixels):
    with pytest.raises(ValueError, match=r"^pixels must be \(height, width, 3\) of uint8, got "):
        predictor.predict(ImageInput(pixels))


def test_a_line_of_a_command_is_a_file(predictor, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="the extra twofold-runtime[images] is not installed")
    path = str(tmp_path / "a.png")
    image.fromarray(plain(255)).save(path)
    prediction = predictor.predict(predictor.codec.input_of_line(path))
    assert dict(prediction) == {"image": path, "caption": "100"}
    assert predictor.codec.shown(prediction) == f"{path}\n  100"
    with pytest.raises(ValueError, match=r"nowhere.png"):
        predictor.codec.input_of_line(str(tmp_path / "nowhere.png"))
