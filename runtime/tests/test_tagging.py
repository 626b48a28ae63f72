"""Tags that are chosen together, and texts that are longer than what is read together."""

from itertools import product

import numpy as np
import pytest

from twofold_runtime import tagging
from twofold_runtime.predictor import Predictor
from twofold_runtime.tagging import NamesCodec, PartsOfSpeechCodec, best_path, may_follow_bio, spans_of
from twofold_runtime.tokens import WordVocabulary

TAGS = ["O", "B-x", "I-x", "B-y", "I-y"]
MAY = np.array([[may_follow_bio(tag, before) for tag in TAGS] for before in (*TAGS, None)])
RULES = np.where(MAY, 0.0, -np.inf)


@pytest.mark.parametrize("words", [1, 2, 4])
@pytest.mark.parametrize("rules", [RULES, None], ids=["bio", "scores alone"])
def test_the_best_path_is_the_best_of_all(words, rules):
    """Against every path there is, with transitions of which some never happen, or none do."""
    random = np.random.default_rng(words)
    scores = random.normal(size=(words, len(TAGS))) * 3
    transitions = random.normal(size=(len(TAGS) + 1, len(TAGS))) + (0.0 if rules is None else rules)

    def total(path):
        steps = zip((-1, *path), path, strict=False)
        return sum(scores[place, tag] for place, tag in enumerate(path)) + sum(transitions[step] for step in steps)

    best = max(product(range(len(TAGS)), repeat=words), key=total)
    assert best_path(scores, transitions) == list(best)


def test_without_transitions_every_word_has_its_own_best_tag():
    scores = np.random.default_rng(0).normal(size=(7, 5))
    assert best_path(scores, None) == best_path(scores, np.zeros((6, 5))) == scores.argmax(-1).tolist()
    assert best_path(scores[:0], np.zeros((6, 5))) == []


def test_only_what_has_begun_goes_on():
    allowed = [(before, tag) for before in (*TAGS, None) for tag in ("I-x", "I-y") if may_follow_bio(tag, before)]
    assert allowed == [("B-x", "I-x"), ("I-x", "I-x"), ("B-y", "I-y"), ("I-y", "I-y")]
    assert MAY[:, [0, 1, 3]].all()


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        (["O", "O", "O", "O"], []),
        (["B-x", "I-x", "O", "O"], [("x", 0, 5)]),
        (["B-x", "B-x", "I-y", "I-y"], [("x", 0, 2), ("x", 3, 5), ("y", 6, 11)]),
        (["I-x", "O", "I-x", "I-x"], [("x", 0, 2), ("x", 6, 11)]),
    ],
)
def test_spans_begin_anew_with_b_and_with_another_name(tags, spans):
    assert spans_of([(0, 2), (3, 5), (6, 8), (9, 11)], tags) == spans


def engine_of(tags, table, seen=None):
    """A model that looks up the tag of a word's id, and likes it with 2."""

    def engine(arrays):
        if seen is not None:
            seen.append(arrays["input_ids"].shape)
        wanted = np.array([[tags.index(table.get(int(one), "O")) for one in row] for row in arrays["input_ids"]])
        return {"logits": 2 * np.eye(len(tags), dtype=np.float32)[wanted]}

    return engine


IDS = {"word:anna": 4, "word:lee": 5, "word:oslo": 6}


def test_names_are_told_by_their_place():
    codec = NamesCodec({"tags": TAGS}, {}, WordVocabulary(IDS))
    names = Predictor(codec, engine_of(TAGS, {4: "B-x", 5: "I-x", 6: "I-y"}))
    text = " Anna  Lee went to Oslo."
    first, second = names.predict_many([text, "hm"])
    # A name that would go on without a beginning has none.
    assert dict(first) == {"text": text, "entities": [{"kind": "x", "value": "Anna  Lee", "start": 1, "end": 10}]}
    assert codec.shown(first) == f"{text}\n  x = 'Anna  Lee'"
    assert codec.shown(second) == "hm\n  no names"


def test_every_word_has_a_tag():
    tags = ["NOUN", "O"]
    codec = PartsOfSpeechCodec({"tags": tags}, {}, WordVocabulary(IDS))
    prediction = Predictor(codec, engine_of(tags, {4: "NOUN"})).predict("Anna!")
    assert prediction["words"] == [
        {"word": "Anna", "tag": "NOUN", "start": 0, "end": 4},
        {"word": "!", "tag": "O", "start": 4, "end": 5},
    ]
    assert codec.shown(prediction) == "Anna/NOUN !/O"


@pytest.mark.parametrize(("text", "name"), [("", "text"), (" \n", "text"), ("a \udcff", "text"), (5, "text")])
def test_what_is_no_text_is_refused(text, name):
    with pytest.raises(ValueError, match=f"^{name} "):
        NamesCodec({"tags": TAGS}, {}, WordVocabulary(IDS)).encode(text)


def test_long_texts_are_read_in_pieces_and_tagged_as_one(monkeypatch):
    monkeypatch.setattr(tagging, "LONGEST", 4)
    seen = []
    names = Predictor(
        NamesCodec({"tags": TAGS}, {}, WordVocabulary(IDS)), engine_of(TAGS, {4: "B-x", 5: "I-x", 6: "I-y"}, seen)
    )
    # The third word of a name is the first one of the second piece.
    prediction = names.predict("went there Anna Lee Lee Oslo Anna went Oslo")
    assert [(one["start"], one["end"]) for one in prediction["entities"]] == [(11, 23), (29, 33)]
    assert seen == [(3, 4)]
