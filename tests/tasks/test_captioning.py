"""Captioning: a small model names colours, image files are read, and what is wrong is said."""

import gzip
import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import interpolate

from twofold import open_run
from twofold.data.embedded.captioning import COLOURS
from twofold.data.examples import Captioned
from twofold.data.files import DataError
from twofold.tasks.captioning import Captioning
from twofold.tasks.images import read_captions
from twofold.tasks.options import ModelOptions
from twofold.training.run import train_task
from twofold.training.settings import Settings
from twofold_runtime.captions import LONGEST
from twofold_runtime.images import resized

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
    image = opened.task.codec.input_of_line(str(data / "0-red.png"))
    found = opened.predict(image)
    assert dict(found) == {"image": str(data / "0-red.png"), "caption": "ein red 🟥 картинка"}
    assert open_run(trained[0]).predict(image) == found
    assert opened.task.codec.shown(found).splitlines()[1].strip() == found["caption"]
    assert "version:" in opened.task.notes()["bleu"]
    # Whatever its size, shape or kind: wide, of one point, grey, with an alpha channel.
    inputs = []
    for place, image in enumerate(
        (painted("red", 3, 2000), painted("blue", 1, 1), Image.new("L", (9, 9)), Image.new("RGBA", (40, 5)))
    ):
        image.save(tmp_path / f"{place}.png")
        inputs.append(opened.task.codec.input_of_line(str(tmp_path / f"{place}.png")))
    assert [one["caption"][:4] for one in opened.predict_many(inputs)] == ["ein "] * 4


@pytest.mark.parametrize("size", [(1, 1), (5, 7), (31, 64), (128, 90)])
@pytest.mark.parametrize("wanted", [(1, 1), (16, 24), (64, 5)])
def test_resizing_is_that_of_torch(size, wanted):
    """Which an export to another library could not use, and every older run was trained with."""
    pixels = torch.randint(256, (*size, 3), dtype=torch.uint8)
    stretched = interpolate(pixels.permute(2, 0, 1)[None].float(), wanted, mode="bilinear", antialias=True)[0]
    theirs = stretched.round().clamp(0, 255).int()
    assert (torch.from_numpy(resized(pixels.numpy(), *wanted)).int() - theirs).abs().max() <= 1


def test_two_ways_to_give_captions_are_one_too_many(tmp_path):
    for name in ("captions", "train"):
        (tmp_path / f"{name}.jsonl").write_text('{"image": "a.png", "caption": "a"}')
    with pytest.raises(DataError, match=r"has captions\.jsonl and train\.jsonl"):
        read_captions(tmp_path)


@pytest.mark.parametrize("name", ["/etc/a.png", "../a.png", "b/../../a.png"])
def test_an_image_outside_of_the_folder_is_refused(tmp_path, name):
    painted("red", 20, 20).save(tmp_path / "a.png")
    folder = tmp_path / "data"
    (folder / "b").mkdir(parents=True)
    (folder / "train.jsonl").write_text(json.dumps({"image": name, "caption": "a"}))
    with pytest.raises(DataError, match=r"train.jsonl:1: field 'image' must name a file inside the folder, got"):
        read_captions(folder)


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
    assert (task.reading["height"], task.reading["width"]) == (20, 64)
    assert tuple(features["pixels"].shape) == (3, 20, 64)
    assert len(features["input_ids"]) <= LONGEST
    assert features["input_ids"][-1] == task.tokenizer.eos_token_id
    batch = task.collate([features, {**features, "input_ids": np.array([5, 2])}])
    assert batch["labels"][1, 2:].unique().tolist() == [-100]
    assert (batch["pixel_values"] == -1).all()
