"""What a results file says of where it was measured."""

import subprocess

import pytest
import torch

from twofold import machine


@pytest.fixture
def asked(monkeypatch):
    """What git is asked, once nothing is known of it any more."""
    commands, run = [], subprocess.run

    def listening(command, **options):
        commands.append(command)
        return run(command, **options)

    machine._commit.cache_clear()
    monkeypatch.setattr(subprocess, "run", listening)
    return commands


def test_the_commit_is_read_once(asked):
    first = machine.machine(torch.device("cpu"))
    count = len(asked)
    assert count > 0
    assert machine.machine(torch.device("cpu"))["commit"] == first["commit"]
    assert len(asked) == count
