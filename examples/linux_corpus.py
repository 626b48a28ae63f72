"""Linux source and documentation as a corpus for language models: train, dev and test as JSON lines, a file a text.

    python examples/linux_corpus.py --out corpora/linux

On Debian 12, with its package mirror and nothing else: `apt-get download` needs no root. What is written is under the
licences of the kernel (GPL-2.0 for the most part) and is not meant to be passed on. The same package version and the
same options write the same bytes; `apt-cache policy linux-source-6.1` lists the versions that can be had.
"""

import argparse
import gzip
import hashlib
import json
import lzma
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "linux-source-6.1"
ENDINGS = (".c", ".h", ".rst", ".txt", ".S", ".py", ".sh")
# Tables of registers, and texts in other languages, are most of these folders.
LEFT_OUT = ("drivers/gpu/drm/amd/include/", "Documentation/translations/", "tools/testing/")
SMALLEST, LARGEST = 500, 400_000
# One text of so many is for dev, and another for test: some 240 each of 180 million characters. A loss over fewer texts
# says little of others (LOG.md); experiments before 20 November 2026 had one of 400, which is 24.
ONE_IN = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--millions", type=float, default=180.0, help="most characters, of files chosen by their hash")
    parser.add_argument("--one-in", type=int, default=ONE_IN, help="one text of so many is for dev, and one for test")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--version", help="of the package, as 6.1.176-1; the newest if none is named")
    source.add_argument("--deb", type=Path, help=f"a {PACKAGE} package that is here already")
    given = parser.parse_args()
    if given.one_in < 3:
        parser.error(f"--one-in must be at least 3, got {given.one_in}")
    if given.out.exists():
        parser.error(f"{given.out} is there already")
    with tempfile.TemporaryDirectory() as folder:
        archive = _unpacked(given.deb or _downloaded(given.version, Path(folder)), Path(folder))
        texts = _texts(archive)
    texts.sort(key=lambda one: hashlib.sha256(one[0].encode()).digest())
    kept, size = [], 0
    for name, text in texts:
        if size + len(text) > given.millions * 1e6:
            break
        kept.append((name, text))
        size += len(text)
    given.out.mkdir(parents=True)
    parts = {"dev": kept[:: given.one_in], "test": kept[1 :: given.one_in]}
    parts["train"] = [one for place, one in enumerate(kept) if place % given.one_in > 1]
    for split, part in parts.items():
        path = given.out / f"{split}.jsonl.gz"
        with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
            for name, text in part:
                file.write((json.dumps({"id": name, "text": text}, ensure_ascii=False) + "\n").encode())
        characters = sum(len(text) for _, text in part)
        sys.stdout.write(f"{path}: {len(part):,} texts, {characters:,} characters\n")


def _downloaded(version: str | None, folder: Path) -> Path:
    wanted = f"{PACKAGE}={version}" if version else PACKAGE
    if subprocess.run(["apt-get", "download", "-q", wanted], cwd=folder, check=False).returncode:  # noqa: S603, S607
        raise SystemExit(f"linux_corpus.py: apt-get could not download {wanted}")
    return next(folder.glob("*.deb"))


def _unpacked(package: Path, folder: Path) -> Path:
    subprocess.run(["dpkg-deb", "-x", str(package), str(folder / "package")], check=True)  # noqa: S603, S607
    return next((folder / "package").rglob(f"{PACKAGE}.tar.xz"))


def _texts(archive: Path) -> list[tuple[str, str]]:
    """Name and content of every file that is text, of a usual size, and not left out."""
    found = []
    with lzma.open(archive) as packed, tarfile.open(fileobj=packed, mode="r|") as files:
        for file in files:
            name = file.name.partition("/")[2]
            wanted = file.isfile() and name.endswith(ENDINGS) and not name.startswith(LEFT_OUT)
            if not wanted or not SMALLEST < file.size < LARGEST:
                continue
            opened = files.extractfile(file)
            content = opened.read() if opened else b""
            try:
                found.append((name, content.decode()))
            except UnicodeDecodeError:
                continue
    return found


if __name__ == "__main__":
    main()
