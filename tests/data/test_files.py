"""Files and folders: encodings, line ends, splits that are there, missing or cut, and what an error says."""

import gzip

import pytest

from twofold.data.examples import Splits
from twofold.data.files import DataError, field, lines_of, records_of, text_of
from twofold.data.splits import cut_missing, find_split


def put(path, content):
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("one\ntwo\n", ["one", "two"]),
        ("one\ntwo", ["one", "two"]),
        ("\ufeffone\r\ntwo  \r\n", ["one", "two"]),
        ("one\n\ntwo\n", ["one", "", "two"]),
        ("a\u2028b\x0bc\x85d\n", ["a\u2028b\x0bc\x85d"]),
        ("猫が好き\nمرحبا\n👩‍👩‍👧 e\u0301\n", ["猫が好き", "مرحبا", "👩‍👩‍👧 e\u0301"]),
    ],
)
def test_lines(tmp_path, name, content, expected):
    assert lines_of(put(tmp_path / name, content)) == expected


def test_normal_forms_are_left_alone(tmp_path):
    assert text_of(put(tmp_path / "a", "é e\u0301 ﬁ")) == "é e\u0301 ﬁ"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"good\nbad \xff here\n", r"a\.txt:2: not UTF-8: byte 0xff at offset 9 of the file$"),
        ("a.txt", b"cut \xe7\x8c", r"a\.txt:1: not UTF-8: byte 0xe7 at offset 4 of the file$"),
        ("a.txt.gz", b"x\n\xfe", r"a\.txt\.gz:2: not UTF-8"),
        ("a.txt", b"", r"a\.txt: is empty$"),
        ("a.txt", b" \n\r\n", r"a\.txt: is empty$"),
        ("a.txt", b"\xef\xbb\xbf", r"a\.txt: is empty$"),
    ],
)
def test_bytes_that_are_no_text(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        text_of(put(tmp_path / name, content))


def test_what_is_no_file(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.txt: no such file$"):
        text_of(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match=r"is a folder, expected a file$"):
        text_of(tmp_path)


PACKED = gzip.compress(b"hello" * 50)


# Named, for what is packed has the time in it, and two processes would have tests of two names.
@pytest.mark.parametrize("content", [b"plain", PACKED[:-9], PACKED[:20] + b"xx"], ids=["plain", "cut", "continued"])
def test_broken_gzip(tmp_path, content):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.txt\.gz: is not a whole gzip file$"):
        text_of(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1}\n{"a": \n', r"a\.jsonl:2: invalid JSON: Expecting value at column 6$"),
        ("\n\n[1]\n", r"a\.jsonl:3: expected a JSON object, got \[1\]$"),
        ('"' + "x" * 99 + '"\n', r"expected a JSON object, got \"x+\.\.\.x+\"$"),
    ],
)
def test_broken_records(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        list(records_of(put(tmp_path / "a.jsonl", content)))


@pytest.mark.parametrize(
    ("record", "kind", "message"),
    [
        ({}, "string", r"f:7: missing field 'x' \(fields here: none\)$"),
        ({"y": 1, "z": 2}, "string", r"missing field 'x' \(fields here: y, z\)$"),
        ({"x": 3}, "string", "field 'x' must be a string, got 3$"),
        ({"x": None}, "string", "field 'x' must be a string, got null$"),
        ({"x": "3"}, "whole number", "field 'x' must be a whole number, got \"3\"$"),
        ({"x": True}, "whole number", "field 'x' must be a whole number, got true$"),
        ({"x": {}}, "list", "field 'x' must be a list, got {}$"),
        ({"x": "a\ud83d"}, "string", "field 'x' holds half of a surrogate pair"),
    ],
)
def test_fields(record, kind, message):
    with pytest.raises(DataError, match=message):
        field("f", 7, record, "x", kind)


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train.tsv", "train"),
        ("train.tsv.gz", "train"),
        ("dev.tsv", "dev"),
        ("valid.tsv.gz", "dev"),
        ("validation.tsv", "dev"),
        ("val.tsv", "dev"),
        ("test.tsv", "test"),
        ("test2016.tsv", "test"),
        ("test_flickr.tsv.gz", "test"),
    ],
)
def test_find_split(tmp_path, name, split):
    put(tmp_path / name, "x")
    put(tmp_path / "testing.intent.txt", "x")
    found = {one: find_split(tmp_path, one, (".tsv", ".txt")) for one in ("train", "dev", "test")}
    assert found.pop(split) == tmp_path / name
    assert set(found.values()) == {None}


def test_find_split_that_is_not_clear(tmp_path):
    put(tmp_path / "test2016.en", "x")
    put(tmp_path / "test2017.en", "x")
    with pytest.raises(
        DataError, match=r"has several test files \(test2016\.en, test2017\.en\); keep one, or call one test\.en$"
    ):
        find_split(tmp_path, "test", (".en",))
    put(tmp_path / "test.en", "x")
    assert find_split(tmp_path, "test", (".en",)) == tmp_path / "test.en"


def test_find_split_asked_wrongly(tmp_path):
    with pytest.raises(ValueError, match="split must be one of train, dev, test, got 'eval'"):
        find_split(tmp_path, "eval", (".en",))
    with pytest.raises(DataError, match=r"nowhere: no such folder$"):
        find_split(tmp_path / "nowhere", "dev", (".en",))


def test_cut_is_the_same_every_time_whatever_the_order():
    examples = [str(n) for n in range(100)]
    made = cut_missing("f", Splits(examples, [], []), str)
    again = cut_missing("f", Splits(examples[::-1], [], []), str)
    assert (len(made.train), len(made.dev), len(made.test), made.cut) == (80, 10, 10, ("dev", "test"))
    assert set(made.dev) == set(again.dev)
    assert sorted(made.train + made.dev + made.test) == sorted(examples)


def test_cut_keeps_equal_keys_together_and_leaves_what_is_there():
    examples = [f"{n % 20} {n}" for n in range(100)]
    made = cut_missing("f", Splits(examples, ["here"], []), lambda text: text.split()[0])
    assert made.dev == ["here"]
    assert made.cut == ("test",)
    assert len(made.test) == 10
    assert not {text.split()[0] for text in made.test} & {text.split()[0] for text in made.train}


def test_cut_leaves_train_an_example_of_every_label():
    examples = [(f"text {n}", "ab"[n % 2]) for n in range(40)] + [(f"text {n}", f"rare {n}") for n in range(40, 60)]
    examples += [(f"twice {n}", "pair") for n in range(2)]
    made = cut_missing("f", Splits(examples, [], []), lambda one: one[0], lambda one: [one[1]])
    assert {label for _, label in made.train} == {label for _, label in examples}
    assert (len(made.dev), len(made.test)) == (6, 6)
    # Where no label would be lost, nothing is cut otherwise than without labels.
    common = examples[:40]
    assert cut_missing("f", Splits(common, [], []), lambda one: one[0], lambda one: [one[1]]) == cut_missing(
        "f", Splits(common, [], []), lambda one: one[0]
    )
    with pytest.raises(DataError, match=r"^f: has too few examples of its labels to cut dev and test from; give those"):
        cut_missing("f", Splits(examples[40:60], [], []), lambda one: one[0], lambda one: [one[1]])


def test_too_few_to_cut_from():
    with pytest.raises(
        DataError, match=r"^f: has 2 different examples, too few to cut dev and test from; give those as files$"
    ):
        cut_missing("f", Splits(["a", "b", "a"], [], []), str)
