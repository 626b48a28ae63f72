"""Data that is too large, silent, or quoted whole: each ends in one short line, in little time and memory."""

import gzip
import lzma
import os
import threading
import time
from pathlib import Path

import pytest

from twofold.data.files import DataError, bytes_of, lines_of, text_of
from twofold.data.goal_files import read_goals
from twofold.data.readers import read_labelled, read_questions, read_retrieval, read_tagged, unknown_labels
from twofold.data.splits import Splits
from twofold.data.vocabulary import train_tokenizer
from twofold_runtime.limits import LIMITS, limit


def small(monkeypatch, **limits):
    for name, most in limits.items():
        monkeypatch.setenv(f"TWOFOLD_MAX_{name}", str(most))


def refused(read, *arguments):
    """The error of a reader: one line that names the file, short whatever the data hold."""
    with pytest.raises(DataError) as caught:
        read(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return message


def test_a_limit_can_be_raised(monkeypatch):
    assert limit("LABELS") == LIMITS["LABELS"]
    small(monkeypatch, LABELS=12)
    assert limit("LABELS") == 12


def test_the_page_names_every_limit():
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    for name, most in LIMITS.items():
        assert f"| `TWOFOLD_MAX_{name}` | {most} |" in page


@pytest.mark.parametrize("value", ["-1", "many", "1e9", "9" * 5000])
def test_a_limit_that_is_no_number(monkeypatch, value):
    small(monkeypatch, LABELS=value)
    with pytest.raises(ValueError, match="TWOFOLD_MAX_LABELS must be a whole number") as caught:
        limit("LABELS")
    assert len(str(caught.value)) < 200


def bomb(path, megabytes):
    with gzip.open(path, "wb") as file:
        for _ in range(megabytes):
            file.write(b"a" * 2**20)
    return path


def test_a_bomb_is_not_unpacked_whole(tmp_path, monkeypatch):
    small(monkeypatch, FILE_BYTES=2**21)
    message = refused(text_of, bomb(tmp_path / "a.txt.gz", 8))
    assert "expected at most 2,097,152 (TWOFOLD_MAX_FILE_BYTES raises that)" in message
    (tmp_path / "b.txt").write_bytes(b"a" * (2**21 + 1))
    assert "b.txt: 2,097,153 bytes, expected at most" in refused(text_of, tmp_path / "b.txt")


@pytest.mark.long
def test_six_gigabytes_in_six_megabytes(tmp_path):
    path = bomb(tmp_path / "a.txt.gz", 6000)
    begun = time.monotonic()
    assert "expected at most" in refused(text_of, path)
    assert time.monotonic() - begun < 10


def test_a_file_packed_otherwise_is_named(tmp_path):
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(b"hello"))
    assert "is packed with xz" in refused(text_of, tmp_path / "a.txt.xz")


def test_an_endless_device(tmp_path, monkeypatch):
    small(monkeypatch, FILE_BYTES=2**22)
    (tmp_path / "train.tsv").symlink_to("/dev/zero")
    assert "bytes or more, expected at most" in refused(text_of, tmp_path / "train.tsv")


def test_a_silent_pipe(tmp_path, monkeypatch):
    small(monkeypatch, SILENT_SECONDS=0)
    os.mkfifo(tmp_path / "pipe")
    assert "is a pipe that gave nothing for 0 seconds" in refused(text_of, tmp_path / "pipe")


@pytest.mark.parametrize("packed", [False, True])
def test_a_pipe_with_a_slow_writer(tmp_path, packed):
    path = tmp_path / ("pipe.gz" if packed else "pipe")
    os.mkfifo(path)
    content = b"one\n" * 100_000

    def write():
        with path.open("wb") as file:
            data = gzip.compress(content) if packed else content
            for start in range(0, len(data), 100_000):
                time.sleep(0.02)
                file.write(data[start : start + 100_000])

    writer = threading.Thread(target=write)
    writer.start()
    assert bytes_of(path) == content
    writer.join()


def test_a_pipe_without_a_name_whose_writer_has_ended():
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo\n")
    os.close(writing)
    try:
        assert lines_of(f"/dev/fd/{reading}") == ["one", "two"]
    finally:
        os.close(reading)


def test_goals_through_a_pipe():
    reading, writing = os.pipe()
    os.write(writing, b"".join(b'{"text": "call %d", "goal": "call"}\n' % number for number in range(30)))
    os.close(writing)
    try:
        assert len(read_goals(f"/dev/fd/{reading}").train) == 24
    finally:
        os.close(reading)


def test_many_lines_and_long_ones(tmp_path, monkeypatch):
    small(monkeypatch, LINES=3, LINE_CHARACTERS=10)
    (tmp_path / "a.txt").write_text("a\n" * 4)
    assert "a.txt: 4 lines, expected at most 3" in refused(lines_of, tmp_path / "a.txt")
    (tmp_path / "b.txt").write_text("a\n" + "b" * 11)
    assert "b.txt:2: 11 characters in one line, expected at most 10" in refused(lines_of, tmp_path / "b.txt")


def test_a_line_of_ten_megabytes(tmp_path):
    (tmp_path / "train.tsv").write_text("a" * 10_000_000)
    assert "train.tsv:1: 10,000,000 characters in one line" in refused(read_labelled, tmp_path / "train.tsv")


def test_many_labels():
    splits = Splits([f"label {number}" for number in range(100_000)], [], [])
    assert "data: 100,000 different labels in train, expected at most 10,000" in refused(
        unknown_labels, splits, lambda label: [label]
    )


def test_many_words_and_slots(tmp_path):
    words = '{"text": "' + "la " * 100_000 + 'la", "goal": "sing"}\n'
    slots = '{"text": "a b", "goal": "x", "slots": [' + ", ".join(['{"name": "s", "value": "a"}'] * 4000) + "]}\n"
    for content, said in ((words, "100,001 words in one utterance"), (slots, "4,000 slots in one utterance")):
        (tmp_path / "train.jsonl").write_text(content)
        assert f"train.jsonl:1: {said}, expected at most" in refused(read_goals, tmp_path)
    (tmp_path / "train.tsv").write_text("la\tO\n" * 100_000)
    assert "train.tsv:1: 100,000 words in one sentence" in refused(read_tagged, tmp_path)


@pytest.mark.parametrize("grade", [999_999_999, 1001])
def test_a_grade_that_no_one_gives(tmp_path, grade):
    (tmp_path / "docs.jsonl").write_text('{"doc_id": "a", "text": "b"}')
    (tmp_path / "queries.train.jsonl").write_text('{"query_id": "q", "text": "b"}')
    (tmp_path / "qrels.train.tsv").write_text(f"q\ta\t{grade}\n")
    message = refused(read_retrieval, tmp_path)
    assert f"qrels.train.tsv:1: {grade:,} is the relevance, expected at most 1,000" in message


def test_many_characters():
    with pytest.raises(ValueError, match="69,000 different characters in the texts, expected at most 30,000"):
        train_tokenizer(["".join(map(chr, range(0x10000, 0x10000 + 69_000)))], "char")


@pytest.mark.parametrize("length", [4000, 100_000])
@pytest.mark.parametrize(
    ("read", "line"),
    [
        (read_goals, '{{"text": "a", "goal": {digits}}}'),
        (read_goals, '{{"text": "a", "goal": "x", "slots": [{{"name": "s", "start": {digits}, "end": 1}}]}}'),
        (read_goals, '{{"text": "a", "goal": "x", "slots": [{{"name": "{digits}", "value": "b"}}]}}'),
        (read_goals, '{{"{digits}": "a", "goal": "x"}}'),
        (read_goals, '{{"text": "a", "goal": "x", "slots": ["{digits}"]}}'),
        (read_labelled, '{{"text": "a", "label": [{digits}]}}'),
        (read_questions, '{{"context": "a", "answers": [{{"text": "b", "start": {digits}}}]}}'),
        (read_questions, '{{"context": "a", "answers": [{{"text": "{digits}", "start": 0}}]}}'),
    ],
)
def test_what_is_long_is_not_quoted_whole(tmp_path, read, line, length):
    (tmp_path / "train.jsonl").write_text(line.format(digits="7" * length))
    assert "train.jsonl:1: " in refused(read, tmp_path)
