"""run.json: written whole, checked field by field, and a digest of every file that an answer depends on."""

import json
from dataclasses import replace

import pytest

from twofold_runtime.folder import (
    FILE,
    RunRecord,
    check_files,
    check_shape,
    is_run,
    read_run,
    sha256_of,
    with_digests,
    write_run,
)
from twofold_runtime.goals import GoalsCodec
from twofold_runtime.predictor import check_record, codec_class, read_codec
from twofold_runtime.words import WORD_RULES

RECORD = RunRecord(
    task="goals",
    word_rules=WORD_RULES,
    reading={"goals": ["", "on"], "slot_labels": ["O"], "slots": {"on": []}, "evidence": "sigmoid_of_logit"},
    calibration={"temperature": 1, "threshold": 0.5, "transitions": [[0.0], [0.0]]},
    training={"model": {}, "settings": {"steps": 3}, "choices": {}, "data": None, "digest": None},
    finished=True,
)


def changed(record, path, value):
    """The record with another value at the end of a path of fields and places; `...` takes the field out."""
    name, *rest = path
    if isinstance(record, RunRecord):
        return replace(record, **{name: changed(getattr(record, name), rest, value) if rest else value})
    inner = changed(record[name], rest, value) if rest else value
    if isinstance(record, list):
        return [inner if place == name else one for place, one in enumerate(record)]
    return {key: one for key, one in {**record, name: inner}.items() if one is not ...}


def test_what_is_written_is_read(tmp_path):
    assert not is_run(tmp_path)
    write_run(tmp_path, RECORD)
    assert is_run(tmp_path)
    assert read_run(tmp_path) == RECORD
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert json.loads((tmp_path / FILE).read_text(encoding="utf-8"))["version"] == 3
    write_run(tmp_path, replace(RECORD, word_rules=None, reading={"labels": ["ü", "東"]}))
    assert read_run(tmp_path).reading == {"labels": ["ü", "東"]}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["task"], 7),
        (["word_rules"], "1"),
        (["word_rules"], True),
        (["reading"], []),
        (["calibration"], None),
        (["training"], 7),
        (["training", "model"], ...),
        (["training", "settings"], 7),
        (["training", "choices"], None),
        (["training", "data"], 7),
        (["training", "digest"], ["x"]),
        (["training", "more"], {}),
        (["finished"], 1),
        (["files"], {"model.safetensors": 7}),
    ],
    ids=str,
)
def test_every_field_is_checked(tmp_path, path, value):
    write_run(tmp_path, changed(RECORD, path, value))
    with pytest.raises(ValueError, match=rf"^\S*{FILE}: .*{path[-1] if path[0] != 'files' else 'model.safetensors'}"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["reading", "goals"], ...),
        (["reading", "goals", 1], 7),
        (["reading", "slots", "on"], {}),
        (["reading", "slot_labels"], "O"),
        (["reading", "more"], 1),
        (["calibration", "temperature"], ...),
        (["calibration", "temperature"], True),
        (["calibration", "threshold"], "0.5"),
        (["calibration", "transitions", 1, 0], None),
    ],
    ids=str,
)
def test_what_a_task_needs_is_checked_at_any_depth(tmp_path, path, value):
    """Of a run that is not finished, calibration is not yet there."""
    write_run(tmp_path, changed(RECORD, path, value))
    record = read_run(tmp_path)
    names = [name for name in path if isinstance(name, str)]
    with pytest.raises(ValueError, match=rf"^\S*{FILE}: {names[0]}.*{names[-1]}"):
        check_record(tmp_path, record)
    if path[0] == "calibration":
        assert check_record(tmp_path, replace(record, finished=False)) is GoalsCodec


def test_the_place_of_what_is_wrong_is_named():
    with pytest.raises(ValueError, match=r"^x: rows\[1\]\[0\] must be .*float, got 'a'$"):
        check_shape({"rows": [[1, 2.5], ["a"]]}, {"rows": [[float]]}, "x")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"[" * 100_000, b"[]", b'"text"', b"3", b'{"version": 99}', b"{}"]
)
def test_a_file_that_is_no_run_json_is_named(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(ValueError, match=FILE) as raised:
        read_run(tmp_path)
    assert "\n" not in str(raised.value)


def test_a_field_of_json_that_nobody_knows_is_refused(tmp_path):
    write_run(tmp_path, RECORD)
    content = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps(content | {"more": 1}))
    with pytest.raises(ValueError, match=FILE):
        read_run(tmp_path)


def test_what_was_changed_by_hand_is_refused(tmp_path):
    write_run(tmp_path, RECORD)
    text = (tmp_path / FILE).read_text()
    content = json.loads(text)
    # How it is laid out says nothing.
    (tmp_path / FILE).write_text(json.dumps(content, indent=4, sort_keys=True))
    assert read_run(tmp_path) == RECORD
    for other in (text.replace('"on"', '"off"'), text.replace("0.5", "0.4"), text.replace("goals", "ner", 1)):
        assert other != text
        (tmp_path / FILE).write_text(other)
        with pytest.raises(ValueError, match=rf"{FILE} .*checksum"):
            read_run(tmp_path)
    del content["checksum"]
    (tmp_path / FILE).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"{FILE} .*checksum"):
        read_run(tmp_path)


def test_older_runs_are_to_be_trained_anew(tmp_path):
    with pytest.raises(ValueError, match=f"it has no {FILE}"):
        read_run(tmp_path)
    (tmp_path / "task.json").write_text("{}")
    with pytest.raises(ValueError, match="train it anew"):
        read_run(tmp_path)


def test_a_file_that_would_fill_the_memory_is_not_read(tmp_path):
    with (tmp_path / FILE).open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ValueError, match=rf"{FILE} has .* bytes"):
        read_run(tmp_path)


@pytest.fixture
def finished(tmp_path):
    """A folder with two files, and its record."""
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_bytes(name.encode() * 100)
    return tmp_path, with_digests(tmp_path, replace(RECORD, finished=False), ("tokenizer.json", "model.safetensors"))


def test_digests_are_of_the_files_as_they_are(finished):
    folder, record = finished
    assert record.finished
    assert list(record.files) == ["model.safetensors", "tokenizer.json"]
    assert record.files["tokenizer.json"] == sha256_of(folder / "tokenizer.json")
    check_files(folder, record)
    # sha256sum of an empty file.
    (folder / "empty").touch()
    assert sha256_of(folder / "empty") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_flipped_bit_is_found(finished):
    folder, record = finished
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged or was changed"):
        check_files(folder, record)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_file_that_is_gone_is_named(finished, name):
    folder, record = finished
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"lacks {name}"):
        check_files(folder, record)


@pytest.mark.parametrize("name", ["../tokenizer.json", "/etc/passwd", "sub/tokenizer.json", ".."])
def test_files_of_other_folders_are_not_looked_at(finished, name):
    folder, record = finished
    with pytest.raises(ValueError, match="files"):
        check_files(folder, replace(record, files={name: "0"}))


def test_word_rules_of_another_version_are_refused(tmp_path):
    for version in (WORD_RULES + 1, None):
        with pytest.raises(ValueError, match="word rules"):
            check_record(tmp_path, replace(RECORD, word_rules=version))
    with pytest.raises(ValueError, match=r"^task must be one of goals, .*got 'os'"):
        codec_class("os")


@pytest.mark.parametrize(
    "content",
    [None, "{", "[]", "{}", '{"model": 7}', '{"model": {"vocab": ["a"]}}', '{"model": {"vocab": {"word:a": "4"}}}'],
)
def test_a_vocabulary_that_cannot_be_read_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        read_codec(tmp_path, RECORD)


def test_a_codec_is_read_as_run_json_says(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"model": {"vocab": {"word:on": 4}}}')
    write_run(tmp_path, RECORD)
    codec = read_codec(tmp_path, read_run(tmp_path))
    assert isinstance(codec, GoalsCodec)
    assert codec.encode("On").rows[0]["input_ids"].tolist() == [1, 4, 2]
    assert codec.calibration["threshold"] == 0.5
