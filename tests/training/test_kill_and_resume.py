"""The short version of examples/kill_and_resume.py."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "examples" / "kill_and_resume.py"


def test_a_few_kills():
    command = [sys.executable, SCRIPT, "--kills", "6", "--longest", "0.4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.startswith("6 kills (")
    runs = done.stdout.splitlines()[-1].split()
    assert runs[0] == runs[2] != "0"
