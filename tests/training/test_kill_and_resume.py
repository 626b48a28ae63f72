"""examples/kill_and_resume.py: a few kills, and many where there is time."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "kill_and_resume.py"


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.long)])
def test_what_is_killed_and_resumed_is_the_same(kills):
    command = [sys.executable, SCRIPT, "--kills", str(kills), "--longest", "0.4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.startswith(f"{kills} kills (")
    runs = done.stdout.splitlines()[-1].split()
    assert runs[0] == runs[2] != "0"
