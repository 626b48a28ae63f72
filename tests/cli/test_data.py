"""`twofold data`: what it shows, as text and as JSON, and what it writes."""

import json
import re
from pathlib import Path

import pytest

from twofold.cli import main

CSV = "text,intent\nfly to Rome,go\nfly to Rome,stop\nhi,oos\n"


@pytest.fixture
def table(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    return tmp_path / "a.csv"


def test_for_people(table, capsys):
    assert main(["data", str(table)]) == 0
    shown = capsys.readouterr().out
    for line in (
        "examples: 3 train, 0 dev, 0 test",
        "labels: 2",
        "  go: 1 train",
        "  'hi': out of scope",
        "texts with different labels: 1",
        "  'fly to Rome': go (1), stop (1)",
        "labels with few examples in train: go (1), stop (1)",
    ):
        assert line in shown.splitlines()


def test_for_programs_and_written(table, tmp_path, capsys):
    assert main(["data", str(table), "--json", "--write", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == {"train": 3, "dev": 0, "test": 0}
    lines = (tmp_path / "out" / "train.jsonl").read_text().splitlines()
    assert json.loads(lines[2]) == {"text": "hi", "goal": None}


def test_nothing_is_overwritten(table, tmp_path, capsys):
    assert main(["data", str(table), "--write", str(tmp_path)]) == 2
    assert "write must be a new folder" in capsys.readouterr().err


def test_what_cannot_be_read(tmp_path, capsys):
    assert main(["data", str(tmp_path / "nowhere")]) == 2
    assert "nowhere: no such file" in capsys.readouterr().err


def test_the_example_of_the_page(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    (tmp_path / "nlu.yml").write_text(re.search(r"```yaml\n# nlu.yml\n(.*?)```", page, re.DOTALL)[1])
    command, *expected = re.search(r"    \$ twofold (data nlu.yml.*?)\n\n", page, re.DOTALL)[1].split("\n")
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 0
    assert capsys.readouterr().out.splitlines() == [line[4:] for line in expected]
