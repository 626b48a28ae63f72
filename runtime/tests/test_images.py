"""Image files are read as they are, resized as Pillow resizes, and what is none is refused."""

import sys

import numpy as np
import pytest

from twofold_runtime.images import read_image, resized

Image = pytest.importorskip("PIL.Image", reason="the extra twofold-runtime[images] is not installed")


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(256, size=(height, width, 3), dtype=np.uint8)


def red(side=20):
    return Image.new("RGB", (side, side), (220, 40, 40))


@pytest.mark.parametrize("size", [(1, 1), (5, 7), (16, 16), (31, 64), (128, 90)])
@pytest.mark.parametrize("wanted", [(1, 1), (8, 8), (16, 24), (64, 5)])
def test_resizing_is_that_of_pillow_within_one_grey_level(size, wanted):
    pixels = noise(*size)
    theirs = np.array(Image.fromarray(pixels).resize(wanted[::-1], Image.Resampling.BILINEAR))
    ours = resized(pixels, *wanted)
    assert (ours.shape, ours.dtype) == ((3, *wanted), np.uint8)
    assert np.abs(ours.transpose(1, 2, 0).astype(int) - theirs.astype(int)).max() <= 1


def test_the_same_size_changes_nothing_and_one_colour_stays_one():
    pixels = noise(5, 7)
    assert np.array_equal(resized(pixels, 5, 7), pixels.transpose(2, 0, 1))
    assert np.unique(resized(np.full((6, 6, 3), 200, np.uint8), 4, 8)).tolist() == [200]


@pytest.mark.parametrize("ending", ["png", "ppm", "bmp"])
def test_images_are_read_as_they_are(tmp_path, ending):
    pixels = noise(5, 7)
    Image.fromarray(pixels).save(tmp_path / f"image.{ending}")
    assert np.array_equal(read_image(tmp_path / f"image.{ending}"), pixels)


def test_large_images_are_kept_small(tmp_path):
    Image.new("RGB", (600, 300)).save(tmp_path / "large.png")
    found = read_image(str(tmp_path / "large.png"))
    assert (found.shape, found.dtype) == ((64, 128, 3), np.uint8)


def test_what_is_transparent_is_white(tmp_path):
    for mode in ("RGBA", "LA", "PA"):
        name = "clear.tiff" if mode == "PA" else "clear.png"
        image = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
        image.paste((0, 0, 0, 255), (0, 0, 4, 8))
        image.convert(mode).save(tmp_path / name)
        found = read_image(tmp_path / name)
        assert np.unique(found[:, :4]).tolist() == [0], mode
        assert np.unique(found[:, 4:]).tolist() == [255], mode
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([0, 0, 0, 9, 9, 9])
    palette.paste(1, (0, 0, 4, 8))
    palette.save(tmp_path / "palette.png", transparency=0)
    found = read_image(tmp_path / "palette.png")
    assert (found[0, 0].tolist(), found[0, 7].tolist()) == ([9, 9, 9], [255, 255, 255])


def test_sixteen_bits_become_eight(tmp_path):
    ramp = np.tile(np.linspace(0, 65535, 64).round().astype(np.int32), (4, 1))
    deep = Image.frombytes("I", (64, 4), ramp.tobytes())
    deep.convert("I;16").save(tmp_path / "deep.png")
    found = read_image(tmp_path / "deep.png")
    assert np.abs(found[0, :, 0].astype(int) - np.linspace(0, 255, 64).round().astype(int)).max() <= 1
    deep.convert("I;16B").save(tmp_path / "big.tiff")
    assert np.array_equal(read_image(tmp_path / "big.tiff"), found)
    deep.convert("I;16").save(tmp_path / "clear.png", transparency=0)
    assert read_image(tmp_path / "clear.png")[0, :, 0].tolist() == [255, *found[0, 1:, 0].tolist()]
    Image.frombytes("I", (64, 4), (ramp * 100).tobytes()).save(tmp_path / "deeper.tiff")
    Image.new("F", (4, 4), 0.5).save(tmp_path / "float.tiff")
    for name in ("deeper", "float"):
        with pytest.raises(ValueError, match=rf"{name}\.tiff .*pixels must be of 8 or 16 bits"):
            read_image(tmp_path / f"{name}.tiff")


def test_what_is_no_image_is_refused_by_its_name(tmp_path):
    red().save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:-30])
    (tmp_path / "text.png").write_text("not a picture")
    # A format that starts a program.
    red().save(tmp_path / "a.eps")
    (tmp_path / "a.eps").rename(tmp_path / "program.png")
    for name in ("nowhere.png", "cut.png", "text.png", "program.png"):
        with pytest.raises(ValueError, match=name):
            read_image(tmp_path / name)
    with pytest.raises(ValueError, match=r"must be an image file, and there is none"):
        read_image("")


def test_an_image_too_large_for_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TWOFOLD_MAX_PIXELS", "399")
    red().save(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"a.png .*400 pixels, expected at most 399 \(TWOFOLD_MAX_PIXELS"):
        read_image(tmp_path / "a.png")


def test_an_image_that_pillow_gives_up_on_is_named(tmp_path, monkeypatch):
    def gives_up(path, formats):
        raise NotImplementedError("unimplemented pixel format")

    red().save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "open", gives_up)
    with pytest.raises(ValueError, match=r"a.png .*unimplemented pixel format"):
        read_image(tmp_path / "a.png")


def test_without_pillow_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ValueError, match=r"needs Pillow, which is not installed: pip install pillow"):
        read_image("a.png")
