"""`twofold compare --pool`: several comparisons together."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab import made_up
from twofold.cli import main
from twofold.lab.records import append
from twofold.lab.registration import register
from twofold.lab.statistics import standardised_effect, t_interval

SPLIT = "split_kv matched"


@pytest.fixture
def folder(tmp_path):
    """A finished comparison whose pairs differ by so much; `gains` has one number a seed, and above zero is better."""

    def make(name, gains, primary=((SPLIT, "standard"),), lower=True, missing=0, exploratory=False):
        plan = made_up.plan(
            experiment=name,
            primary=primary,
            arms=("standard", SPLIT),
            budgets=(1000,),
            lower_is_better=lower,
            exploratory=exploratory,
        )
        out = tmp_path / name
        out.mkdir()
        register(plan, out)
        for key in plan.grid():
            append(out / "records.jsonl", _record(plan, key, 2.0 + (1 if lower else -1) * abs(key.lr - plan.lrs[1])))
        for seed, gain in list(enumerate(gains))[missing:]:
            for arm, add in (("standard", 0.0), (SPLIT, -gain if lower else gain)):
                key = replace_key(plan, arm, seed)
                append(out / "records.jsonl", _record(plan, key, 2.0 + seed / 7 + add))
        return out

    return make


def replace_key(plan, arm, seed):
    rates = {(arm, 1000): plan.lrs[1] for arm in plan.arms}
    return next(key for key in plan.finals(rates) if (key.arm, key.seed) == (arm, seed))


def _record(plan, key, value):
    made = made_up.record(key.arm, key.seed, key.lr, key.budget, key.phase, value=value, curve=())
    return replace(made, experiment=plan.experiment)


ONE = [0.03, 0.02, 0.04, 0.03, 0.025, 0.035, 0.03, 0.02]
TWO = [0.1, -0.2, 0.3, 0.1, 0.0, -0.1, 0.2, 0.1]


def test_effects_are_gains_whichever_way_is_better_and_their_mean_has_an_interval(folder, capsys):
    folders = [folder("one", ONE), folder("two", TWO, lower=False)]
    assert main(["compare", "--pool", *map(str, folders), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    expected = [standardised_effect(ONE), standardised_effect(TWO)]
    assert [one["effect"] for one in told["comparisons"]] == pytest.approx(expected)
    assert [one["gain"] for one in told["comparisons"]] == pytest.approx([sum(ONE) / 8, sum(TWO) / 8])
    found = t_interval(expected)
    assert told["pooled"] == pytest.approx(
        {"effect": found.mean, "low": found.low, "high": found.high, "experiments": 2}
    )
    assert main(["compare", "--pool", *map(str, folders)]) == 0
    said = capsys.readouterr().out
    assert "undecided" in said
    assert f"over 2 experiments: {found.mean:+.2f} standard deviations" in said


def test_what_was_not_judged_is_left_out_and_told(folder, capsys):
    folders = [folder("one", ONE), folder("two", TWO), folder("half", ONE, missing=3)]
    assert main(["compare", "--pool", *map(str, folders)]) == 0
    said = capsys.readouterr().out
    assert "not judged, left out" in said
    assert "over 2 experiments" in said


def test_brackets_in_a_name_are_just_brackets(folder, capsys):
    folders = [folder("one", ONE), folder("x [bold] y", TWO)]
    assert main(["compare", "--pool", *map(str, folders)]) == 0
    assert "x [bold] y" in capsys.readouterr().out


def test_what_claims_nothing_is_left_out(folder, capsys):
    folders = [folder("one", ONE), folder("two", TWO), folder("around", ONE, exploratory=True)]
    assert main(["compare", "--pool", *map(str, folders)]) == 0
    said = capsys.readouterr().out
    assert "exploratory, left out" in said
    assert "over 2 experiments" in said


def test_it_does_not_care_what_is_called_lab(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / "lab").write_text("a file", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "--pool", str(folder("one", ONE)), str(folder("two", TWO))]) == 0


def copied(folder):
    return Path(shutil.copytree(folder, folder.with_name("copy")))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: [one := folder("one", ONE), copied(one)], "names a folder and its copy"),
        (lambda folder: [folder("one", ONE), folder("flat", [0.5] * 8)], "flat: differences must differ"),
        (lambda folder: [folder("one", ONE)], "needs at least two comparisons that can be judged, got 1"),
        (lambda folder: [folder("one", ONE)] * 2, "names a folder twice"),
        (
            lambda folder: [folder("one", ONE), folder("two", TWO, primary=(("standard", SPLIT),))],
            "must be of comparisons of the same two arms, got",
        ),
        (lambda folder: [folder("one", ONE), folder("two", TWO).parent], "nothing was registered there"),
    ],
)
def test_what_cannot_be_pooled_is_one_line(folder, capsys, make, said):
    assert main(["compare", "--pool", *map(str, make(folder))]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_it_compares_nothing_itself(folder, capsys):
    assert main(["compare", "lm", "--pool", str(folder("one", ONE))]) == 2
    assert "--pool takes runs that are there: leave out lm" in capsys.readouterr().err


def test_names_do_not_command_the_terminal(folder, capsys):
    """A plan may be anybody's."""
    folders = [folder("one", ONE), folder("\x1b]0;two\x07", TWO)]
    assert main(["compare", "--pool", *map(str, folders)]) == 0
    assert main(["compare", "--report", str(folders[1])]) == 0
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert "\ufffd]0;two\ufffd" in said.out
