"""Answers to questions: windows over long contexts, and the likeliest piece of all of them."""

import math
from itertools import pairwise

import numpy as np
import pytest

from twofold_runtime import spans
from twofold_runtime.predictions import QuestionInput
from twofold_runtime.predictor import Predictor
from twofold_runtime.spans import ALIKE, SAME, SpansCodec, question_of_line
from twofold_runtime.tokens import BEGIN, END, PAD, SEPARATOR, WordVocabulary

CONTEXT = "Ada Sato was born in Norwick. That was in 1801. Ada Sato worked as a baker."
CODEC = SpansCodec({}, {}, WordVocabulary({SAME: 5, ALIKE: 6, "word:ada": 7, "word:baker": 8}))


@pytest.mark.parametrize("longest", [20, 25, 384])
def test_windows_cover_the_context_and_overlap(longest, monkeypatch):
    monkeypatch.setattr(spans, "LONGEST", longest)
    encoded = CODEC.encode(QuestionInput("What was the trade?", CONTEXT))
    places, windows = encoded.places
    assert {place for one in windows for place in range(one.start, one.start + one.size)} == set(range(len(places)))
    assert all(before.start + before.size > after.start for before, after in pairwise(windows))
    for window, row in zip(windows, encoded.rows, strict=True):
        ids = row["input_ids"].tolist()
        assert len(ids) == len(row["cue_ids"]) == window.offset + window.size + 1 <= longest
        assert (ids[0], ids[window.offset - 1], ids[-1]) == (BEGIN, SEPARATOR, END)


def test_words_of_the_other_side_are_marked():
    (row,) = CODEC.encode(QuestionInput("Ada worked as?", "ada works there")).rows
    # Beginning, question, separator, context, end.
    assert row["cue_ids"][:, -1].tolist() == [PAD, 5, 6, PAD, PAD, PAD, 5, 6, PAD, PAD]


def test_the_best_piece_of_all_windows_and_its_share(monkeypatch):
    """Against all pieces of all windows, held at once."""
    monkeypatch.setattr(spans, "LONGEST", 12)
    monkeypatch.setattr(spans, "LONGEST_ANSWER", 5)
    encoded = CODEC.encode(QuestionInput("a", " ".join(f"w{n}" for n in range(20))))
    words, windows = encoded.places
    assert len(windows) > 2
    random = np.random.default_rng(0)
    outputs = [
        {
            name: random.normal(size=len(row["input_ids"])).astype(np.float32) * 2
            for name in ("start_logits", "end_logits")
        }
        for row in encoded.rows
    ]
    # Outside of the context nothing can be answered.
    for output in outputs:
        output["start_logits"][:3], output["end_logits"][-1] = 50, 50
    everything = {
        (number, first, last): float(output["start_logits"][window.offset + first])
        + float(output["end_logits"][window.offset + last])
        for number, (output, window) in enumerate(zip(outputs, windows, strict=True))
        for first in range(window.size)
        for last in range(first, min(window.size, first + 5))
    }
    (number, first, last), score = max(everything.items(), key=lambda one: one[1])
    prediction = CODEC.decode(encoded, outputs)
    shift = windows[number].start
    assert (prediction["start"], prediction["end"]) == (words[shift + first].start, words[shift + last].end)
    assert prediction["confidence"] == pytest.approx(math.exp(score) / sum(map(math.exp, everything.values())))
    assert prediction["answer"] == encoded.input.context[prediction["start"] : prediction["end"]]


@pytest.mark.parametrize(
    ("question", "context"),
    [("x", "y"), ("哪里?", "他住在北京。"), ("👋?", "🙂 🙃"), ("why " * 200, "because " * 2000)],
)
def test_anything_can_be_asked(question, context):
    def engine(arrays):
        logits = np.random.default_rng(arrays["input_ids"].size).normal(size=arrays["input_ids"].shape)
        return {"start_logits": logits.astype(np.float32), "end_logits": logits.astype(np.float32)}

    prediction = Predictor(CODEC, engine).predict(QuestionInput(question, context))
    assert prediction["answer"]
    assert prediction["answer"] == context[prediction["start"] : prediction["end"]]
    assert 0 < prediction["confidence"] <= 1
    assert CODEC.shown(prediction).startswith(f"{question}\n  {prediction['answer']} (")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Where was she born?", "text"),
        ('{"question": "Where?"}', "text .*context"),
        ('{"question": 5, "context": "x"}', "text .*question"),
        ('{"question": "Where?"', "text"),
        ("{" * 5000, "text"),
        ("", "text"),
        ("||| She was born in Oslo.", "question"),
        ("Where? |||  ", "context"),
        ('{"question": "\\ud800", "context": "x"}', "question"),
    ],
)
def test_what_is_no_question_and_context_is_refused(line, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        CODEC.encode(question_of_line(line))


def test_an_input_is_a_question_with_its_context():
    with pytest.raises(ValueError, match=r"^input must be a QuestionInput, got str"):
        CODEC.encode("a? ||| b")


def test_a_line_has_two_forms():
    assert question_of_line("a? ||| b ||| c") == QuestionInput("a?", "b ||| c")
    assert question_of_line(' {"question": "a?", "context": " b "}') == QuestionInput("a?", " b ")
