"""`torchrun ... twofold train goals` gives the losses of `twofold train goals`, and says nothing else."""

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tests.training import tiny
from twofold.cli import main
from twofold.tasks import goals, hiding

ROOT = Path(__file__).parents[2]
# Not imported here: it changes what it imports.
WITHOUT_CHANCE = "tests.cli.without_chance"
ROOMS, TIMES = ("kitchen", "bedroom", "garage", "hall"), ("noon", "ten", "six", "dawn")


def utterances():
    """All of four words: parts of a batch have as many labels, so that the loss over slots is the same in parts too."""
    for room, time in product(ROOMS, TIMES):
        yield {"text": f"lights off in {room}", "goal": "lights_off", "slots": [{"name": "room", "value": room}]}
        yield {"text": f"wake me at {time}", "goal": "alarm_set", "slots": [{"name": "time", "value": time}]}
        yield {"text": f"is {room} tidy {time}", "goal": None}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("goals")
    lines = [json.dumps(one) + "\n" for one in utterances()]
    for name, part in (("train", lines), ("dev", lines[:12]), ("test", lines[:12])):
        (folder / f"{name}.jsonl").write_text("".join(part), encoding="utf-8")
    return folder


def words(data, out, *more):
    given = ["train", "goals", "--data", str(data), "--out", str(out), "--steps", "4", "--batch-size", "12", *more]
    return [*given, "--dropout", "0", "--log-steps", "1", "--evaluate-steps", "2", "--device", "cpu", "--json"]


@pytest.fixture(scope="module")
def alone(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("alone") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(goals, "SUBSTITUTED", 0.0)
        for name in ("HIDDEN_WHOLLY", "HIDDEN_WORDS", "HIDDEN_FEATURES"):
            patch.setattr(hiding, name, 0.0)
        assert main(words(data, out)) == 0
    return out


def by_two(module, *words):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    # torchrun says something by itself where nobody chose the number of threads.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*torchrun, "-m", module, *words],
        capture_output=True, text=True, timeout=240, check=False, cwd=ROOT, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_two_processes_have_the_losses_of_one(how, data, alone, tmp_path):
    out = tmp_path / "run"
    done = by_two(WITHOUT_CHANCE, *words(data, out, "--distribution", how))
    assert "Warning" not in done.stderr
    # One of both tells, and in one line.
    told = json.loads(done.stdout)
    assert (told["task"], told["steps"]) == ("goals", 4)
    for kind, names in (("step", ("loss", "gradient_norm")), ("evaluation", ("goal_accuracy", "calibration_error"))):
        ours, theirs = tiny.curve(out, kind), tiny.curve(alone, kind)
        assert [line["step"] for line in ours] == [line["step"] for line in theirs]
        for name in names:
            # Adam makes steps of gradients that are 0 but for rounding, as those of words are that all goals have
            # alike: with an epsilon of 1e-4 in place of 1e-8 losses differ by 2e-7.
            # A temperature is found to within 2 %.
            slack = 1e-2 if name == "calibration_error" else 1e-3
            expected = pytest.approx([line[name] for line in theirs], rel=1e-3, abs=slack)
            assert [line[name] for line in ours] == expected
    assert [line["tokens"] for line in tiny.curve(out)] == [line["tokens"] for line in tiny.curve(alone)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "options"),
    [
        # What writes calls its encoder by itself.
        ("translation", ["--steps", "1", "--batch-size", "8"]),
        # Processes have unequal numbers of documents, which a CPU reads a few at a time.
        ("retrieval", ["--steps", "4", "--batch-size", "34"]),
    ],
)
def test_models_that_are_cut_into_parts_are_trained_and_scored(task, options, tmp_path):
    small = ["--width", "16", "--layers", "1", "--heads", "2", "--device", "cpu", "--json"]
    data = _few(task, tmp_path / "data")
    done = by_two(
        "twofold", "train", task, "--data", str(data), "--out", str(tmp_path / "run"),
        "--distribution", "fsdp", "--evaluate-steps", "1", *options, *small,
    )  # fmt: skip
    assert json.loads(done.stdout)["task"] == task


def _few(task, folder):
    folder.mkdir()
    if task == "translation":
        for split, count in (("train", 16), ("dev", 2), ("test", 2)):
            for language, word in (("en", "good"), ("de", "gut")):
                (folder / f"{split}.{language}").write_text("".join(f"{word} {n}\n" for n in range(count)))
        return folder
    # Two questions share a document: a process that has both has 16 documents, one group, and the other 17, two groups.
    documents = [{"doc_id": str(n), "text": f"page {n}"} for n in range(33)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    for split, count in (("train", 34), ("dev", 4), ("test", 4)):
        queries = [{"query_id": str(n), "text": f"page {n % 33}", "relevant": [str(n % 33)]} for n in range(count)]
        (folder / f"queries.{split}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in queries))
    return folder
