"""Captioning: a small model names colours, image files are read, and what is wrong is said."""

import gzip
import json
import sys

import pytest
import torch
from PIL import Image

from twofold import open_run
from twofold.data.embedded.captioning import COLOURS
from twofold.data.examples import Captioned
from twofold.data.files import DataError
from twofold.tasks.captioning import LONGEST, Captioning
from twofold.tasks.images import read_captions, read_image, resized
from twofold.tasks.options import ModelOptions
from twofold.training.run import train_task
from twofold.training.settings import Settings

QUICK = Settings(steps=60, batch_size=32, learning_rate=3e-3, evaluate_steps=30, device="cpu")


def painted(colour, rows, columns, shade=0):
    return Image.new("RGB", (columns, rows), tuple(min(255, max(0, part + shade)) for part in COLOURS[colour]))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Plain images of one colour each, in several sizes, kinds of file and shades."""
    folder = tmp_path_factory.mktemp("captioning") / "data"
    folder.mkdir()
    lines = []
    for number in range(8):
        for place, colour in enumerate(COLOURS):
            name = f"{number}-{colour}.{('png', 'ppm')[number % 2]}"
            painted(colour, 10 + number, 12 + place, 2 * number).save(folder / name)
            lines.append({"image": name, "caption": f"ein {colour} 🟥 картинка"})
    (folder / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def trained(data):
    folder = data.parent / "run"
    return folder, train_task("captioning", folder=folder, options=ModelOptions(), settings=QUICK, data=data)


def test_training_beats_the_commonest_caption(trained):
    _, found = trained
    assert found.scores["exact_match"] > 3 * 100 / len(COLOURS)
    assert found.scores["bleu"] > 50


def test_an_opened_run_captions_a_file(trained, data, tmp_path):
    opened = open_run(trained[0])
    found = opened.predict(str(data / "0-red.png"))
    assert found == {"image": str(data / "0-red.png"), "caption": "ein red 🟥 картинка"}
    assert open_run(trained[0]).predict(str(data / "0-red.png")) == found
    assert opened.task.shown(found).splitlines()[1].strip() == found["caption"]
    assert "version:" in opened.task.notes()["bleu"]
    # Whatever its size, shape or kind: wide, of one point, grey, with an alpha channel.
    for place, image in enumerate(
        (painted("red", 3, 2000), painted("blue", 1, 1), Image.new("L", (9, 9)), Image.new("RGBA", (40, 5)))
    ):
        image.save(tmp_path / f"{place}.png")
        assert opened.predict(str(tmp_path / f"{place}.png"))["caption"].startswith("ein ")


def test_images_are_read_as_they_are(tmp_path):
    pixels = torch.randint(256, (5, 7, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    image = Image.frombytes("RGB", (7, 5), pixels.numpy().tobytes())
    for ending in ("png", "ppm"):
        image.save(tmp_path / f"image.{ending}")
        assert torch.equal(read_image(tmp_path / f"image.{ending}"), pixels)
    assert torch.equal(resized(pixels, 5, 7), pixels.permute(2, 0, 1))
    assert tuple(resized(pixels, 4, 9).shape) == (3, 4, 9)
    flat = torch.full((6, 6, 3), 200, dtype=torch.uint8)
    assert resized(flat, 4, 8).unique().tolist() == [200]
    painted("red", 300, 600).save(tmp_path / "large.png")
    assert tuple(read_image(tmp_path / "large.png").shape) == (64, 128, 3)


def test_what_is_transparent_is_white(tmp_path):
    for mode in ("RGBA", "LA", "PA"):
        image = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
        image.paste((0, 0, 0, 255), (0, 0, 4, 8))
        image.convert(mode).save(tmp_path / "clear.png" if mode != "PA" else tmp_path / "clear.tiff")
        found = read_image(tmp_path / ("clear.png" if mode != "PA" else "clear.tiff"))
        assert found[:, :4].unique().tolist() == [0], mode
        assert found[:, 4:].unique().tolist() == [255], mode
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([0, 0, 0, 9, 9, 9])
    palette.paste(1, (0, 0, 4, 8))
    palette.save(tmp_path / "palette.png", transparency=0)
    found = read_image(tmp_path / "palette.png")
    assert (found[0, 0].tolist(), found[0, 7].tolist()) == ([9, 9, 9], [255, 255, 255])


def test_sixteen_bits_are_eight(tmp_path):
    ramp = torch.linspace(0, 65535, 64).round().to(torch.int32).repeat(4, 1)
    Image.frombytes("I", (64, 4), ramp.numpy().tobytes()).convert("I;16").save(tmp_path / "deep.png")
    found = read_image(tmp_path / "deep.png")
    assert (found[0, :, 0].int() - torch.linspace(0, 255, 64).round().int()).abs().max() <= 1
    Image.frombytes("I", (64, 4), ramp.numpy().tobytes()).convert("I;16B").save(tmp_path / "big.tiff")
    assert torch.equal(read_image(tmp_path / "big.tiff"), found)
    clear = Image.frombytes("I", (64, 4), ramp.numpy().tobytes()).convert("I;16")
    clear.save(tmp_path / "clear.png", transparency=0)
    assert read_image(tmp_path / "clear.png")[0, :, 0].tolist() == [255, *found[0, 1:, 0].tolist()]
    Image.frombytes("I", (64, 4), (ramp * 100).numpy().tobytes()).save(tmp_path / "deeper.tiff")
    Image.new("F", (4, 4), 0.5).save(tmp_path / "float.tiff")
    for name in ("deeper", "float"):
        with pytest.raises(
            ValueError, match=rf"{name}\.tiff is no image that can be read: pixels must be of 8 or 16 bits"
        ):
            read_image(tmp_path / f"{name}.tiff")


def test_two_ways_to_give_captions_are_one_too_many(tmp_path):
    for name in ("captions", "train"):
        (tmp_path / f"{name}.jsonl").write_text('{"image": "a.png", "caption": "a"}')
    with pytest.raises(ValueError, match=r"has captions\.jsonl and train\.jsonl: which of them is meant"):
        read_captions(tmp_path)


def test_a_missing_broken_or_empty_image_is_an_error(trained, tmp_path):
    opened = open_run(trained[0])
    with pytest.raises(ValueError, match=r"nowhere.png must be an image file, and there is none"):
        opened.predict(str(tmp_path / "nowhere.png"))
    with pytest.raises(ValueError, match="must be an image file"):
        opened.predict("")
    painted("red", 20, 20).save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:-30])
    (tmp_path / "text.png").write_text("not a picture")
    for name in ("cut.png", "text.png"):
        with pytest.raises(ValueError, match=rf"{name} (is no image that can be read|must be an image in one of PNG)"):
            opened.predict(str(tmp_path / name))


def test_an_image_format_that_runs_other_programs_is_refused(tmp_path):
    painted("red", 20, 20).save(tmp_path / "a.eps")
    (tmp_path / "a.eps").rename(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"a.png must be an image in one of PNG"):
        read_image(tmp_path / "a.png")


def test_an_image_too_large_for_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TWOFOLD_MAX_PIXELS", "399")
    painted("red", 20, 20).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"a.png .*400 pixels, expected at most 399 \(TWOFOLD_MAX_PIXELS"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("name", ["/etc/a.png", "../a.png", "b/../../a.png"])
def test_an_image_outside_of_the_folder_is_refused(tmp_path, name):
    painted("red", 20, 20).save(tmp_path / "a.png")
    folder = tmp_path / "data"
    (folder / "b").mkdir(parents=True)
    (folder / "train.jsonl").write_text(json.dumps({"image": name, "caption": "a"}))
    with pytest.raises(DataError, match=r"train.jsonl:1: field 'image' must name a file inside the folder, got"):
        read_captions(folder)


def test_an_image_that_pillow_gives_up_on_is_named(data, monkeypatch):
    def gives_up(path, formats):
        raise NotImplementedError("unimplemented pixel format")

    monkeypatch.setattr(Image, "open", gives_up)
    with pytest.raises(ValueError, match=r"0-red.png is no image that can be read: unimplemented pixel format"):
        read_image(data / "0-red.png")


def test_without_pillow_the_package_is_named(monkeypatch, data):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ValueError, match=r"needs Pillow, which is not installed: pip install pillow"):
        read_image(data / "0-red.png")


def test_captions_of_one_image_stay_in_one_split(tmp_path):
    lines = []
    for number in range(20):
        painted("red", 4, 4, 3 * number).save(tmp_path / f"{number}.png")
        lines += [{"image": f"{number}.png", "caption": f"{word} {number}"} for word in ("one", "two")]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    splits = read_captions(tmp_path)
    assert splits.cut == ("dev", "test")
    owners = [{one.caption.split()[1] for one in split} for split in (splits.train, splits.dev, splits.test)]
    assert [len(owner) for owner in owners] == [16, 2, 2]
    assert len(set.union(*owners)) == 20
    whole = tmp_path / "captions.jsonl"
    (tmp_path / "captions.jsonl.gz").write_bytes(gzip.compress(whole.read_bytes()))
    whole.unlink()
    assert [one.caption for one in read_captions(tmp_path).dev] == [one.caption for one in splits.dev]


def test_splits_of_ones_own(tmp_path):
    for split in ("train", "dev", "test"):
        painted("green", 4, 4).save(tmp_path / f"{split}.png")
        (tmp_path / f"{split}.jsonl").write_text(json.dumps({"image": f"{split}.png", "caption": split}) + "\n")
    splits = read_captions(tmp_path)
    assert [one.caption for one in (*splits.train, *splits.dev, *splits.test)] == ["train", "dev", "test"]
    assert splits.cut == ()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"image": "no.png", "caption": "x"}', r"captions.jsonl:1: .*no.png must be an image file, and there is none"),
        ('{"image": "captions.jsonl", "caption": "x"}', r"captions.jsonl:1: .* must be an image in one of PNG"),
        ('{"image": " ", "caption": "x"}', "field 'image' is empty"),
        ('{"caption": "x"}', "missing field 'image'"),
    ],
)
def test_bad_files_are_named(tmp_path, line, message):
    (tmp_path / "captions.jsonl").write_text(line + "\n")
    with pytest.raises(ValueError, match=message):
        Captioning.examples(tmp_path)


def test_a_folder_without_captions(tmp_path):
    with pytest.raises(ValueError, match=r"holds no data: expected train\.jsonl"):
        Captioning.examples(tmp_path)


def test_large_images_are_looked_at_small_and_long_captions_cut():
    example = Captioned(torch.zeros(20, 100, 3, dtype=torch.uint8), "word " * 500)
    task = Captioning.prepared([example])
    features = task.features(example)
    assert (task.state["height"], task.state["width"]) == (20, 64)
    assert tuple(features["pixels"].shape) == (3, 20, 64)
    assert len(features["input_ids"]) <= LONGEST
    assert features["input_ids"][-1] == task.tokenizer.eos_token_id
    batch = task.collate([features, {**features, "input_ids": [5, 2]}])
    assert batch["labels"][1, 2:].unique().tolist() == [-100]
    assert (batch["pixel_values"] == -1).all()
