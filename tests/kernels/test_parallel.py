"""Two processes on one machine: what DDP and FSDP2 make of the layers."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("two_processes.py")


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_two_processes_agree_with_one(how):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", SCRIPT, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
