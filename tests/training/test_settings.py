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
    ("name", "value"),
    [
        ("epochs", 0),
        ("epochs", float("nan")),
        ("epochs", 1e300),
        ("steps", 0),
        ("batch_size", -1),
        ("batch_size", "32"),
        ("batch_tokens", 2**40),
        ("accumulate", 0),
        ("learning_rate", float("inf")),
        ("learning_rate", 1e300),
        ("warmup", 1.5),
        ("final_rate", -0.1),
        ("label_smoothing", 1.1),
        ("weight_decay", -1),
        ("weight_decay", float("inf")),
        ("betas", (0.9, 1.0)),
        ("betas", (0.9,)),
        ("clip", 0.0),
        ("patience", 0),
        ("keep", True),
        ("save_seconds", 0),
        ("seed", -1),
        ("seed", 2**64),
        ("workers", -1),
        ("schedule", "step"),
        ("precision", "fp16"),
        ("distribution", "dp"),
        ("report_to", "paper"),
    ],
)
def test_what_cannot_be_is_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be "):
        Settings(**{name: value})


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
