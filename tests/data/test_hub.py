"""Data sets of the hub, for which folders stand in, since `datasets` reads those by the same calls."""

import json
import sys
from pathlib import Path

import pytest

from twofold.data.examples import Answer, Labelled, Pair
from twofold.data.files import DataError
from twofold.data.hub import HubSet, is_hub
from twofold.data.hub_readers import hub_labelled, hub_pairs, hub_questions, hub_summaries, hub_texts
from twofold.data.streaming import Streamed

COLUMNS = ("text", "label")


def test_an_address_names_set_configuration_columns_and_revision():
    there = HubSet.parsed("hub:owner/set:small,label=stars,revision=abc", COLUMNS)
    assert (there.name, there.config, there.revision) == ("owner/set", "small", "abc")
    assert there.columns == {"text": "text", "label": "stars"}
    assert HubSet.parsed("hub:set", COLUMNS).config is None
    assert is_hub("hub:set")
    assert not is_hub("data/hub:set")
    assert not is_hub(None)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("hub:", "data must be hub:NAME or hub:NAME:CONFIG, got 'hub:'"),
        ("hub::small", "data must be hub:NAME or hub:NAME:CONFIG"),
        ("hub:set,stars", "data may have after its name only text=..., label=..., revision=..., got 'hub:set,stars'"),
        ("hub:set,answer=a", "data may have after its name only text=..., label=..., revision=..."),
    ],
)
def test_addresses_that_name_nothing(address, message):
    with pytest.raises(ValueError, match=message):
        HubSet.parsed(address, COLUMNS)


def test_the_package_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        DataError,
        match=r"^hub:owner/set: data of the hub needs an extra: pip install '\.\[hub\]' in Twofold's sources$",
    ):
        hub_labelled("hub:owner/set")


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    found = pytest.importorskip("datasets", reason="the extra twofold[hub] is not installed: pip install datasets")
    monkeypatch.setattr(found.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(found.config, "HF_HUB_OFFLINE", True)
    return found


@pytest.fixture
def made(datasets, tmp_path):
    """Writes the splits of a set as files and gives its address."""
    del datasets

    def write(ending=".jsonl", more="", **splits):
        folder = tmp_path / "set"
        folder.mkdir()
        for name, rows in splits.items():
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (folder / f"{name}{ending}").write_text(lines, encoding="utf-8")
        return f"hub:{folder}{more}"

    return write


def test_texts_with_labels(made):
    rows = [{"body": f"text {n}, größer 日本", "stars": n % 2} for n in range(4)]
    splits = hub_labelled(made(more=",text=body,label=stars", train=rows, validation=rows[:1], test=rows[1:3]))
    assert splits.train[1] == Labelled("text 1, größer 日本", "1")
    assert [len(part) for part in (splits.train, splits.dev, splits.test)] == [4, 1, 2]
    assert splits.cut == ()


def test_classes_have_names_and_files_may_be_parquet(datasets, tmp_path):
    kinds = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])})
    rows = {"text": [f"t{n}" for n in range(30)], "label": [n % 2 for n in range(30)]}
    (tmp_path / "set").mkdir()
    datasets.Dataset.from_dict(rows, features=kinds).to_parquet(str(tmp_path / "set" / "train.parquet"))
    splits = hub_labelled(f"hub:{tmp_path / 'set'}")
    assert {example.label for example in splits.train} == {"bad", "good"}
    assert splits.cut == ("dev", "test")
    assert len(splits.train + splits.dev + splits.test) == 30


def test_whole_numbers_with_a_point_are_classes(datasets, tmp_path):
    """A CSV whose labels have gaps is read so."""
    (tmp_path / "set").mkdir()
    lines = [f"text {n},{n % 2 if n % 5 else ''}" for n in range(40)]
    (tmp_path / "set" / "train.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    splits = hub_labelled(f"hub:{tmp_path / 'set'}")
    assert {example.label for example in splits.train} == {"0", "1"}
    assert len(splits.train + splits.dev + splits.test) == 32


def test_rows_of_no_class_are_left_out(datasets, tmp_path):
    kinds = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])})
    (tmp_path / "set").mkdir()
    for split, labels in (("train", [n % 2 for n in range(30)]), ("test", [-1] * 5)):
        rows = {"text": [f"{split} {n}" for n in range(len(labels))], "label": labels}
        datasets.Dataset.from_dict(rows, features=kinds).to_parquet(str(tmp_path / "set" / f"{split}.parquet"))
    splits = hub_labelled(f"hub:{tmp_path / 'set'}")
    assert {example.label for example in splits.train + splits.dev + splits.test} == {"bad", "good"}
    assert splits.cut == ("dev", "test")


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (None, None, Pair("a house", "ein Haus")),
        ("de", None, Pair("ein Haus", "a house")),
        (None, "en", Pair("ein Haus", "a house")),
        ("en", "de", Pair("a house", "ein Haus")),
    ],
)
def test_pairs_of_languages(made, source, target, expected):
    rows = [{"translation": {"de": "ein Haus", "en": "a house"}}] * 2
    assert hub_pairs(made(train=rows, dev=rows, test=rows), source, target).train[0] == expected


def test_pairs_of_columns_and_what_a_row_lacks(made):
    rows = [{"en": "a house", "fr": "une maison"}] * 2
    address = made(train=rows, dev=rows, test=rows)
    assert hub_pairs(f"{address},source=en,target=fr", None, None).dev[0] == Pair("a house", "une maison")
    with pytest.raises(DataError, match=r"set:1: missing field 'source' \(fields here: en, fr\)"):
        hub_pairs(address, None, None)


def test_a_language_that_is_not_there(made):
    rows = [{"translation": {"de": "ein Haus", "en": "a house"}}]
    with pytest.raises(DataError, match=r"set:1: missing field 'fr' \(fields here: de, en\)"):
        hub_pairs(made(train=rows), "en", "fr")


def test_summaries(made):
    rows = [{"text": f"long {n}", "summary": "short"} for n in range(3)]
    assert hub_summaries(made(train=rows, dev=rows, test=rows)).test[2] == Pair("long 2", "short")


def squad(context, text, start):
    return {"id": "7", "context": context, "question": "who?", "answers": {"text": text, "answer_start": start}}


def test_questions_as_squad_has_them(made):
    rows = [squad("Ada built it.", ["Ada", "Ada built"], [0, 0])]
    (question,) = hub_questions(made(train=rows, validation=rows, test=rows)).train
    assert (question.id, question.answers) == ("7", (Answer("Ada", 0), Answer("Ada built", 0)))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (squad("Ada built it.", ["Bob"], [0]), "set:1: answer 'Bob' is not at 0 of the context"),
        (squad("Ada built it.", [], []), "set:1: has no answer, and every question needs one"),
        (squad("", ["Ada"], [0]), "set:1: field 'context' is empty"),
        (squad("Ada built it.", [" "], [3]), "set:1: answer ' ' is not at 3 of the context"),
        (squad("Ada built it", ["it"], [-2]), "set:1: answer 'it' is not at -2 of the context"),
        (squad("Ada built it.", ["Ada"], [0, 4]), "set:1: has 1 answer and 2 starts of answers"),
    ],
)
def test_questions_that_are_wrong(made, row, message):
    with pytest.raises(DataError, match=message):
        hub_questions(made(train=[row, squad("Ada", ["Ada"], [0])]))


def test_texts_are_a_stream(made):
    rows = [{"text": f"story {n}" if n % 2 else " "} for n in range(20)]
    splits = hub_texts(made(train=rows, validation=rows[:4], test=rows))
    assert isinstance(splits.train, Streamed)
    assert splits.missing == ()
    assert splits.dev == ["story 1", "story 3"]
    # As often as one likes.
    assert list(splits.train) == list(splits.train) == [f"story {n}" for n in range(1, 20, 2)]


def test_a_stream_without_dev_gives_its_beginning_away(made, monkeypatch):
    monkeypatch.setattr("twofold.data.hub_readers.CUT", 3)
    splits = hub_texts(made(train=[{"text": f"story {n}"} for n in range(20)]))
    assert (splits.dev, splits.test) == ([f"story {n}" for n in range(3)], [f"story {n}" for n in range(3, 6)])
    assert list(splits.train) == [f"story {n}" for n in range(6, 20)]
    assert splits.cut == ("dev", "test")


def test_a_stream_is_not_read_to_its_end(made, monkeypatch):
    address = made(train=[{"text": f"story {n}"} for n in range(50)], dev=[{"text": "x"}], test=[{"text": "y"}])
    seen, whole = [], HubSet.rows

    def counted(self, split, *, streaming):
        assert streaming
        for number, row in whole(self, split, streaming=streaming):
            seen.append(number)
            yield number, row

    monkeypatch.setattr(HubSet, "rows", counted)
    texts = iter(hub_texts(address).train)
    assert [next(texts), next(texts)] == ["story 0", "story 1"]
    assert len(seen) < 8


def test_a_stream_that_is_too_short(made):
    with pytest.raises(DataError, match="train has 2 texts, too few to learn from"):
        hub_texts(made(train=[{"text": "a"}, {"text": "b"}]))


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"test": [{"text": "a"}]}, r"has no train split \(splits there: test\)"),
        ({"train": [{"body": "a"}] * 3}, r"set:1: missing field 'text' \(fields here: body\)"),
        ({"train": [{"text": 3}] * 3}, "set:1: field 'text' must be a string, got 3"),
    ],
)
def test_sets_that_lack_something(made, splits, message):
    with pytest.raises(DataError, match=message):
        hub_texts(made(**splits))


def test_a_broken_file_is_named_in_a_line(made):
    address = made(train=[{"text": "a"}])
    (Path(address.removeprefix("hub:")) / "train.jsonl").write_text('{"text": "a"\n{{{', encoding="utf-8")
    with pytest.raises(DataError, match=r"^hub:.*set: cannot be read: .+$") as error:
        hub_texts(address)
    assert "\n" not in str(error.value)


def test_a_set_that_cannot_be_reached(datasets):
    del datasets
    with pytest.raises(DataError, match=r"^hub:nobody/nothing-here: cannot be read: .+") as error:
        hub_labelled("hub:nobody/nothing-here")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["csv", "json", "parquet", "text"])
def test_a_folder_may_be_called_as_a_reader_is(name, datasets, tmp_path, monkeypatch):
    """The library has readers of these names, which would take whatever lies around."""
    monkeypatch.chdir(tmp_path)
    for folder, label in ((name, "ours"), ("other", "theirs")):
        Path(folder).mkdir()
        rows = [f"row {number},{label}\n" for number in range(30)]
        Path(folder, "train.csv").write_text("text,label\n" + "".join(rows))
    assert {one.label for one in hub_labelled(f"hub:{name}").train} == {"ours"}
