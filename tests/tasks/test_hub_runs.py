"""Runs on data sets of the hub, for which a folder stands in."""

import json
from pathlib import Path

import pytest

from tests.training import tiny
from tests.training.test_resume import At, Crash, crash
from twofold.cli import main
from twofold.data.embedded.lm import stories
from twofold.tasks.options import ModelOptions
from twofold.training import Settings
from twofold.training.run import train_task
from twofold_runtime.folder import read_run


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    datasets = pytest.importorskip("datasets", reason="the extra twofold[hub] is not installed: pip install datasets")
    folder = tmp_path_factory.mktemp("hub")
    datasets.config.HF_DATASETS_CACHE = folder / "cache"
    splits = stories(0, train=120, dev=10, test=10)
    (folder / "set").mkdir()
    for name, texts in (("train", splits.train), ("validation", splits.dev), ("test", splits.test)):
        lines = "".join(json.dumps({"body": text}) + "\n" for text in texts)
        (folder / "set" / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return f"hub:{folder / 'set'},text=body"


def words(address, out, *more):
    given = ["--data", address, "--out", str(out), "--steps", "6", "--evaluate-steps", "6", "--batch-size", "4"]
    return ["train", "lm", *given, "--context-length", "32", "--device", "cpu", "--json", *more]


def test_a_language_model_of_a_stream(address, tmp_path, capsys):
    assert main(words(address, tmp_path / "run")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["steps"] == 6
    assert 1 < told["dev"]["nats_per_character"] < 4
    assert read_run(tmp_path / "run").training["data"] == address
    # What the run was trained on is found again by its address.
    assert main(["evaluate", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == 10
    assert main(["evaluate", str(tmp_path / "run"), "--split", "train"]) == 2
    assert "split must be dev or test where train is a stream, got train" in capsys.readouterr().err


def test_a_resumed_run_is_the_uninterrupted_one(address, tmp_path):
    def train(folder, **more):
        settings = Settings(steps=6, batch_size=4, save_steps=2, log_steps=1, evaluate_steps=6, device="cpu")
        choices = {"context_length": 32}
        told = {"options": ModelOptions(), "settings": settings, "choices": choices, "data": Path(address), **more}
        train_task("lm", folder=folder, **told)

    train(tmp_path / "whole")
    with pytest.raises(Crash):
        train(tmp_path / "cut", progress=At(4, crash))
    train(tmp_path / "cut", resume=True)
    assert tiny.curve(tmp_path / "cut") == tiny.curve(tmp_path / "whole")
    assert tiny.equal(tiny.weights(tmp_path / "cut"), tiny.weights(tmp_path / "whole"))


def test_a_resumed_run_keeps_files_and_how_they_are_read(address, tmp_path, monkeypatch, capsys):
    data = tmp_path / "set"
    data.mkdir()
    for name in ("train", "validation", "test"):
        rows = [{"body": f"good {n}", "title": f"bad {n}", "label": "ab"[n % 2]} for n in range(20)]
        (data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def train(columns, *more):
        given = ["--data", f"hub:set,{columns}", "--out", "run", "--steps", "2", "--device", "cpu", "--json"]
        code = main(["train", "classification", *given, *more])
        return code, capsys.readouterr().err

    monkeypatch.chdir(tmp_path)
    assert train("text=body")[0] == 0
    assert read_run(tmp_path / "run").training["data"] == f"hub:{data},text=body"
    assert train("text=body", "--resume")[0] == 0
    assert "a resumed run keeps the data it began with" in train("text=title", "--resume")[1]
    (data / "train.jsonl").write_text((data / "train.jsonl").read_text().replace("good 1", "worse 1"))
    assert "have changed since" in train("text=body", "--resume")[1]


def test_without_steps_a_stream_has_no_end(address, tmp_path, capsys):
    given = [word for word in words(address, tmp_path / "run") if word not in ("--steps", "6", "--evaluate-steps")]
    assert main(given) == 2
    assert "steps must be given where the data is a stream" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["goals", "ner", "pos", "retrieval", "captioning"])
def test_tasks_that_read_files_only(task, tmp_path, capsys):
    assert main(["train", task, "--data", "hub:owner/set", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert f"data of {task} must be files: of the hub only lm, translation, summarization, classification, qa" in said
    assert "got hub:owner/set" in said
    assert not (tmp_path / "run").exists()
