"""Tags that are chosen together, and sentences that are longer than what is read together."""

from itertools import product

import pytest
import torch
from twofold.tasks.viterbi import best_path

from twofold.data.bio import spans_of, why_not_bio
from twofold.data.examples import Slot, Tagged
from twofold.tasks import tagging
from twofold.tasks.ner import Names
from twofold.tasks.options import ModelOptions

TAGS = ["O", "B-x", "I-x", "B-y", "I-y"]
ALLOWED = torch.tensor([[why_not_bio(tag, before) is None for tag in TAGS] for before in (*TAGS, "O")])


@pytest.mark.parametrize("words", [1, 2, 4])
def test_the_best_path_is_the_best_of_all_that_are_allowed(words):
    logits = torch.randn(words, len(TAGS)) * 3
    paths = [
        path
        for path in product(range(len(TAGS)), repeat=words)
        if all(ALLOWED[before, tag] for before, tag in zip((-1, *path), path, strict=False))
    ]
    best = max(paths, key=lambda path: sum(float(row[tag]) for row, tag in zip(logits, path, strict=True)))
    moves = torch.zeros(ALLOWED.shape).masked_fill(~ALLOWED, -torch.inf)
    assert best_path(logits, moves) == list(best)


def test_without_rules_every_word_has_its_own_best_tag():
    logits = torch.randn(7, 5)
    assert best_path(logits, None) == best_path(logits, torch.zeros(6, 5)) == logits.argmax(-1).tolist()


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        (["O", "O", "O"], ()),
        (["B-x", "I-x", "O"], (Slot("x", 0, 5),)),
        (["B-x", "B-x", "I-y"], (Slot("x", 0, 2), Slot("x", 3, 5), Slot("y", 6, 8))),
        (["I-x", "O", "I-x"], (Slot("x", 0, 2), Slot("x", 6, 8))),
    ],
)
def test_spans_of_tags(tags, spans):
    assert spans_of([(0, 2), (3, 5), (6, 8)], tags) == spans


@pytest.fixture
def untrained():
    train = [Tagged(("Anna", "met", "Omar"), ("B-PER", "O", "B-PER"))] * 2
    task = Names.prepared(train)
    return task, Names.model_class(task.config(ModelOptions())).eval()


def test_a_kind_has_both_tags_though_train_has_one(untrained):
    assert untrained[0].state["tags"] == ["O", "B-PER", "I-PER"]


def test_long_sentences_are_read_in_pieces(untrained, monkeypatch):
    task, model = untrained
    words = ["Anna", "met", "Omar", "new"] * 5
    monkeypatch.setattr(tagging, "LONGEST", 8)
    pieces = [words[:8], words[8:16], words[16:]]
    assert len(task._tags(model, [words, ["Anna"]])[0]) == len(words)
    monkeypatch.setattr(type(task), "may_follow", staticmethod(lambda tag, before: True))
    task.__dict__.pop("_moves")
    assert task._tags(model, [words])[0] == [tag for tags in task._tags(model, pieces) for tag in tags]
    # Training sees all of them, too.
    rows = task.rows([Tagged(tuple(words), ("O",) * 19 + ("B-PER",)), Tagged(("Anna",), ("O",))])
    assert [len(row["labels"]) for row in rows] == [len(row["input_ids"]) for row in rows] == [8, 8, 4, 1]
    assert rows[2]["labels"][-1] != rows[2]["labels"][0]
