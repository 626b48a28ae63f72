"""Goals: what is decoded from logits, by temperature, threshold, transitions and the slots that a goal can have."""

import math

import numpy as np
import pytest

from twofold_runtime.goals import LONGEST, GoalsCodec, best_goals, goal_shown
from twofold_runtime.predictor import Predictor
from twofold_runtime.tokens import BEGIN, END, PAD, UNKNOWN, WordVocabulary

LABELS = ["O", "B-city", "I-city", "B-room", "I-room"]
READING = {
    "goals": ["", "weather", "lights", "move", "stop", "new"],
    "slot_labels": LABELS,
    "slots": {"weather": ["city"], "lights": ["room"], "move": ["city", "room"], "stop": []},
    "evidence": "sigmoid_of_logit",
}
TOKENS = WordVocabulary({"word:in": 4, "word:rome": 5, "shape:xx": 6})


def codec_with(**calibration):
    return GoalsCodec(READING, calibration, TOKENS)


def decoded(codec, goal, best, text=None, strength=4.0):
    """What is decoded where one goal has that logit and all others its negative, and one label of every word 2."""
    encoded = codec.encode("x " * len(best) if text is None else text)
    logits = np.where([name == goal for name in READING["goals"]], strength, -strength).astype(np.float32)
    words = np.array([[2.0 * (label == one) for label in LABELS] for one in ("O", *best, "O")], np.float32)
    return codec.decode(encoded, [{"goal_logits": logits, "slot_logits": words}])


def labels(prediction, words):
    """The label of every word of "x x x"."""
    found = ["O"] * words
    for slot in prediction.best_slots:
        places = range(slot.start // 2, slot.end // 2 + 1)
        for place in places:
            found[place] = f"{'B' if place == places[0] else 'I'}-{slot.name}"
    return found


@pytest.mark.parametrize(
    ("goal", "best", "found"),
    [
        ("weather", ["O", "B-city", "I-city"], ["O", "B-city", "I-city"]),
        ("lights", ["B-city", "I-city"], ["O", "O"]),
        ("stop", ["B-city", "B-room"], ["O", "O"]),
        ("new", ["B-city"], ["O"]),
        ("move", ["B-room", "B-city", "I-city"], ["B-room", "B-city", "I-city"]),
        ("weather", [], []),
    ],
)
def test_a_goal_has_its_own_slots(goal, best, found):
    assert labels(decoded(codec_with(), goal, best), len(best)) == found


@pytest.mark.parametrize("best", [["I-city"], ["O", "I-city"], ["B-room", "I-city"], ["I-room", "I-room", "O"]])
def test_nothing_goes_on_that_has_not_begun(best):
    """A slot found there begins with its own B, or the word has none."""
    assert labels(decoded(codec_with(), "move", best), len(best)) in (
        ["O"] * len(best),
        ["B-room", *["O"] * (len(best) - 1)],
        ["B-room", "I-room", "O"],
    )


def test_transitions_tip_the_scales():
    after_city = np.zeros((len(LABELS) + 1, len(LABELS)))
    after_city[LABELS.index("B-city"), LABELS.index("I-city")] = 5
    codec = codec_with(transitions=after_city.tolist())
    assert labels(decoded(codec, "weather", ["B-city", "O"]), 2) == ["B-city", "I-city"]
    # Those of labels that the goal cannot have change nothing.
    assert labels(decoded(codec, "lights", ["B-room", "O"]), 2) == ["B-room", "O"]
    start = np.zeros((len(LABELS) + 1, len(LABELS)))
    start[-1, LABELS.index("B-city")] = -5
    assert labels(decoded(codec_with(transitions=start.tolist()), "weather", ["B-city", "O"]), 2) == ["O", "O"]


def test_transitions_must_fit_the_labels():
    with pytest.raises(ValueError, match="transitions"):
        codec_with(transitions=[[0.0]])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_the_temperature_divides_logits_and_moves_neither_goal_nor_evidence(temperature):
    prediction = decoded(codec_with(temperature=temperature), "lights", ["B-room"], strength=1.0)
    high, low = math.exp(1 / temperature), math.exp(-1 / temperature)
    assert prediction["confidence"] == pytest.approx(high / (high + low * (len(READING["goals"]) - 1)))
    assert prediction.evidence == pytest.approx(1 / (1 + math.exp(-1)))
    assert (prediction["goal"], prediction.best_goal) == ("lights", "lights")


def test_evidence_below_the_threshold_is_out_of_scope():
    """What is rejected keeps its confidence, and for scores the best goal with its slots."""
    evidence = 1 / (1 + math.exp(-1))
    rejected = decoded(codec_with(threshold=evidence + 1e-6), "lights", ["B-room"], strength=1.0)
    assert (rejected["goal"], rejected["slots"]) == (None, [])
    assert rejected["confidence"] > 0
    assert (rejected.best_goal, len(rejected.best_slots)) == ("lights", 1)
    accepted = decoded(codec_with(threshold=evidence - 1e-6), "lights", ["B-room"], strength=1.0)
    assert dict(accepted) == {
        "text": "x ",
        "goal": "lights",
        "confidence": rejected["confidence"],
        "slots": [{"name": "room", "value": "x", "start": 0, "end": 1}],
    }
    # Before anything is tuned, all is believed.
    assert decoded(codec_with(), "lights", [], strength=-9.0)["goal"] is not None


def test_evidence_is_not_shared_with_other_goals():
    logits = np.full((3, 6), -8.0)
    logits[0, 1], logits[1, 1:3], logits[2, 0] = 4.0, 4.0, 4.0
    best, evidence = best_goals(logits)
    # What is out of scope, the first, is no goal.
    assert best[:2].tolist() == [1, 1]
    assert evidence[0] == evidence[1] > 0.9 > 0.1 > evidence[2]
    # In single precision both would be 1, and neither could be told from the other.
    one, other = best_goals(np.array([[0, 18.0], [0, 19.0]], np.float32))[1]
    assert one < other < 1


def test_a_text_is_framed_and_cut_at_the_longest():
    codec = codec_with()
    (row,) = codec.encode("in Rome!").rows
    assert row["input_ids"].tolist() == [BEGIN, 4, 5, UNKNOWN, END]
    assert row["cue_ids"].shape == (5, 8)
    assert not (row["cue_ids"][[0, -1]] != PAD).any()
    assert row["cue_ids"][1, 0] == 6
    encoded = codec.encode("word " * 600)
    assert [len(array) for array in encoded.rows[0].values()] == [LONGEST, LONGEST]
    assert len(encoded.places) == LONGEST - 2


@pytest.mark.parametrize(("words", "truncated"), [(LONGEST - 2, False), (LONGEST - 1, True)])
def test_a_prediction_says_where_the_end_was_not_read(words, truncated):
    prediction = decoded(codec_with(), "lights", ["O"] * (LONGEST - 2), "word " * words)
    assert ("truncated" in prediction) == truncated
    assert dict(prediction).get("truncated", False) is truncated


@pytest.mark.parametrize("text", ["", " ", "🎉", "أطفئ الأنوار", "e\u0301te\u0301", "\0", "x\ty\nz"])
def test_any_text_gets_an_answer_with_places_of_its_own(text):
    codec = codec_with()
    words = len(codec.encode(text).places)
    prediction = decoded(codec, "move", ["B-city", "I-city", "B-room"][:words] + ["O"] * (words - 3), text)
    assert prediction["text"] == text
    assert len(prediction["slots"]) == min(words, 1) + (words > 2)
    assert all(text[slot["start"] : slot["end"]] == slot["value"] for slot in prediction["slots"])


@pytest.mark.parametrize("text", [None, b"x", "a \udcff"])
def test_what_is_no_unicode_text_is_refused(text):
    with pytest.raises(ValueError, match=r"^text must be"):
        codec_with().encode(text)


def test_rows_of_many_texts_come_back_to_their_own():
    """Long and short ones, in more batches than one, against each alone."""

    def engine(arrays):
        ids = arrays["input_ids"]
        assert (ids[arrays["attention_mask"] == 0] == PAD).all()
        goals = np.eye(6, dtype=np.float32)[1 + arrays["attention_mask"].sum(1) % 3] * 3
        return {"goal_logits": goals, "slot_logits": 2 * np.eye(5, dtype=np.float32)[np.where(ids == 5, 1, 0)]}

    texts = ["in rome " * (7 * n % 11) for n in range(150)]
    predictor = Predictor(codec_with(), engine)
    together = predictor.predict_many(texts)
    assert [one["text"] for one in together] == texts
    assert [dict(one) for one in together] == [dict(predictor.predict(text)) for text in texts]
    assert predictor.predict_many([]) == []


def test_people_read_goal_slots_and_confidence():
    codec = codec_with()
    prediction = decoded(codec, "lights", ["O", "B-room"], "in attic", strength=9.0)
    assert codec.shown(prediction) == "in attic\n  lights (100%): room = 'attic'"
    assert goal_shown({"goal": None, "confidence": 0.25}) == "out of scope (the best goal has 25%)"
