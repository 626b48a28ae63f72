"""Files that are whole or not there."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from twofold.disk import is_aside
from twofold_runtime.folder import write_whole


def test_many_writers_of_one_file_leave_one_whole_one(tmp_path):
    texts = [str(number) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(8) as writers:
        list(writers.map(lambda text: write_whole(tmp_path / "file", text), texts * 5))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() in texts


def test_what_cannot_be_written_leaves_what_was_there(tmp_path):
    write_whole(tmp_path / "file", b"old")
    with pytest.raises(TypeError):
        write_whole(tmp_path / "file", 5)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_what_a_killed_writer_leaves_is_known(tmp_path):
    assert is_aside(tmp_path / ".0a1b2c3d-task.json")
    assert not any(is_aside(tmp_path / name) for name in ("task.json", ".hidden", ".0a1b2c3d-"))


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=rf"\[Errno 28\] No space left on device: '{tmp_path}/file'$"):
        write_whole(tmp_path / "file", "text")
    assert list(tmp_path.iterdir()) == []
