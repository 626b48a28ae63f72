"""Two processes on one machine: tensor parallel by transformers' plan, and FSDP2, of every family."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.test_every_family import FAMILIES

SCRIPT = Path(__file__).with_name("two_processes.py")


@pytest.mark.parametrize("how", ["tensor", "fsdp"])
def test_two_processes_agree_with_one(how, tmp_path):
    for family, build in FAMILIES.items():
        build(num_key_value_heads=2).save_pretrained(tmp_path / family)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*command, SCRIPT, tmp_path, how], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
