"""Two processes give the curve of one, and their checkpoints are each other's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.training import tiny
from tests.training.test_resume import At, Crash, crash
from twofold.models import DecoderForCausalLM
from twofold.training import is_finished

SCRIPT = Path(__file__).with_name("two_processes.py")
# Every process drops out something else, so what is compared drops nothing.
CONFIG = {"hidden_dropout": 0.0}
SMOOTH = {"label_smoothing": 0.2, "steps": 3}
FEW = {"batch_size": 1, "steps": 3, "evaluate_steps": None}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """All that two processes do here, in one start of them, because starting takes longer than training."""
    folder = tmp_path_factory.mktemp("runs")
    tiny.train(folder / "alone", model=tiny.model(**CONFIG))
    jobs = []

    def two(name, changes, **options):
        jobs.append({"folder": str(folder / name), "changes": changes, "config": CONFIG, **options})

    for how in ("ddp", "fsdp"):
        changes = {"distribution": how, "accumulate": 2, "save_steps": None}
        two(f"{how} stopped", changes, stop=3)
        two(f"{how} resumed", changes, stop=3)
        two(f"{how} resumed", changes, resume=True)
        with pytest.raises(Crash):
            tiny.train(folder / f"{how} there and back", model=tiny.model(**CONFIG), progress=At(3, crash))
        two(f"{how} there and back", {"distribution": how}, stop=6, resume=True)
        two(f"{how} smoothed", {**SMOOTH, **changes}, kind="copier")
    two("few", FEW)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, SCRIPT, json.dumps(jobs)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def same_curve(folder, other):
    for kind, names in (("step", ("loss", "gradient_norm")), ("evaluation", ("loss",))):
        ours, theirs = tiny.curve(folder, kind), tiny.curve(other, kind)
        assert [line["step"] for line in ours] == [line["step"] for line in theirs]
        for name in names:
            assert [line[name] for line in ours] == pytest.approx([line[name] for line in theirs], abs=2e-5)
    assert [line["tokens"] for line in tiny.curve(folder)] == [line["tokens"] for line in tiny.curve(other)]


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_a_signal_to_one_stops_both(how, runs):
    folder = runs / f"{how} stopped"
    assert not is_finished(folder)
    assert [path.name for path in (folder / "checkpoints").glob("step-*")] == ["step-000000004"]


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_two_processes_are_one(how, runs):
    """37 examples in batches of 8, in 2 pieces: the last batch has 5, and lengths differ, so shares are uneven."""
    folder = runs / f"{how} resumed"
    same_curve(folder, runs / "alone")
    for name, tensor in tiny.weights(folder).items():
        torch.testing.assert_close(tensor, tiny.weights(runs / "alone")[name], atol=1e-3, rtol=0)
    assert DecoderForCausalLM.from_pretrained(folder).config.architectures == ["DecoderForCausalLM"]


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_two_go_on_where_one_ended_and_back(how, runs):
    folder = runs / f"{how} there and back"
    assert (folder / "checkpoints" / "step-000000007").exists()
    tiny.train(folder, model=tiny.model(**CONFIG), resume=True)
    same_curve(folder, runs / "alone")


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_smoothed_labels_are_those_of_one_process(how, runs, tmp_path):
    tiny.train(tmp_path, model=tiny.copier(**CONFIG), changes=SMOOTH)
    same_curve(runs / f"{how} smoothed", tmp_path)


def test_fewer_examples_than_processes(runs, tmp_path):
    """One example for two processes: the other computes a stand-in that does not count."""
    tiny.train(tmp_path, model=tiny.model(**CONFIG), changes=FEW)
    same_curve(runs / "few", tmp_path)


def test_torchrun_cannot_be_ignored(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"distribution with 2 process\(es\) must be auto, ddp or fsdp, got 'none'"):
        tiny.train(tmp_path, changes={"distribution": "none"})


def test_a_missing_gpu_is_named(tmp_path):
    if torch.cuda.is_available():
        tiny.train(tmp_path, changes={"device": "cuda"})
        return
    with pytest.raises(ValueError, match="device must be cpu or auto where torch sees no GPU, got 'cuda'"):
        tiny.train(tmp_path, changes={"device": "cuda"})
