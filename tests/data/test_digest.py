"""What data is, in a few letters: other files and other examples have others."""

from pathlib import Path

import torch

from twofold.data.digest import digest_of, digest_of_examples, digest_of_files
from twofold.data.examples import Captioned, Splits
from twofold.data.goal_files import read_goals
from twofold.data.hub import settled


def test_the_digest_knows_data_by_name_and_content(tmp_path):
    first, same, other = (tmp_path / name for name in "abc")
    for folder, text in ((first, "one"), (same, "one"), (other, "two")):
        folder.mkdir()
        (folder / "train.txt").write_text("all")
        (folder / "dev.txt").write_text(text)
    assert digest_of_files(first) == digest_of_files(same) != digest_of_files(other)
    (same / "runs" / "a" / "checkpoints").mkdir(parents=True)
    for name in ("metrics.jsonl", "model.safetensors", "checkpoints/lock"):
        (same / "runs" / "a" / name).write_text("what training wrote")
    (same / ".hidden").write_text("what no reader reads")
    assert digest_of_files(first) == digest_of_files(same)
    (same / "dev.txt").rename(same / "more.txt")
    assert digest_of_files(same) != digest_of_files(first)
    # Data that is called as what a run writes is data all the same.
    for folder, text in ((first, "one"), (other, "two")):
        (folder / "metrics.jsonl").write_text("data")
        (folder / "dev.txt").write_text(text)
    assert digest_of_files(first) != digest_of_files(other)
    # Files of one name in different folders are not the same when they change places.
    for place, texts in (("d", "ab"), ("e", "ba")):
        for folder, text in zip(("x", "y"), texts, strict=True):
            (tmp_path / place / folder).mkdir(parents=True)
            (tmp_path / place / folder / "text.txt").write_text(text)
    assert digest_of_files(tmp_path / "d") != digest_of_files(tmp_path / "e")


def test_what_lies_behind_links_is_known_too(tmp_path):
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    for folder in (data, elsewhere):
        folder.mkdir()
    (data / "images").symlink_to(elsewhere)
    # A circle ends.
    (elsewhere / "back").symlink_to(data)
    (elsewhere / "a.png").write_text("one")
    before = digest_of_files(data)
    assert before == digest_of_files(data)
    (elsewhere / "a.png").write_text("two")
    assert digest_of_files(data) != before
    # What is hidden, and shown by a link.
    (data / ".store").mkdir()
    before = digest_of_files(data)
    (data / "shown").symlink_to(data / ".store")
    (data / ".store" / "b.png").write_text("three")
    assert digest_of_files(data) != before


def test_a_single_file_is_known_by_all_that_was_read_of_it(tmp_path):
    def written(goal):
        (tmp_path / "train.tsv").write_text("\n\n".join(f"word{n}\tO" for n in range(30)) + "\n")
        (tmp_path / "train.intent.txt").write_text(f"{goal}\n" * 30)
        path = tmp_path / "train.tsv"
        return digest_of(path, read_goals(path))

    assert written("one") == written("one") != written("two")


def test_a_set_of_the_hub_is_known_where_it_is_a_folder(tmp_path, monkeypatch):
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "train.csv").write_text("text,label\na,b\n")
    monkeypatch.chdir(tmp_path)
    for told in ("hub:h", "hub:h:config", "hub:./h,text=body", "hub:h:config,text=body"):
        assert digest_of(Path(told), None) == digest_of_files(tmp_path / "h")
        assert settled(Path(told)) == told.replace("./h", "h").replace("hub:h", f"hub:{tmp_path / 'h'}")
    assert digest_of(Path("hub:owner/name"), None) is None
    assert settled("hub:owner/name:config,text=body") == "hub:owner/name:config,text=body"
    # A path that no address could say.
    (tmp_path / "a,b" / "h").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a,b")
    assert settled("hub:h,text=body") == "hub:h,text=body"


def test_an_embedded_set_is_known_by_its_examples():
    def splits(*texts, spot=0):
        image = torch.zeros(40, 40, 3, dtype=torch.uint8)
        # Where torch prints three dots.
        image[20, 20, 0] = spot
        return Splits(*([Captioned(image, text)] for text in texts))

    usual = digest_of_examples(splits("a", "b", "\ud800"))
    assert usual == digest_of_examples(splits("a", "b", "\ud800"))
    others = [splits("a", "c", "\ud800"), splits("b", "a", "\ud800"), splits("a", "b", "\ud800", spot=1)]
    assert len({usual, *map(digest_of_examples, others)}) == 4
