"""A plan's options: sorted by whom they concern, and refused in words that name them."""

import re

import pytest

from twofold.lab.arms import ARMS, arm_named
from twofold.lab.options import SET_BY_PLAN, options_of
from twofold.tasks import TASKS
from twofold.tasks.registry import task_class


def test_options_go_to_model_training_task_and_comparison():
    size = {"width": 32, "batch_size": 8, "betas": [0.9, 0.95], "context_length": 16, "evaluations": 3, "test": True}
    found = options_of("lm", size)
    assert (found.model.width, found.settings.batch_size, found.settings.betas) == (32, 8, (0.9, 0.95))
    assert found.choices.context_length == 16
    assert (found.runs.evaluations, found.runs.test) == (3, True)


def test_plans_from_before_a_name_changed_are_read():
    assert options_of("lm", {"looks": 3}).runs.evaluations == 3


def test_departures_are_what_a_plan_must_say_to_have_them():
    size = {"size": "small", "width": 32, "betas": (0.9, 0.95), "context_length": 16, "evaluations": 3}
    found, usual = options_of("lm", size), options_of("lm", {"size": "small"})
    assert found.departures(usual) == {name: value for name, value in size.items() if name != "size"}


@pytest.mark.parametrize("task", TASKS)
def test_what_is_usual_is_the_task_s_own_without_dropout(task):
    found = options_of(task, {})
    assert (found.model.dropout, found.model.attention, found.model.size) == (0.0, "standard", "tiny")
    assert (found.settings.patience, found.settings.distribution) == (None, "none")
    kind = task_class(task).Choices
    assert found.choices == (kind and kind())


def test_the_size_brings_its_own_settings_and_dropout_may_be_asked_for():
    small, tiny = options_of("lm", {"size": "small", "dropout": 0.1}), options_of("lm", {})
    assert small.settings.learning_rate < tiny.settings.learning_rate
    assert small.model.dropout == 0.1


def test_whole_numbers_do_for_numbers():
    assert options_of("lm", {"weight_decay": 1}).settings.weight_decay == 1.0
    assert isinstance(options_of("lm", {"clip": 2}).settings.clip, float)


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ({"wdith": 32}, "wdith is not among the options that a comparison takes: accumulate, "),
        ({"width": "32"}, "width must be a whole number"),
        ({"width": 32.0}, "width must be a whole number"),
        ({"width": True}, "width must be a whole number"),
        ({"width": [32]}, "width must be a whole number"),
        ({"width": 0}, "width must be"),
        ({"dropout": "none"}, "dropout must be a number"),
        ({"dropout": float("nan")}, "dropout must be a number"),
        ({"dropout": 1.0}, "dropout must be a number"),
        ({"size": "huge"}, "size must be one of tiny, small, base, got 'huge'"),
        ({"tokenization": "letters"}, "tokenization must be one of char, word, bpe, got 'letters'"),
        ({"context_length": 1}, "context_length must be"),
        ({"betas": 0.9}, "betas must be a list of 2"),
        ({"betas": [0.9, "x"]}, "betas must be a list of 2"),
        ({"betas": [0.9]}, "betas must be a list of 2"),
        ({"compile": 1}, "compile must be true or false, got 1"),
        ({"evaluations": 0}, "evaluations must be"),
        ({"looks": 2.5}, "evaluations must be"),
        ({"test": "yes"}, "test must be true or false, got 'yes'"),
    ],
)
def test_an_option_is_refused_by_name(option, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        options_of("lm", option)


@pytest.mark.parametrize("name", sorted(SET_BY_PLAN))
def test_what_a_comparison_sets_itself_cannot_be_set(name):
    with pytest.raises(ValueError, match=f"{name} is not among the options"):
        options_of("lm", {name: 1})


def test_an_option_of_another_task_is_not_one_of_this():
    assert options_of("translation", {"beams": 2}).choices.beams == 2
    with pytest.raises(ValueError, match="beams is not among"):
        options_of("lm", {"beams": 2})


def test_arms_by_name():
    assert arm_named("split_kv") == (ARMS["split_kv"], True)
    assert arm_named("split_kv:raw") == (ARMS["split_kv"], False)
    # It is about its size.
    assert arm_named("wide") == (ARMS["wide"], False)


@pytest.mark.parametrize("name", ["split", "", "split_kv/raw", "split_kv:raw:raw", "../standard", ":raw"])
def test_other_arms_there_are_not(name):
    with pytest.raises(ValueError, match=f"arms must be known by name .*, got {re.escape(repr(name))}"):
        arm_named(name)


def test_smoothing_is_for_what_writes_answers():
    assert options_of("translation", {"label_smoothing": 0.1}).settings.label_smoothing == 0.1
    with pytest.raises(ValueError, match="label_smoothing must be 0 for EncoderForSequenceClassification"):
        options_of("classification", {"label_smoothing": 0.1})


def test_questions_that_are_told_apart_stay_in_one_piece():
    with pytest.raises(
        ValueError, match="accumulate must be 1 for EncoderForSentenceEmbedding, whose loss contrasts all examples"
    ):
        options_of("retrieval", {"accumulate": 4})
    assert options_of("goals", {"accumulate": 4}).settings.accumulate == 4
