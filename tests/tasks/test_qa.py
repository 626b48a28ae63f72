"""Answers to questions: learned on a part of the embedded set, reopened, and asked in every form."""

import json

import pytest

from tests.tasks.small import train_small
from twofold.data.examples import Answer, Question
from twofold.tasks.answers import bag_of_words_answer, exact_match, token_f1
from twofold.tasks.qa import Qa
from twofold.tasks.runs import open_run
from twofold_runtime import spans
from twofold_runtime.predictions import QuestionInput

CONTEXT = "Ada Sato was born in Norwick. That was in 1801. Ada Sato worked as a baker."


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qa")
    with pytest.MonkeyPatch.context() as patch:
        part, scores = train_small("qa", folder, patch, train=1200, dev=60, steps=100)
    return part, scores, open_run(folder)


def test_beats_a_bag_of_words(run):
    part, scores, opened = run
    guesses = [(bag_of_words_answer(one.question, one.context), [one.answers[0].text]) for one in part.dev]
    assert scores["f1"] > 100 * sum(token_f1(*guess) for guess in guesses) / len(guesses)
    assert 0 <= scores["exact_match"] <= scores["f1"]
    assert opened.task.scores(opened.model, part.dev) == pytest.approx(scores)


def test_one_answer_in_three_forms(run):
    opened = run[2]
    asked = QuestionInput("Where was Ada Sato born?", CONTEXT)
    prediction = opened.predict(asked)
    assert prediction["answer"] == CONTEXT[prediction["start"] : prediction["end"]]
    assert 0 < prediction["confidence"] <= 1
    assert opened.task.codec.shown(prediction).startswith(f"{asked.question}\n  {prediction['answer']} (")
    for line in (f"{asked.question} ||| {CONTEXT}", json.dumps({"question": asked.question, "context": CONTEXT})):
        assert dict(opened.predict(opened.task.codec.input_of_line(line))) == dict(prediction)


def test_a_text_alone_is_no_input(run):
    with pytest.raises(ValueError, match=r"^input must be a QuestionInput"):
        run[2].predict(f"Where was Ada Sato born? ||| {CONTEXT}")


def test_many_questions_have_the_answers_of_each(run):
    part, _, opened = run
    asked = [*map(opened.task.input_of, part.dev[:40]), QuestionInput("why " * 200, "because " * 2000)]
    for one, question in zip(opened.predict_many(asked), asked, strict=True):
        alone = dict(opened.predict(question))
        assert dict(one) == alone | {"confidence": pytest.approx(alone["confidence"], abs=1e-5)}


@pytest.fixture
def untrained():
    answers = (Answer("Norwick", CONTEXT.index("Norwick")),)
    return Qa.prepared([Question("1", text, "Where was Ada Sato born?", answers) for text in (CONTEXT, f"{CONTEXT} ")])


@pytest.mark.parametrize("longest", [20, 25, 384])
def test_the_answer_is_in_the_window_that_is_trained_on(untrained, monkeypatch, longest):
    monkeypatch.setattr(spans, "LONGEST", longest)
    question = Question("2", CONTEXT, "What was the trade?", (Answer("baker", CONTEXT.index("baker")),))
    features = untrained.features(question)
    assert len(features["input_ids"]) == len(features["cue_ids"]) <= longest
    assert features["start_positions"] == features["end_positions"]
    vocabulary = untrained.tokenizer.get_vocab()
    assert features["input_ids"][features["start_positions"]] == vocabulary["word:baker"]


def test_an_answer_longer_than_any_window_is_cut(untrained, monkeypatch):
    monkeypatch.setattr(spans, "LONGEST", 12)
    features = untrained.features(Question("3", CONTEXT, "What?", (Answer(CONTEXT, 0),)))
    assert features["start_positions"] < features["end_positions"] < len(features["input_ids"])


@pytest.mark.parametrize(
    ("answer", "truths", "exact", "f1"),
    [
        ("the Silver Acorn!", ["Silver acorn"], True, 1.0),
        ("in 1801", ["1801"], False, 2 / 3),
        ("Oslo", ["Norwick", "oslo"], True, 1.0),
        ("the", ["a"], True, 1.0),
        ("the", ["dog"], False, 0.0),
        ("a a dog dog", ["dog"], False, 2 / 3),
    ],
)
def test_scores_as_squad_counts(answer, truths, exact, f1):
    assert exact_match(answer, truths) is exact
    assert token_f1(answer, truths) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("question", "context", "answer"),
    [
        ("Where was Ada born?", "Ada was born in Norwick.", "in Norwick"),
        ("Who?", "", ""),
        ("Ada Sato?", "Ada Sato", ""),
        ("x", "one two", "one two"),
    ],
)
def test_what_a_bag_of_words_answers(question, context, answer):
    assert bag_of_words_answer(question, context) == answer
