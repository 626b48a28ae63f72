"""Words as the data has them, and sentences that are longer than what is read together."""

import pytest

from twofold.data.examples import Tagged
from twofold.tasks import tagging
from twofold.tasks.ner import Names
from twofold.tasks.options import ModelOptions
from twofold_runtime import tagging as reading


@pytest.fixture
def untrained():
    train = [Tagged(("Anna", "met", "Omar"), ("B-PER", "O", "B-PER"))] * 2
    task = Names.prepared(train)
    return task, Names.model_class(task.config(ModelOptions())).eval()


def test_a_kind_has_both_tags_though_train_has_one(untrained):
    assert untrained[0].reading["tags"] == ["O", "B-PER", "I-PER"]


def test_long_sentences_are_read_in_pieces(untrained, monkeypatch):
    task, model = untrained
    words = ("Anna", "met", "Omar", "new") * 5
    for module in (tagging, reading):
        monkeypatch.setattr(module, "LONGEST", 8)
    long, short = (Tagged(one, ("O",) * len(one)) for one in (words, ("Anna",)))
    assert [len(tags) for tags in task.answers(model, [long, short])] == [len(words), 1]
    # Where every tag may follow every other, pieces have the tags that they have alone.
    monkeypatch.setattr(type(task.codec), "may_follow", staticmethod(lambda tag, before: True))
    task = Names(task.tokenizer, task.reading)
    pieces = [Tagged(part, ("O",) * len(part)) for part in (words[:8], words[8:16], words[16:])]
    assert task.answers(model, [long])[0] == [tag for tags in task.answers(model, pieces) for tag in tags]


def test_training_sees_all_pieces(untrained, monkeypatch):
    monkeypatch.setattr(tagging, "LONGEST", 8)
    words = ("Anna", "met", "Omar", "new") * 5
    rows = untrained[0].rows([Tagged(words, ("O",) * 19 + ("B-PER",)), Tagged(("Anna",), ("O",))])
    assert [len(row["labels"]) for row in rows] == [len(row["input_ids"]) for row in rows] == [8, 8, 4, 1]
    assert rows[2]["labels"].tolist() == [0, 0, 0, 1]


def test_words_of_the_data_are_not_cut_anew(untrained):
    task, model = untrained
    example = Tagged(("New York", "e.g.", "don't"), ("O", "O", "O"))
    assert len(task.answers(model, [example])[0]) == 3
    assert task.encode(example).rows[0]["input_ids"].shape == (3,)
