"""Batches of rows, texts that cannot be read, and predictions as JSON."""

import json

import numpy as np
import pytest

from twofold_runtime.codec import batches, padded, softmax
from twofold_runtime.labels import LabelsCodec
from twofold_runtime.predictions import GoalPrediction, SlotValue


def test_rows_are_padded_at_their_end():
    rows = [
        {"input_ids": np.array([1, 2]), "cue_ids": np.ones((2, 3), int), "labels": np.array([7, 8]), "goal": 4},
        {"input_ids": np.array([1]), "cue_ids": np.ones((1, 3), int), "labels": np.array([7]), "goal": 5},
    ]
    batch = padded(rows, {"labels": -100})
    assert {name: array.tolist() for name, array in batch.items()} == {
        "input_ids": [[1, 2], [1, 0]],
        "cue_ids": [[[1, 1, 1], [1, 1, 1]], [[1, 1, 1], [0, 0, 0]]],
        "labels": [[7, 8], [7, -100]],
        "goal": [4, 5],
        "attention_mask": [[1, 1], [1, 0]],
    }


def test_rows_of_similar_length_go_together():
    assert [*batches([5, 1, 4, 2, 3], 2)] == [[1, 3], [4, 2], [0]]
    assert [*batches([], 2)] == []


def test_probabilities_of_large_scores():
    assert softmax(np.array([[1000.0, 1000.0], [-1000.0, 0.0]])).tolist() == [[0.5, 0.5], [0.0, 1.0]]


def prediction(**more):
    return GoalPrediction("on", "on", 0.5, (SlotValue("x", "on", 0, 2),), best_goal="on", evidence=0.5, **more)


def test_a_prediction_is_its_json():
    expected = {
        "text": "on",
        "goal": "on",
        "confidence": 0.5,
        "slots": [{"name": "x", "value": "on", "start": 0, "end": 2}],
    }
    assert json.loads(json.dumps(dict(prediction()))) == expected == dict(prediction())
    assert len(prediction()) == 4
    # What only scores need is no part of it, and what is optional only where there is some.
    assert "evidence" not in prediction()
    assert "truncated" not in prediction()
    assert dict(prediction(truncated=True)) == {**expected, "truncated": True}
    with pytest.raises(KeyError):
        prediction()["best_goal"]


class Letters:
    """A tokenizer whose ids are those of characters, framed."""

    def encode(self, text, longest):
        return [1, *map(ord, text), 2][:longest]


def test_labels_are_ranked_with_their_chances():
    codec = LabelsCodec({"labels": ["a", "b", "c", "d"]}, {"temperature": 2.0}, Letters())
    encoded = codec.encode("hm")
    assert encoded.rows[0]["input_ids"].tolist() == [1, ord("h"), ord("m"), 2]
    made = codec.decode(encoded, [{"logits": np.array([0.0, 4.0, 2.0, 2.0], np.float32)}])
    weights = np.exp([0.0, 2.0, 1.0, 1.0])
    chances = weights / weights.sum()
    assert made["label"] == "b"
    assert made["confidence"] == pytest.approx(chances[1])
    # Equal ones in the order of the labels.
    assert made["others"] == [{"label": name, "confidence": pytest.approx(chances[2])} for name in "cd"]
    assert codec.shown(made) == f"hm\n  b ({chances[1]:.0%}; c {chances[2]:.0%}, d {chances[2]:.0%})"
    with pytest.raises(ValueError, match=r"^text is empty"):
        codec.encode(" \n")
