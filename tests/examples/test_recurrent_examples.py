"""The experiments with recurrent models, in small: their labels and measures are right, and they learn."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def cells():
    spec = importlib.util.spec_from_file_location("interpretable_cells", EXAMPLES / "interpretable_cells.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOURCE = """\
def f(a):
    if a == "x y":  # naïve \x0c 日本
        return [g(a), {1: 2}]
    elif (a
          if a else b):
        pass
x = f"a{b}c"
"""
LABELS = {
    "quote": """\
000000000
00000000000011110000000000000000
00000000000000000000000000000
00000000000
00000000000000000000000
000000000000
000011111110
""",
    "comment": """\
000000000
00000000000000000000111111111111
00000000000000000000000000000
00000000000
00000000000000000000000
000000000000
000000000000
""",
    "if": """\
000000000
00000011111111111000000000000000
00000000000000000000000000000
00000000111
11111111111111111111110
000000000000
000000000000
""",
    "brackets": """\
000001100
00000000000000000000000000000000
00000000000000011221112222210
00000000011
11111111111111111111100
000000000000
000000000000
""",
    "indent": """\
000000000
00001111111111111111111111111111
11111111222222222222222222222
22221111111
11111111111111111111111
111111112222
000000000000
""",
}


@pytest.mark.parametrize("name", LABELS)
def test_every_character_is_labelled(cells, name):
    found = cells.labelled(SOURCE)[name].tolist()
    # What a line's end is labelled is left out here.
    shown = "".join("\n" if character == "\n" else str(label) for character, label in zip(SOURCE, found, strict=True))
    assert shown == LABELS[name]


def test_columns_and_characters(cells):
    assert cells.labelled("ab\n\nc\n")["column"].tolist() == [0, 1, 2, 0, 0, 1]
    assert cells.encoded("\n~é").tolist() == [4, 4 + 96, 3]
    assert all(len(label) == 0 for label in cells.labelled("").values())


def test_auroc_is_the_share_of_pairs_in_order(cells):
    values, truth = torch.randint(0, 9, (3, 60)).float(), torch.rand(60) < 0.3
    found = cells.auroc(cells.ranks(values), truth)
    above = values[:, truth, None] - values[:, None, ~truth]
    expected = ((above > 0).double() + (above == 0) / 2).mean((1, 2))
    torch.testing.assert_close(found, expected)


def test_a_line_explains_what_it_should(cells):
    x = torch.randn(2, 50, dtype=torch.float64)
    y = 3 * x[0] - 2
    slope, height = cells.line(x, y)
    torch.testing.assert_close((slope[0].item(), height[0].item()), (3.0, -2.0))
    found = cells.explained(x, y, slope, height)
    torch.testing.assert_close(found[0].item(), 1.0)
    torch.testing.assert_close(found[1].item(), torch.corrcoef(torch.stack([x[1], y]))[0, 1].item() ** 2)


def test_cells_are_found_and_scored_on_other_files(cells, monkeypatch, capsys):
    options = "--characters 40000 --held-out 20000 --hidden 32 --steps 60 --width 500 --watched 15 --warm-up 50 --json"
    monkeypatch.setattr(sys, "argv", ["interpretable_cells.py", *options.split()])
    cells.main()
    found = json.loads(capsys.readouterr().out)
    # Less than a uniform guess among 101 characters needs, by far.
    assert found["bits_per_character"] < 5
    assert set(found["trained"]) == set(found["untrained"])
    assert {"quote", "comment", "if", "brackets > 0", "indent > 1", "column"} < set(found["trained"])
    # A line's place is the easiest to know, even here.
    assert found["trained"]["column"]["score"] > 0.1


def test_reversing_from_the_command_line():
    command = [sys.executable, EXAMPLES / "copy_and_reverse.py", "--tasks", "reverse", "--arms", "additive", "--json"]
    small = ["--length", "4", "--steps", "100", "--hidden", "32", "--seeds", "1", "--tests", "100", "--workers", "1"]
    done = subprocess.run([*command, *small], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["runs"]
    assert (found["task"], found["arm"], found["seed"]) == ("reverse", "additive", 0)
    # A tenth is what guessing gives.
    assert found["tokens"] > 0.8
