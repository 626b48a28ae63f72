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
    monkeypatch.delenv("TWOFOLD_COMMIT", raising=False)
    monkeypatch.setattr(subprocess, "run", listening)
    yield commands
    machine._commit.cache_clear()


def test_the_commit_is_read_once(asked):
    first = machine.machine(torch.device("cpu"))
    count = len(asked)
    assert count > 0
    assert machine.machine(torch.device("cpu"))["commit"] == first["commit"]
    assert len(asked) == count


def test_whoever_took_a_copy_says_of_which_commit(asked, monkeypatch):
    monkeypatch.setenv("TWOFOLD_COMMIT", "0123456789ab")
    assert machine.machine(torch.device("cpu"))["commit"] == "0123456789ab"
    assert not asked
