"""Answers to questions: learned on a part of the embedded set, reopened, and asked in every form."""

import json
import math

import pytest
import torch

from tests.tasks.small import train_small
from twofold.data.examples import Answer, Question
from twofold.tasks import qa
from twofold.tasks.answers import bag_of_words_answer, exact_match, token_f1
from twofold.tasks.qa import Qa, question_and_context
from twofold.tasks.runs import open_run

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
    asked = "Where was Ada Sato born?"
    told = opened.predict(f"{asked} ||| {CONTEXT}")
    assert told["answer"] == CONTEXT[told["start"] : told["end"]]
    assert 0 < told["confidence"] <= 1
    assert opened.predict(json.dumps({"question": asked, "context": CONTEXT})) == told
    assert opened.task.answer(opened.model, asked, CONTEXT) == told
    assert opened.task.shown(told).startswith(f"{asked}\n  {told['answer']} (")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Where was she born?", r'text must be "question \|\|\| context" or .*, got \'Where was she born\?\''),
        ("||| She was born in Oslo.", "question must not be empty"),
        ("Where? |||  ", "context must not be empty"),
        ('{"question": "Where?"}', "text must have a string 'context' in its JSON object, got None"),
        ('{"question": 5, "context": "x"}', "text must have a string 'question' in its JSON object, got 5"),
        ('{"question": "Where?"', "text begins like a JSON object and is none"),
        ("", "text must be"),
    ],
)
def test_what_is_no_question_and_context_is_refused(run, text, problem):
    with pytest.raises(ValueError, match=problem):
        run[2].predict(text)


def test_a_context_may_hold_the_sign_between():
    assert question_and_context("a? ||| b ||| c") == ("a?", "b ||| c")


@pytest.mark.parametrize(
    ("question", "context"),
    [
        ("x", "y"),
        ("哪里?", "他住在北京。"),
        ("👋?", "🙂 🙃"),
        ("Где?", "Анна живёт в Осло."),
        ("why " * 200, "because " * 2000),
    ],
)
def test_anything_can_be_asked(run, question, context):
    told = run[2].task.answer(run[2].model, question, context)
    assert told["answer"]
    assert told["answer"] == context[told["start"] : told["end"]]


@pytest.fixture
def untrained():
    answers = (Answer("Norwick", CONTEXT.index("Norwick")),)
    return Qa.prepared([Question("1", text, "Where was Ada Sato born?", answers) for text in (CONTEXT, f"{CONTEXT} ")])


@pytest.mark.parametrize("longest", [20, 25, 384])
def test_windows_cover_the_context_and_the_answer_is_in_the_one_trained_on(untrained, monkeypatch, longest):
    monkeypatch.setattr(qa, "LONGEST", longest)
    question = Question("2", CONTEXT, "What was the trade?", (Answer("baker", CONTEXT.index("baker")),))
    places, windows = untrained._windows(question.question, question.context)
    assert {place for one in windows for place in range(one.start, one.start + one.size)} == set(range(len(places)))
    assert all(len(one.features["input_ids"]) == len(one.features["cue_ids"]) <= longest for one in windows)
    made = untrained.features(question)
    vocabulary = untrained.tokenizer.get_vocab()
    assert made["start_positions"] == made["end_positions"]
    assert made["input_ids"][made["start_positions"]] == vocabulary["word:baker"]


def test_the_best_piece_of_all_windows_and_its_share():
    """Against all pieces of all windows, held at once."""
    places = [qa.Place(3 * n, 3 * n + 2) for n in range(20)]
    torch.manual_seed(0)
    windows = [(start, torch.randn(8), torch.randn(8)) for start in (0, 4, 8, 12)]
    found = [qa._best_piece(starts, ends, offset) for offset, starts, ends in windows]
    everything = {
        (offset, first, last): float(starts[first] + ends[last])
        for offset, starts, ends in windows
        for first in range(8)
        for last in range(first, 8)
    }
    (offset, first, last), score = max(everything.items(), key=lambda one: one[1])
    place, share = qa._likeliest(places, found)
    assert place == qa.Place(places[offset + first].start, places[offset + last].end)
    assert share == pytest.approx(math.exp(score) / sum(map(math.exp, everything.values())), rel=1e-5)


def test_an_answer_longer_than_any_window_is_cut(untrained, monkeypatch):
    monkeypatch.setattr(qa, "LONGEST", 12)
    made = untrained.features(Question("3", CONTEXT, "What?", (Answer(CONTEXT, 0),)))
    assert made["start_positions"] < made["end_positions"] < len(made["input_ids"])


def test_words_of_the_other_side_are_marked(untrained):
    same, alike = (untrained.vocabulary[mark] for mark in (qa.SAME, qa.ALIKE))
    assert untrained._marks(["Ada", "worked", "as"], ["ada", "works"]) == [same, alike, 0]


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
