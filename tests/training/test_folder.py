"""Whose a folder is, and what may be done to it."""

import json
import os
import threading
from pathlib import Path

import pytest

from tests.training import tiny
from tests.training.test_resume import At, Crash, crash
from twofold.training import is_finished, prepare_folder, read_metrics
from twofold.training.folder import VERSION, begun, locked


def test_a_new_folder_is_made(tmp_path):
    folder = tmp_path / "läufe" / "一"
    prepare_folder(folder)
    assert not is_finished(folder)
    assert read_metrics(folder) == []
    # What its owner writes beside it stays.
    (folder / "tokenizer.json").write_text("{}")
    tiny.train(folder)
    assert is_finished(folder)
    assert (folder / "tokenizer.json").read_text() == "{}"


def test_a_prepared_folder_can_be_resumed(tmp_path):
    """Killed between the two, and once before that."""
    (tmp_path / ".0123abcd-metrics.jsonl").write_text('{"kind"')
    prepare_folder(tmp_path)
    prepare_folder(tmp_path, resume=True)
    tiny.train(tmp_path, resume=True)
    assert is_finished(tmp_path)


def test_what_is_not_ours_is_never_removed(tmp_path):
    (tmp_path / "thesis.tex").write_text("years")
    for force in (False, True):
        with pytest.raises(ValueError, match="is not empty and no run: choose another folder, or empty it by hand"):
            prepare_folder(tmp_path, force=force)
    with pytest.raises(ValueError, match=r"is no run: its metrics.jsonl is missing or does not begin with one"):
        prepare_folder(tmp_path, resume=True)
    with pytest.raises(ValueError, match="has no run to resume"):
        tiny.train(tmp_path, resume=True)
    assert (tmp_path / "thesis.tex").read_text() == "years"


def test_a_foreign_metrics_file_is_never_removed(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"loss": 1}\n')
    with pytest.raises(ValueError, match="is not empty and no run: choose another folder, or empty it by hand"):
        prepare_folder(tmp_path, force=True)
    with pytest.raises(ValueError, match="is no run"):
        prepare_folder(tmp_path, resume=True)
    with pytest.raises(ValueError, match="is no run"):
        tiny.train(tmp_path)
    assert (tmp_path / "metrics.jsonl").exists()


@pytest.mark.parametrize("ended", [True, False])
def test_a_run_is_removed_only_by_force(ended, tmp_path):
    if ended:
        tiny.train(tmp_path)
    else:
        with pytest.raises(Crash):
            tiny.train(tmp_path, progress=At(5, crash))
    with pytest.raises(
        ValueError, match="is not empty: resume its run, choose another folder, or remove it with force"
    ):
        prepare_folder(tmp_path)
    if not ended:
        with pytest.raises(ValueError, match="has a run already: resume it, or choose another folder"):
            tiny.train(tmp_path)
    (tmp_path / "extra").mkdir()
    prepare_folder(tmp_path, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
    tiny.train(tmp_path)


def test_another_version_is_refused(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"kind": "run", "version": 99}) + "\n")
    with pytest.raises(ValueError, match="is a run of version 99, expected"):
        prepare_folder(tmp_path, resume=True)
    with pytest.raises(ValueError, match="is a run of version 99, expected"):
        tiny.train(tmp_path, resume=True)
    prepare_folder(tmp_path, force=True)
    tiny.train(tmp_path)


def test_one_cannot_resume_and_force(tmp_path):
    with pytest.raises(ValueError, match="give resume or force, not both"):
        prepare_folder(tmp_path, resume=True, force=True)


def test_nothing_to_resume(tmp_path):
    with pytest.raises(ValueError, match="has no run to resume"):
        prepare_folder(tmp_path / "nowhere", resume=True)
    assert not (tmp_path / "nowhere").exists()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(ValueError, match="must be a folder, and is a file"):
        prepare_folder(tmp_path / "run")


def test_only_the_first_process_prepares(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    prepare_folder(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_where_nothing_can_be_written(tmp_path):
    """A folder below a file: as little to be made as on a disk that is mounted read-only."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        tiny.train(tmp_path / "file" / "run")


def test_unfinished_runs_are_not_finished(tmp_path):
    assert not is_finished(tmp_path)
    with pytest.raises(Crash):
        tiny.train(tmp_path, progress=At(5, crash))
    assert not is_finished(tmp_path)


def test_a_start_that_was_killed_before_its_lock_is_none(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    # Somebody else's, for a start has nothing but that yet.
    (tmp_path / "tokenizer.json").write_text("years")
    with pytest.raises(ValueError, match="is not empty"):
        prepare_folder(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with begun(tmp_path, fill=lambda: (tmp_path / "tokenizer.json").write_text("whole")):
        assert (tmp_path / "metrics.jsonl").exists()


def test_a_start_that_is_cut_short_is_none(tmp_path):
    """What belongs to a run is there before the folder is known as one; a new start takes its place."""

    def killed():
        (tmp_path / "tokenizer.json").write_text("half")
        raise Crash

    with pytest.raises(Crash), begun(tmp_path, fill=killed):
        pass
    with pytest.raises(ValueError, match="has no run to resume"):
        prepare_folder(tmp_path, resume=True)
    with begun(tmp_path, fill=lambda: (tmp_path / "tokenizer.json").write_text("whole")):
        assert (tmp_path / "tokenizer.json").read_text() == "whole"
    prepare_folder(tmp_path, resume=True)
    # Beside something that no start of ours writes it is refused as ever.
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(ValueError, match="is not empty"):
        prepare_folder(tmp_path)


def test_a_run_is_held_from_its_first_file_to_its_last(tmp_path):
    """By one thread, which may ask again."""
    refused = []

    def other():
        for force in (False, True):
            try:
                prepare_folder(tmp_path, force=force)
            except ValueError as error:
                refused.append(str(error))

    def asked():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    with begun(tmp_path, fill=asked):
        tiny.train(tmp_path)
        assert is_finished(tmp_path)
        asked()
    assert [text.partition(": ")[0].removeprefix(f"{tmp_path} ") for text in refused] == [
        "is in use",
        "is in use",
        "is not empty",
        "is in use",
    ]
    assert is_finished(tmp_path)
    assert not (tmp_path / "checkpoints").exists()


def test_a_lock_whose_file_is_gone_locks_nothing(tmp_path, monkeypatch):
    """Its holder removed it after somebody else had opened it."""
    opened = os.open
    removed = []

    def slow(path, *args, **options):
        handle = opened(path, *args, **options)
        if str(path).endswith("lock") and not removed:
            removed.append(path)
            os.unlink(path)
        return handle

    monkeypatch.setattr(os, "open", slow)
    with locked(tmp_path):
        assert removed
        assert (tmp_path / "checkpoints" / "lock").exists()


NESTED = "[" * 100_000 + "]" * 100_000 + "\n"


@pytest.mark.parametrize(
    "line", [NESTED, '{"kind": "step", "step": "2"}\n', '{"kind": "step", "step": null}\n', "\0\n"]
)
def test_lines_are_read_up_to_the_first_that_is_damaged(line, tmp_path):
    begins = json.dumps({"kind": "run", "version": VERSION}) + "\n"
    (tmp_path / "metrics.jsonl").write_text(begins + '{"kind": "step", "step": 1}\n' + line)
    assert read_metrics(tmp_path) == [{"kind": "step", "step": 1}]
    (tmp_path / "metrics.jsonl").write_text(line)
    with pytest.raises(ValueError, match=r"is no run: its metrics.jsonl is missing or does not begin with one"):
        tiny.train(tmp_path, resume=True)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_what_is_no_file_holds_no_run(make, tmp_path):
    make(tmp_path / "metrics.jsonl")
    with pytest.raises(ValueError, match=r"is no run: its metrics.jsonl is missing or does not begin with one"):
        tiny.train(tmp_path, resume=True)
