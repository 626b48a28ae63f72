"""What a user may choose about one task alone, from the command line to run.json and back."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from twofold.cli.arguments import parse, with_choices
from twofold.cli.train import Train
from twofold.tasks.goals import Goals
from twofold.tasks.registry import choices_for


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """How text is cut."""

    cut: Literal["short", "long"] = "short"
    """How long pieces are."""


class Cutting(Goals):
    name = "cutting"
    Choices = Cut


@pytest.mark.parametrize("given", [None, {}, {"cut": "short"}, Cut()])
def test_choices_are_those_given_or_the_usual(given):
    assert choices_for(Cutting, given) == {"choices": Cut(cut="short")}


def test_choices_come_back_from_what_run_json_keeps():
    assert choices_for(Cutting, {"cut": "long"}) == {"choices": Cut(cut="long")}


def test_a_task_without_choices_takes_none():
    assert choices_for(Goals) == {}
    assert choices_for(Goals, {}) == {}
    with pytest.raises(ValueError, match="goals has no choices of its own, got Cut"):
        choices_for(Goals, Cut())


def test_choices_of_another_task_are_refused():
    with pytest.raises(ValueError, match="choices of cutting must be a Cut, got 3"):
        choices_for(Cutting, 3)


def test_the_command_line_offers_them_beside_the_rest():
    told = parse(
        with_choices(Train, Cut), ["--cut", "long", "--size", "small", "--epochs", "2"], "twofold train cutting"
    )
    assert (told.choices, told.model.size, told.settings.epochs) == (Cut(cut="long"), "small", 2.0)
    assert told.out == Path("runs")


def test_help_explains_them(capsys):
    with pytest.raises(SystemExit):
        parse(with_choices(Train, Cut), ["--help"], "twofold train cutting")
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "--cut {short,long}" in text
    assert "How long pieces are." in text
    assert "the embedded set unless given" in text


def test_a_mistaken_choice_is_one_line():
    with pytest.raises(ValueError, match="cut") as caught:
        parse(with_choices(Train, Cut), ["--cut", "sideways"], "twofold train cutting")
    assert "\n" not in str(caught.value)
