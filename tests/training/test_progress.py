"""Bars, plain lines, and curves for other programs."""

import io
import sys
import types

import pytest
from rich.console import Console

from tests.training import tiny
from twofold.training import Bar
from twofold.training.progress import Progress, Step


def test_lines_where_there_is_no_terminal(tmp_path):
    said = io.StringIO()
    tiny.train(tmp_path, progress=Bar("goals", Console(file=said)))
    lines = said.getvalue().splitlines()
    assert lines[0].startswith("goals: step 1 of 10  loss 2.")
    assert "rate 1.0e-02" in lines[0]
    assert "tokens/s" in lines[0]
    assert "goals: step 3  loss 2." in said.getvalue()
    assert "\x1b" not in said.getvalue()


def test_a_bar_on_a_terminal(tmp_path):
    said = io.StringIO()
    tiny.train(tmp_path, progress=Bar("goals", Console(file=said, force_terminal=True, width=120)))
    assert "10/10" in said.getvalue()
    assert "loss 2." in said.getvalue()


def test_odd_names_are_no_markup():
    said = io.StringIO()
    bar = Bar("[red]x", Console(file=said))
    bar.note("[bold]runs/[/]")
    assert said.getvalue() == "[red]x: [bold]runs/[/]\n"


def test_without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(ValueError, match=r"rich is not installed: pip install '\.\[cli\]' .* a progress bar needs it"):
        Bar()


def test_silence_is_a_progress(capsys):
    nobody: Progress = Progress()
    nobody.started(1, 0)
    step = Step(
        step=1,
        total=1,
        epoch=1.0,
        loss=1.0,
        learning_rate=1.0,
        gradient_norm=1.0,
        largest_gradient_norm=2.0,
        tokens=1,
        seconds=1.0,
    )
    nobody.step(step)
    nobody.evaluated(1, {})
    nobody.note("nothing")
    nobody.finished()
    assert capsys.readouterr() == ("", "")


def test_curves_go_to_tensorboard(tmp_path, monkeypatch):
    logged = []

    class SummaryWriter:
        def __init__(self, folder, purge_step):
            logged.append((folder, purge_step))

        def add_scalar(self, name, value, step):
            logged.append((name, value, step))

        def close(self):
            logged.append("closed")

    fake = types.SimpleNamespace(SummaryWriter=SummaryWriter)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    tiny.train(tmp_path, changes={"report_to": "tensorboard"})
    assert logged[0] == (str(tmp_path / "tensorboard"), 1)
    assert logged[-1] == "closed"
    loss = [value for name, value, _ in logged[1:-1] if name == "step/loss"]
    assert loss == [line["loss"] for line in tiny.curve(tmp_path)]
    assert [step for name, _, step in logged[1:-1] if name == "evaluation/loss"] == [3, 6, 9, 10]


def test_curves_go_to_trackio(tmp_path, monkeypatch):
    logged = []

    class Run:
        def log(self, numbers, step):
            logged.append((step, numbers))

        def finish(self):
            logged.append("finished")

    def init(project, name, config, resume):
        logged.append((project, name, config["batch_size"], resume))
        return Run()

    monkeypatch.setitem(sys.modules, "trackio", types.SimpleNamespace(init=init))
    tiny.train(tmp_path, changes={"report_to": "trackio"})
    assert logged[0] == ("twofold", tmp_path.name, 8, "allow")
    assert logged[-1] == "finished"
    assert logged[1][0] == 1
    assert "step/loss" in logged[1][1]


@pytest.mark.parametrize("name", ["tensorboard", "trackio"])
def test_what_is_missing_is_named(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(ValueError, match=rf"report_to {name} needs {name}, .*: pip install '\.\[{name}\]'"):
        tiny.train(tmp_path, changes={"report_to": name})
