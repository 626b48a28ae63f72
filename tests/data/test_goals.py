"""The embedded goal set: enough of it, right slots, splits that keep apart, neither trivial nor hopeless."""

import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from twofold.data.assistant.numbers import calendar_date, day, duration, ordinal, spell, time
from twofold.data.content import lines
from twofold.data.examples import Slot, Splits, Utterance
from twofold.data.goals import LEXICON, OUTSIDE, OUTSIDE_LEXICON, TEMPLATES, goals, wordings_of
from twofold.data.grammar import kinds_of, letters_and_digits, portion, seeded

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def splits():
    return goals()


def every(splits):
    return splits.train + splits.dev + splits.test


def test_enough_goals_and_slots(splits):
    assert len(TEMPLATES) >= 30
    assert {utterance.goal for utterance in splits.train} == {*TEMPLATES, None}
    assert len({slot.name for utterance in splits.train for slot in utterance.slots}) >= 25
    assert (len(splits.train), len(splits.dev), len(splits.test)) == (7000, 1000, 1500)
    assert splits.missing == ()


def test_every_goal_is_equally_common(splits):
    counts = Counter(utterance.goal for utterance in splits.train)
    outside = counts.pop(None)
    assert 0.10 < outside / len(splits.train) < 0.14
    assert max(counts.values()) < 1.6 * min(counts.values())


def test_dev_and_test_ask_for_nothing_that_train_lacks(splits):
    known = {slot.name for utterance in splits.train for slot in utterance.slots}
    assert {slot.name for utterance in splits.dev + splits.test for slot in utterance.slots} <= known


def test_nothing_is_said_twice(splits):
    said = Counter(letters_and_digits(utterance.text) for utterance in every(splits))
    assert said.most_common(1)[0][1] == 1


def test_out_of_scope_has_no_slots(splits):
    assert all(not utterance.slots for utterance in every(splits) if utterance.goal is None)


@pytest.mark.parametrize("kind", ["contact", "song", "item", "city", "message", "time", "duration", "date"])
def test_open_values_of_test_are_new(splits, kind):
    def values(utterances):
        found = [u for u in utterances if u.goal is not None]
        return {letters_and_digits(u.value(slot)) for u in found for slot in u.slots if slot.name == kind}

    # A typing error makes one value out of another now and then.
    old, new = values(splits.train), values(splits.test)
    assert len(new) > 1
    assert len(old & new) <= 0.03 * len(new)


@pytest.mark.parametrize("goal", TEMPLATES)
def test_wordings_keep_apart(goal):
    """Also from a wording that differs only in whether something polite may go around it."""
    parts = [{line.removeprefix("- ") for line in portion(wordings_of(goal), s)} for s in ("train", "dev", "test")]
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]


def test_no_two_goals_share_a_wording():
    counts = Counter(wording.removeprefix("- ") for goal in TEMPLATES for wording in wordings_of(goal))
    assert counts.most_common(1)[0][1] == 1


def test_every_template_can_be_said():
    for goal in TEMPLATES:
        assert set().union(*map(kinds_of, wordings_of(goal))) <= set(LEXICON.sources)
    for table in ("every_split", "dev_only", "test_only"):
        for family in OUTSIDE[table].values():
            assert set().union(*map(kinds_of, lines(family))) <= set(OUTSIDE_LEXICON.sources)


def test_seeds():
    assert goals(seed=3, train=200, dev=20, test=20) == goals(seed=3, train=200, dev=20, test=20)
    assert goals(seed=3, train=200, dev=20, test=20) != goals(seed=4, train=200, dev=20, test=20)


def test_variety(splits):
    texts = [utterance.text for utterance in splits.train]
    assert any(text.isupper() for text in texts)
    assert sum(text == text.lower() for text in texts) > 0.4 * len(texts)
    assert sum(text.endswith("?") for text in texts) > 200
    assert sum(text[:5].casefold() in ("could", "pleas", "would") for text in texts) > 300
    assert any(not text.isascii() for text in texts)


@pytest.mark.parametrize("name", ["train", "dev", "test"])
def test_sizes_below_nothing(name):
    with pytest.raises(ValueError, match=f"{name} must be 0 or more, got -1"):
        goals(**{name: -1})


def test_a_grammar_that_runs_dry(monkeypatch):
    monkeypatch.setattr("twofold.data.goals.wordings_of", lambda goal: ["- a", "- b", "- c"])
    monkeypatch.setattr("twofold.data.goals.written", lambda spoken, rng: spoken)
    with pytest.raises(ValueError, match="train must be smaller: goals has fewer than 100 different examples"):
        goals(train=100)


def test_missing_splits_are_named():
    assert goals(train=5, dev=0, test=0).missing == ("dev", "test")
    assert Splits([], [], []).missing == ("train", "dev", "test")


def script(name):
    path = ROOT / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ([Slot("a", 0, 99)], r"slot 'a' is 0:99, empty or outside of 11 characters"),
        ([Slot("a", 3, 3)], "is 3:3, empty"),
        ([Slot("a", -1, 3)], "outside"),
        ([Slot("a", 0, 6)], "'hello ', which begins or ends with a space"),
        ([Slot("a", 0, 5), Slot("b", 4, 5)], "slot 'b' at 4:5 overlaps"),
    ],
)
def test_slots_are_checked(slots, message):
    with pytest.raises(ValueError, match=message):
        Utterance("hello there", "greet", tuple(slots))


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (40, "forty"),
        (72, "seventy-two"),
        (100, "one hundred"),
        (305, "three hundred and five"),
        (1234, "one thousand two hundred and thirty-four"),
        (9001, "nine thousand and one"),
    ],
)
def test_spelling(number, said):
    assert spell(number) == said


@pytest.mark.parametrize("number", [-1, 10000])
def test_numbers_that_cannot_be_spelt(number):
    with pytest.raises(ValueError, match=f"between 0 and 9999, got {number}"):
        spell(number)


def test_ordinals():
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23)] == (
        ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd"]
    )


def test_times_and_dates_come_in_many_forms():
    rng = seeded(0)
    times = {time(rng) for _ in range(20000)}
    assert {"ten", "half past six", "quarter to nine", "7 pm", "10:30"} <= times
    dates = {calendar_date(rng) for _ in range(20000)} | {day(rng) for _ in range(500)}
    assert {"tomorrow", "next Friday", "the 3rd of May", "2026-05-03", "Friday"} <= dates
    assert {"half an hour", "ten minutes"} <= {duration(rng) for _ in range(3000)}


def test_the_page_says_what_the_command_prints(splits):
    figures = script("goal_set").counts(splits)
    page = (ROOT / "docs" / "data.md").read_text()
    assert f"| goals | {figures['goals']} |" in page
    assert f"| slots | {figures['slots']} |" in page
    assert f"{figures['templates']}, which stand for {figures['wordings']} wordings |" in page
    assert f"| {figures['slot values of test that train never has'].replace('%', ' %')} |" in page


def test_goals_and_readers_need_no_torch():
    code = "import sys, twofold.data.goals, twofold.data.readers, twofold.data.hub; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "False", done.stderr
