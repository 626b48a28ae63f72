"""A plan's options: sorted by whom they concern, and refused in words that name them."""

import re

import pytest

from twofold.lab.arms import ARMS
from twofold.lab.options import FIXED, arm_of, options_of
from twofold.tasks import TASKS


def test_options_go_to_model_training_task_and_comparison():
    size = {"width": 32, "batch_size": 8, "betas": [0.9, 0.95], "context_length": 16, "looks": 3, "test": True}
    found = options_of("lm", size)
    assert (found.model.width, found.settings.batch_size, found.settings.betas) == (32, 8, (0.9, 0.95))
    assert found.choices == {"context_length": 16}
    assert (found.own.looks, found.own.test) == (3, True)


@pytest.mark.parametrize("task", TASKS)
def test_what_is_usual_is_the_task_s_own_without_dropout(task):
    found = options_of(task, {})
    assert (found.model.dropout, found.model.attention, found.model.size) == (0.0, "standard", "tiny")
    assert (found.settings.patience, found.settings.distribution) == (None, "none")
    assert found.choices == {}


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
        ({"wdith": 32}, "unknown option 'wdith'; there are: accumulate, "),
        ({"width": "32"}, "option width must be a whole number"),
        ({"width": 32.0}, "option width must be a whole number"),
        ({"width": True}, "option width must be a whole number"),
        ({"width": [32]}, "option width must be a whole number"),
        ({"width": 0}, "option width must be"),
        ({"dropout": "none"}, "option dropout must be a number"),
        ({"dropout": float("nan")}, "option dropout must be a number"),
        ({"dropout": 1.0}, "option dropout must be a number"),
        ({"size": "huge"}, "option size must be one of tiny, small, base, got 'huge'"),
        ({"tokenization": "letters"}, "option tokenization must be one of char, word, bpe, got 'letters'"),
        ({"context_length": 1}, "option context_length must be"),
        ({"betas": 0.9}, "option betas must be a list of 2"),
        ({"betas": [0.9, "x"]}, "option betas must be a list of 2"),
        ({"betas": [0.9]}, "option betas must be a list of 2"),
        ({"compile": 1}, "option compile must be true or false, got 1"),
        ({"looks": 0}, "option looks must be"),
        ({"looks": 2.5}, "option looks must be"),
        ({"test": "yes"}, "option test must be true or false, got 'yes'"),
    ],
)
def test_an_option_is_refused_by_name(option, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        options_of("lm", option)


@pytest.mark.parametrize("name", sorted(FIXED))
def test_what_a_comparison_sets_itself_cannot_be_set(name):
    with pytest.raises(ValueError, match=f"option '{name}' is set by the comparison itself"):
        options_of("lm", {name: 1})


def test_an_option_of_another_task_is_not_one_of_this():
    assert options_of("translation", {"beams": 2}).choices == {"beams": 2}
    with pytest.raises(ValueError, match="unknown option 'beams'"):
        options_of("lm", {"beams": 2})


def test_arms_by_name():
    assert arm_of("split_kv") == (ARMS["split_kv"], True)
    assert arm_of("split_kv:raw") == (ARMS["split_kv"], False)
    # It is about its size.
    assert arm_of("wide") == (ARMS["wide"], False)


@pytest.mark.parametrize("name", ["split", "", "split_kv/raw", "split_kv:raw:raw", "../standard", ":raw"])
def test_other_arms_there_are_not(name):
    with pytest.raises(ValueError, match=f"arm {re.escape(repr(name))} is not known .*; there are"):
        arm_of(name)


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
