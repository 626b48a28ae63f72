"""The corpus of the language experiments: the same bytes of the same package, files split by their names' hash."""

import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("dpkg-deb")
SCRIPT = Path(__file__).parents[2] / "examples" / "linux_corpus.py"
CONTROL = "Package: linux-source-6.1\nVersion: {}\nArchitecture: all\nMaintainer: nobody\nDescription: files\n"
# What is too short, no source, left out or no text is not in the corpus.
ODD = {
    "kernel/short.c": b"int x;",
    "kernel/table.bin": b"x" * 900,
    "tools/testing/check.c": b"x" * 900,
    "kernel/latin.c": b"\xe9" * 900,
}


@pytest.fixture
def package(tmp_path):
    """A package of 900 files, as Debian packs the kernel."""
    files = {f"kernel/{number}.c": f"int line_{number};\n".encode() * 50 for number in range(900)} | ODD
    packed = tmp_path / "tree" / "usr" / "src" / "linux-source-6.1.tar.xz"
    packed.parent.mkdir(parents=True)
    with lzma.open(packed, "w") as raw, tarfile.open(fileobj=raw, mode="w|") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"linux-source-6.1/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    (tmp_path / "tree" / "DEBIAN").mkdir()
    (tmp_path / "tree" / "DEBIAN" / "control").write_text(CONTROL.format("6.1.5-1"))
    subprocess.run(["dpkg-deb", "-b", tmp_path / "tree", tmp_path / "given.deb"], check=True, capture_output=True)
    return tmp_path / "given.deb"


def made(out, *words, path=""):
    environment = os.environ | ({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})
    return subprocess.run(
        [sys.executable, SCRIPT, "--out", out, *words], capture_output=True, text=True, check=False, env=environment
    )


def texts(folder):
    return {
        split: [json.loads(line) for line in gzip.decompress((folder / f"{split}.jsonl.gz").read_bytes()).splitlines()]
        for split in ("train", "dev", "test")
    }


def test_every_text_is_in_one_split_and_the_same_package_gives_the_same_bytes(package, tmp_path):
    for name in ("one", "two"):
        ended = made(tmp_path / name, "--deb", package)
        assert ended.returncode == 0, ended.stderr
    found = texts(tmp_path / "one")
    assert {split: len(part) for split, part in found.items()} == {"train": 854, "dev": 23, "test": 23}
    names = [text["id"] for part in found.values() for text in part]
    assert sorted(names) == sorted(f"kernel/{number}.c" for number in range(900))
    for split in found:
        one, two = ((tmp_path / name / f"{split}.jsonl.gz").read_bytes() for name in ("one", "two"))
        assert one == two


def test_a_smaller_share_may_be_held_out(package, tmp_path):
    assert made(tmp_path / "corpus", "--deb", package, "--one-in", "400").returncode == 0
    assert {split: len(part) for split, part in texts(tmp_path / "corpus").items()} == {
        "train": 894,
        "dev": 3,
        "test": 3,
    }
    assert made(tmp_path / "other", "--deb", package, "--one-in", "2").returncode == 2


def test_fewer_characters_are_of_files_that_more_have_too(package, tmp_path):
    for name, millions in (("few", "0.1"), ("many", "0.2")):
        assert made(tmp_path / name, "--deb", package, "--millions", millions).returncode == 0
    few, many = ({one["id"] for part in texts(tmp_path / name).values() for one in part} for name in ("few", "many"))
    assert few < many
    assert 90_000 < sum(len(one["text"]) for part in texts(tmp_path / "few").values() for one in part) <= 100_000


@pytest.mark.parametrize(
    ("words", "asked"), [([], "linux-source-6.1"), (["--version", "6.1.5-1"], "linux-source-6.1=6.1.5-1")]
)
def test_the_version_that_is_named_is_asked_for(package, tmp_path, words, asked):
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    apt = bin_folder / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncp {package} linux-source.deb\n')
    apt.chmod(0o755)
    ended = made(tmp_path / "corpus", *words, path=str(bin_folder))
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "asked").read_text().split() == ["download", "-q", asked]
    assert len(texts(tmp_path / "corpus")["train"]) == 854


def test_a_version_that_cannot_be_had_is_one_line_and_leaves_nothing(tmp_path):
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "apt-get").write_text("#!/bin/sh\nexit 100\n")
    (bin_folder / "apt-get").chmod(0o755)
    ended = made(tmp_path / "corpus", "--version", "6.1.0-9", path=str(bin_folder))
    assert (ended.returncode, ended.stderr) == (
        1,
        "linux_corpus.py: apt-get could not download linux-source-6.1=6.1.0-9\n",
    )
    assert not (tmp_path / "corpus").exists()
