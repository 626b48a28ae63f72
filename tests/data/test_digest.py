"""What data is, in a few letters: other files and other examples have others."""

import torch

from twofold.data.digest import digest_of_examples, digest_of_files
from twofold.data.examples import Captioned, Splits


def test_the_digest_knows_data_by_name_and_content(tmp_path):
    first, same, other = (tmp_path / name for name in "abc")
    for folder, text in ((first, "one"), (same, "one"), (other, "two")):
        folder.mkdir()
        (folder / "train.txt").write_text("all")
        (folder / "dev.txt").write_text(text)
    assert digest_of_files(first) == digest_of_files(same) != digest_of_files(other)
    assert digest_of_files(first / "dev.txt") != digest_of_files(first)
    (same / "runs" / "a" / "checkpoints").mkdir(parents=True)
    for name in ("metrics.jsonl", "model.safetensors", "checkpoints/lock"):
        (same / "runs" / "a" / name).write_text("what training wrote")
    (same / ".hidden").write_text("what no reader reads")
    assert digest_of_files(first) == digest_of_files(same)
    (same / "dev.txt").rename(same / "more.txt")
    assert digest_of_files(same) != digest_of_files(first)
    # Files of one name in different folders are not the same when they change places.
    for place, texts in (("d", "ab"), ("e", "ba")):
        for folder, text in zip(("x", "y"), texts, strict=True):
            (tmp_path / place / folder).mkdir(parents=True)
            (tmp_path / place / folder / "text.txt").write_text(text)
    assert digest_of_files(tmp_path / "d") != digest_of_files(tmp_path / "e")


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
