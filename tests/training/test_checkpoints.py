"""Damaged checkpoints are told from whole ones, whatever befell them."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training import tiny
from tests.training.test_resume import At, Crash, crash
from twofold.training import checkpoints, durable
from twofold.training.checkpoints import Checkpoint
from twofold.training.durable import why_damaged, write_folder, write_json
from twofold.training.state import read_saved

FILES = ["model.safetensors", "optimizer.safetensors", "random.safetensors", "best.safetensors", "state.json"]


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """A run that ended after step 9 with checkpoints of steps 7 and 8, its best look at step 6; and its whole twin."""
    folder = tmp_path_factory.mktemp("runs")
    tiny.train(folder / "whole", **OPTIONS)
    with pytest.raises(Crash):
        tiny.train(folder / "crashed", progress=At(9, crash), **OPTIONS)
    return folder


OPTIONS = {"changes": {"save_steps": 1, "evaluate_steps": 3}}


def cut(path):
    path.write_bytes(path.read_bytes()[:-3])


def empty(path):
    path.write_bytes(b"")


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def lengthen(path):
    path.write_bytes(path.read_bytes() + b"\0")


def remove(path):
    path.unlink()


@pytest.mark.parametrize("damage", [cut, empty, flip, lengthen, remove])
@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_the_one_before_is_used(name, damage, crashed, tmp_path):
    newest = checkpoint_with(damage, name, crashed, tmp_path)
    if (name, damage) == ("manifest.json", lengthen):
        # JSON with a NUL after it is no JSON.
        assert why_damaged(newest) == "its manifest.json cannot be read (JSONDecodeError)"
    assert name in assert_the_one_before_is_read(newest)


def test_a_run_goes_on_from_it_to_the_same_end(crashed, tmp_path):
    shutil.copytree(crashed / "crashed", tmp_path, dirs_exist_ok=True)
    cut(tmp_path / "checkpoints" / "step-000000008" / "optimizer.safetensors")
    watcher = At(0, crash)
    tiny.train(tmp_path, resume=True, progress=watcher, **OPTIONS)
    (note,) = watcher.notes
    assert note.endswith("removed, the one before it is used")
    assert tiny.equal(tiny.weights(tmp_path), tiny.weights(crashed / "whole"))
    assert tiny.curve(tmp_path) == tiny.curve(crashed / "whole")


NESTED = "[" * 100_000 + "]" * 100_000


def replaced(make):
    """A damage that puts something else in a file's place."""

    def damage(path):
        path.unlink()
        make(path)

    return damage


def said(name, value):
    """A damage of state.json: a field with another value."""

    def damage(path):
        content = json.loads(path.read_text())
        path.write_text(json.dumps(content | {name: value}))

    return damage


STRANGE = {
    "a folder": replaced(lambda path: path.mkdir()),
    "a link to itself": replaced(lambda path: path.symlink_to(path)),
    "a link to nothing": replaced(lambda path: path.symlink_to("/nonexistent")),
    "a pipe": replaced(os.mkfifo),
    "nested without end": lambda path: path.write_text(NESTED),
    "a list": lambda path: path.write_text("[]"),
    "no text": lambda path: path.write_bytes(b"\xff\xfe"),
}


@pytest.mark.parametrize("damage", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("name", ["manifest.json", "state.json", "model.safetensors"])
@pytest.mark.parametrize("is_vouched_for", [False, True])
def test_whatever_is_in_the_place_of_a_file(name, damage, is_vouched_for, crashed, tmp_path):
    """Also where the manifest vouches for it, as if it had been written so."""
    newest = checkpoint_with(damage, name, crashed, tmp_path)
    if is_vouched_for and name != "manifest.json":
        files = {path.name: durable._measured(path) for path in newest.iterdir() if path.is_file()}
        write_json(newest / "manifest.json", {"files": files})
    assert_the_one_before_is_read(newest)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("step", "8"),
        ("step", -1),
        ("step", True),
        ("epoch", 1.5),
        ("seconds", float("nan")),
        ("best", [1]),
        ("best", {"loss": None}),
        ("settings", 3),
        ("worse", None),
        ("unknown", 1),
    ],
)
def test_a_state_of_other_fields_is_damage(field, value, crashed, tmp_path):
    newest = checkpoint_with(said(field, value), "state.json", crashed, tmp_path)
    files = {path.name: durable._measured(path) for path in newest.iterdir() if path.name != "manifest.json"}
    write_json(newest / "manifest.json", {"files": files})
    assert_the_one_before_is_read(newest)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to("/nonexistent"), Path.touch])
def test_what_has_the_name_of_a_checkpoint_and_is_none(make, crashed, tmp_path):
    newest = checkpoint_with(lambda path: None, "state.json", crashed, tmp_path)
    shutil.rmtree(newest)
    make(newest)
    assert_the_one_before_is_read(newest)


def checkpoint_with(damage, name, crashed, folder):
    shutil.copytree(crashed / "crashed" / "checkpoints", folder, dirs_exist_ok=True)
    damage(folder / "step-000000008" / name)
    return folder / "step-000000008"


def assert_the_one_before_is_read(newest):
    notes = []
    content, tensors = checkpoints.newest_whole(newest.parent, notes.append, read_saved)
    assert content["state"]["step"] == 7
    assert set(tensors) == {"model", "optimizer", "random", "best"}
    assert not os.path.lexists(newest)
    (note,) = notes
    assert note.startswith("step-000000008 is damaged (")
    return note


def test_when_all_are_damaged_nothing_is_thrown_away(crashed, tmp_path):
    shutil.copytree(crashed / "crashed", tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "checkpoints").glob("step-*"):
        flip(path / "model.safetensors")
    with pytest.raises(
        ValueError, match=r"step-000000008 is damaged \(model.safetensors .*\) and there is no older one"
    ):
        tiny.train(tmp_path, resume=True, **OPTIONS)
    assert len(list((tmp_path / "checkpoints").glob("step-*"))) == 2


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_byte_may_change(data, tmp_path_factory):
    """Anything but the very bytes that were written is damage."""
    folder = tmp_path_factory.mktemp("any") / "folder"

    def fill(aside):
        durable.write_tensors(aside / "numbers.safetensors", {"a": torch.arange(5.0)})
        write_json(aside / "words.json", {"größe": "大"})

    write_folder(folder, fill)
    assert why_damaged(folder) is None
    name = data.draw(st.sampled_from(["numbers.safetensors", "words.json"]))
    content = (folder / name).read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    other = data.draw(st.binary(max_size=3).filter(lambda some: some != content[place : place + 1]))
    changed = content[:place] + other + content[place + 1 :]
    (folder / name).write_bytes(changed)
    assert (why_damaged(folder) is None) == (changed == content)


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"files": 3}', '{"files": {"state.json": {}}}', "\udcff"])
def test_odd_manifests(manifest, tmp_path):
    (tmp_path / "state.json").write_text("{}")
    (tmp_path / "manifest.json").write_bytes(manifest.encode(errors="surrogateescape"))
    assert why_damaged(tmp_path)


@pytest.mark.parametrize("moment", ["write_json", "save_file", "flush", "rename"])
def test_no_space_leaves_what_was_there(moment, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    checkpoints.save(tmp_path, 1, {"step": 1}, {"model": {"a": torch.ones(2)}}, keep=1)
    owner = type(tmp_path) if moment == "rename" else durable
    monkeypatch.setattr(owner, moment, refuse)
    if moment == "write_json":
        monkeypatch.setattr(checkpoints, moment, refuse)
    with pytest.raises(OSError, match="No space left on device"):
        checkpoints.save(tmp_path, 2, {"step": 2}, {"model": {"a": torch.ones(2)}}, keep=1)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001"]
    assert checkpoints.newest_whole(tmp_path, pytest.fail, Checkpoint.state) == {"step": 1}


def test_everything_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Each file, then the manifest, then the folder, then the rename, then the parent."""
    done = []
    flush, rename = durable.flush, type(tmp_path).rename
    monkeypatch.setattr(durable, "flush", lambda path: (done.append(path.name), flush(path)))
    monkeypatch.setattr(type(tmp_path), "rename", lambda path, target: (done.append("rename"), rename(path, target)))
    checkpoints.save(tmp_path, 1, {}, {"model": {"a": torch.ones(2)}}, keep=1)
    aside = ".saving-step-000000001"
    assert done == ["model.safetensors", "state.json", "manifest.json", aside, "rename", tmp_path.name]


def test_leftovers_are_swept(tmp_path):
    checkpoints.save(tmp_path, 1, {}, {}, keep=1)
    (tmp_path / ".saving-step-000000002").mkdir()
    (tmp_path / ".saving-step-000000002" / "model.safetensors").write_bytes(b"half")
    assert checkpoints.newest_whole(tmp_path, pytest.fail, lambda found: found.path.name) == "step-000000001"
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001"]


def test_files_of_a_killed_writer_are_swept_away(tmp_path):
    for name in (".0123abcd-task.json", ".hidden", "task.json"):
        (tmp_path / name).write_text("half")
    durable.sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "task.json"]


def test_a_checkpoint_is_tensors_and_json(crashed):
    for path in (crashed / "crashed").rglob("*"):
        assert path.is_dir() or path.suffix in (".safetensors", ".json", ".jsonl") or path.name == "lock"
    manifest = json.loads((crashed / "crashed/checkpoints/step-000000008/manifest.json").read_text())
    assert set(manifest["files"]) == set(FILES)
