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


def test_what_changes_beside_the_code_is_no_other_code(tmp_path, monkeypatch):
    """Records that grow in the repository while runs are made, say."""
    package = tmp_path / "src" / "twofold"
    package.mkdir(parents=True)
    (package / "machine.py").write_text("")
    (tmp_path / "records.jsonl").write_text("")
    who = ["-c", "user.name=one", "-c", "user.email=one@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    monkeypatch.setattr(machine, "__file__", str(package / "machine.py"))
    monkeypatch.delenv("TWOFOLD_COMMIT", raising=False)

    def told():
        machine._commit.cache_clear()
        machine._code.cache_clear()
        return machine._commit(), machine._code()

    try:
        commit, code = told()
        (tmp_path / "records.jsonl").write_text("a line\n")
        assert told() == (commit, code)
        (package / "machine.py").write_text("a line\n")
        assert told()[0] == f"{commit}+"
        assert told()[1] != code
    finally:
        machine._commit.cache_clear()
        machine._code.cache_clear()
