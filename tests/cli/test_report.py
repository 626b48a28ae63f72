"""`twofold compare --report`: what a folder's runs say, without another run."""

import json

import pytest

from tests.lab import made_up
from twofold.cli import main
from twofold.lab.records import append
from twofold.lab.registration import register


@pytest.fixture
def folder(tmp_path):
    """A comparison whose grid is done and of which nothing is compared yet."""
    plan = made_up.plan()
    register(plan, tmp_path)
    for key in plan.grid():
        append(tmp_path / "records.jsonl", made_up.record(*key[2:5], key.budget, key.phase, value=2.0, curve=()))
    return tmp_path


def test_an_unfinished_comparison_has_a_report_and_no_verdict(folder, capsys):
    before = (folder / "records.jsonl").read_bytes()
    assert main(["compare", "--report", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "not judged: 0 of" in told
    assert "runs are missing" in told
    assert "not judged" in (folder / "report.md").read_text(encoding="utf-8")
    assert "<svg" in (folder / "report.html").read_text(encoding="utf-8")
    assert (folder / "records.jsonl").read_bytes() == before
    assert main(["compare", "--report", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["runs"] == len(made_up.plan().grid())
    assert all(sentence.startswith("not judged") for sentence in told["verdicts"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lm", "--report", "."], "--report takes runs that are there: leave out lm"),
        (["--report", ".", "--seeds=4", "--out", "x"], "leave out --out, --seeds"),
        (["--report", ".", "--pool", "."], "--pool takes runs that are there: leave out --report"),
        (["--report", "nowhere"], "nothing was registered there"),
    ],
)
def test_what_has_no_report_is_one_line(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
