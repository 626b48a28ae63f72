"""Settings refuse what cannot be trained with, and a resumed run that would be another."""

import ast
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import pytest

from twofold.training.settings import FREE_ON_RESUME, Settings
from twofold.training.settings import __file__ as settings_file


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs must be above 0 and finite, got 0"),
        ({"epochs": float("nan")}, "epochs must be above 0 and finite, got nan"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"batch_size": -1}, "batch_size must be at least 1, got -1"),
        ({"batch_tokens": 0}, "batch_tokens must be at least 1, got 0"),
        ({"accumulate": 0}, "accumulate must be at least 1, got 0"),
        ({"learning_rate": float("inf")}, "learning_rate must be above 0 and finite, got inf"),
        ({"warmup": 1.5}, "warmup must be between 0 and 1, got 1.5"),
        ({"final_rate": -0.1}, "final_rate must be between 0 and 1, got -0.1"),
        ({"label_smoothing": 1.1}, "label_smoothing must be between 0 and 1, got 1.1"),
        ({"weight_decay": -1}, "weight_decay must be between 0 and inf, got -1"),
        ({"betas": (0.9, 1.0)}, r"betas must be two numbers from 0 to below 1, got \(0.9, 1.0\)"),
        ({"clip": 0.0}, "clip must be above 0 and finite, got 0.0"),
        ({"patience": 0}, "patience must be at least 1, got 0"),
        ({"keep": 0}, "keep must be at least 1, got 0"),
        ({"save_seconds": 0}, "save_seconds must be above 0 and finite, got 0"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"workers": -1}, "workers must be at least 0, got -1"),
        ({"schedule": "step"}, "schedule must be one of cosine, linear, constant, got 'step'"),
        ({"precision": "fp16"}, "precision must be one of auto, fp32, bf16, got 'fp16'"),
        ({"distribution": "dp"}, "distribution must be one of auto, none, ddp, fsdp, got 'dp'"),
        ({"report_to": "paper"}, "report_to must be one of none, tensorboard, trackio, got 'paper'"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Settings(**changes)


def test_settings_never_change():
    with pytest.raises(FrozenInstanceError):
        Settings().epochs = 3


def test_a_run_goes_on_with_the_settings_that_decide_its_steps():
    began = Settings(batch_size=8, betas=(0.9, 0.95))
    replace(began, keep=5, save_steps=1, precision="bf16", workers=2).check_same_run(began.as_json())
    with pytest.raises(ValueError, match=r"batch_size must stay as it was .* to resume it: 8, got 16"):
        replace(began, batch_size=16).check_same_run(began.as_json())


def test_a_run_goes_on_that_began_before_there_was_a_setting():
    before = Settings().as_json()
    del before["label_smoothing"]
    Settings().check_same_run(before)
    with pytest.raises(ValueError, match=r"label_smoothing must stay as it was .* to resume it: 0.0, got 0.1"):
        Settings(label_smoothing=0.1).check_same_run(before)


def test_what_may_change_exists():
    assert {field.name for field in fields(Settings)} >= FREE_ON_RESUME


def test_every_setting_explains_itself(capsys):
    import tyro

    with pytest.raises(SystemExit):
        tyro.cli(Settings, args=["--help"])
    said = capsys.readouterr().out
    # tyro repeats what stands below a field, and ends with its default.
    assert said.count("(default:") >= len(fields(Settings)) - 1
    assert all(f"--{field.name.replace('_', '-')}" in said for field in fields(Settings))
    (settings,) = [node for node in ast.parse(Path(settings_file).read_text()).body if isinstance(node, ast.ClassDef)]
    body = [node for node in settings.body[1:] if not isinstance(node, ast.FunctionDef)]
    assert [type(node) for node in body] == [ast.AnnAssign, ast.Expr] * len(fields(Settings))


def test_settings_are_read_without_torch():
    code = "import sys; from twofold.training import Settings; Settings(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_are_found_whatever_comes_first():
    """No name of the package is that of a module in it: importing the module would hide it."""
    import twofold.training

    homes = {path.stem for path in Path(twofold.training.__file__).parent.glob("*.py")}
    assert not homes & set(twofold.training.__all__)
    assert all(getattr(twofold.training, name) for name in twofold.training.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        twofold.training.nothing  # noqa: B018
