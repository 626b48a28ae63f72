"""train, evaluate and predict as a user types them: what they print, and one line for every mistake."""

import errno
import io
import json
import os
import shutil
import sys
from dataclasses import replace

import pytest
import torch

from twofold.cli import main
from twofold.tasks.goals import Goals
from twofold_runtime.folder import read_run, with_digests, write_run

QUICK = ["--steps", "3", "--batch-size", "8", "--evaluate-steps", "3"]


def said(capsys):
    out, err = capsys.readouterr()
    return out, err


@pytest.fixture
def copied(goal_run, tmp_path):
    """A run of one's own, to be damaged."""
    folder = tmp_path / "copied"
    folder.mkdir()
    for path in goal_run.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    return folder


def test_from_training_to_a_prediction(goal_files, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", "goals", "--data", str(goal_files), "--out", str(run), "--json", *QUICK]) == 0
    told = json.loads(said(capsys)[0])
    assert told["task"] == "goals"
    assert told["steps"] == 3
    assert "exact_match" in told["dev"]
    assert main(["evaluate", str(run), "--json"]) == 0
    told = json.loads(said(capsys)[0])
    assert told["split"] == "test"
    assert told["examples"] == 80
    assert main(["predict", str(run), "turn", "on", "the", "lights", "--json"]) == 0
    assert json.loads(said(capsys)[0])["text"] == "turn on the lights"


def test_all_of_a_file_can_be_scored(goal_run, goal_files, capsys):
    lines = (goal_files / "test.jsonl").read_text().splitlines()
    assert main(["evaluate", str(goal_run), "--json"]) == 0
    expected = json.loads(said(capsys)[0])
    words = ["evaluate", str(goal_run), "--data", str(goal_files / "test.jsonl"), "--json"]
    assert main(words) == 0
    out, err = said(capsys)
    assert json.loads(out)["examples"] < len(lines)
    assert "test is cut from train, for the data has none (--split all scores all there is)" in err
    assert main([*words, "--split", "all"]) == 0
    out, err = said(capsys)
    told = json.loads(out)
    assert told["split"] == "all"
    assert told["examples"] == len(lines) == expected["examples"]
    assert told["scores"] == pytest.approx(expected["scores"])
    assert err == ""


def test_programs_are_told_what_people_are(goal_files, tmp_path, capsys):
    data = goal_files / "train.jsonl"
    assert main(["train", "goals", "--data", str(data), "--out", str(tmp_path / "run"), "--json", *QUICK]) == 0
    assert json.loads(said(capsys)[0])["notes"] == ["dev and test are cut from train, for the data has none"]


def test_data_in_the_folder_of_their_run_are_not_removed_with_it(goal_files, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "goals", "--data", str(goal_files), "--out", str(out), *QUICK]) == 0
    shutil.copytree(goal_files, out / "mine")
    said(capsys)
    for data in (out / "mine", out / "mine" / "train.jsonl"):
        assert main(["train", "goals", "--data", str(data), "--out", str(out), "--force", *QUICK]) == 2
        assert f"{data} must not lie in {out}" in said(capsys)[1]
    assert (out / "mine" / "train.jsonl").exists()
    assert (out / "model.safetensors").exists()


def test_a_second_run_does_not_overwrite_the_first(goal_files, tmp_path, capsys):
    words = ["train", "goals", "--data", str(goal_files), "--out", str(tmp_path / "run"), "--json", *QUICK]
    assert main(words) == 0
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    said(capsys)
    assert main(words) == 2
    out, err = said(capsys)
    assert out == ""
    assert err.count("\n") == 1
    assert "is not empty" in err
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    assert main([*words, "--force"]) == 0
    # A finished run is resumed by leaving it as it is, and needs no word of how it began.
    assert main(["train", "goals", "--out", str(tmp_path / "run"), "--resume", "--json"]) == 0
    assert main(["train", "goals", "--out", str(tmp_path / "run"), "--resume", "--size", "small", "--json"]) == 2
    assert "keeps the model it began with" in said(capsys)[1]


def test_people_get_a_table_and_the_action(goal_run, tmp_path, capsys):
    assert main(["evaluate", str(goal_run), "--split", "dev"]) == 0
    table = said(capsys)[0]
    assert "goal accuracy" in table
    assert table.splitlines()[0].endswith("examples of the dev split")
    actions = tmp_path / "actions.toml"
    goals = ("lights_on", "alarm_set", "call_start", "weather_ask")
    done = tmp_path / "done"
    program = f"open({str(done)!r}, 'w').close()"
    entries = [f"[{goal}]\nrun = [{json.dumps(sys.executable)}, '-c', {json.dumps(program)}]" for goal in goals]
    actions.write_text("least_confidence = 0.0\n" + "\n".join(entries))
    for text in ("turn on the kitchen lights", "wake me up at seven", "call anna"):
        assert main(["predict", str(goal_run), text, "--actions", str(actions)]) == 0
    told = said(capsys)[0]
    assert "would run" in told
    assert not done.exists()
    for text in ("turn on the kitchen lights", "wake me up at seven", "call anna"):
        assert main(["predict", str(goal_run), text, "--actions", str(actions), "--act"]) == 0
    assert "exit code 0" in said(capsys)[0]
    assert done.exists()


@pytest.mark.parametrize("way", ['run = ["no-such-program"]', 'run = ["false"]', 'run = ["true", "{nowhere}"]'])
def test_an_action_that_fails_loses_no_line(way, goal_run, tmp_path, monkeypatch, capsys):
    actions = tmp_path / "actions.toml"
    goals = {goal for goal in read_run(goal_run).reading["goals"] if goal}
    entries = [f"[{goal}]\n{way}" for goal in goals]
    actions.write_text("least_confidence = 0.0\n" + "\n".join(entries))
    lines = ["turn on the kitchen lights", "wake me up at seven", "call anna"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    assert main(["predict", str(goal_run), "--actions", str(actions), "--act", "--json"]) == 1
    told = [json.loads(line) for line in said(capsys)[0].splitlines()]
    assert [one["text"] for one in told] == lines
    # What is out of scope has no action.
    assert all(("failed" in one) == (one["goal"] is not None) for one in told)
    assert any("failed" in one for one in told)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["train", "cooking"], "'cooking'"),
        (["train", "goals", "--size", "huge"], "size"),
        (["train", "goals", "--steps", "0"], "steps"),
        (["train", "goals", "--data", "nowhere/at/all"], "nowhere/at/all"),
        (["train", "goals", "--frobnicate"], "frobnicate"),
        (["train", "goals", "--out", "RUN", "--resume"], "has no run to resume"),
        (["evaluate", "nowhere"], "is no run: there is no such folder"),
        (["predict", "nowhere", "x"], "is no run: there is no such folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_exit_code_2(words, complaint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    out, err = said(capsys)
    assert out == ""
    assert complaint in err
    assert err.count("\n") == 1
    assert err.startswith("twofold: ")


def test_several_texts_are_not_one(goal_run, capsys):
    assert main(["predict", str(goal_run), "turn on the lights", "play some jazz"]) == 2
    assert "text must be one, got 2: several go line by line through standard input" in said(capsys)[1]
    assert main(["predict", str(goal_run), "turn", "on", "the", "lights"]) == 0
    assert said(capsys)[0].startswith("turn on the lights\n")


def test_an_action_for_a_goal_that_there_is_not_is_told(goal_run, tmp_path, capsys):
    actions = tmp_path / "actions.toml"
    actions.write_text('[lights_onn]\nrun = ["x"]\n')
    assert main(["predict", str(goal_run), "turn on the lights", "--actions", str(actions), "--act"]) == 0
    out, err = said(capsys)
    assert "has no goal lights_onn, for which there are actions" in err
    assert out.endswith("  no action\n")


def test_act_needs_to_know_what_to_do(goal_run, capsys):
    assert main(["predict", str(goal_run), "x", "--act"]) == 2
    assert "has no actions.toml" in said(capsys)[1]


@pytest.mark.parametrize("words", [["train"], ["train", "goals"], ["evaluate"], ["predict"]], ids=" ".join)
def test_help_has_an_example(words, capsys):
    assert main([*words, "--help"]) == 0
    told = said(capsys)[0]
    assert "usage: twofold" in told
    assert "runs/goals" in told or "--resume" in told


def test_a_finished_run_is_not_told_otherwise(goal_run, goal_files, tmp_path, capsys):
    before = (goal_run / "run.json").read_bytes()
    words = ["train", "goals", "--out", str(goal_run), "--resume", "--json"]
    assert main([*words, "--learning-rate", "0.5"]) == 2
    assert "learning_rate must stay as it was" in said(capsys)[1]
    assert main([*words, "--data", str(tmp_path)]) == 2
    said(capsys)
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.jsonl").write_bytes((goal_files / f"{split}.jsonl").read_bytes() + b"\n")
    assert main([*words, "--data", str(tmp_path)]) == 2
    assert "a resumed run keeps the data it began with" in said(capsys)[1]
    assert (goal_run / "run.json").read_bytes() == before


def test_a_model_that_cannot_be_leaves_no_folder(goal_files, tmp_path, capsys):
    words = ["train", "goals", "--data", str(goal_files), "--out", str(tmp_path / "run")]
    assert main([*words, "--model", "lstm"]) == 2
    assert said(capsys)[1].count("\n") == 1
    assert not (tmp_path / "run").exists()


def refused(folder, capsys):
    """The one line that every command says of a run that it does not open."""
    lines = set()
    for verb in (["predict", str(folder), "x"], ["evaluate", str(folder)]):
        assert main([*verb, "--json"]) == 2
        out, err = said(capsys)
        assert out == ""
        assert err.count("\n") == 1
        lines.add(err)
    (line,) = lines
    return line


@pytest.mark.parametrize("field", ["task", "word_rules", "reading", "calibration", "training", "finished", "files"])
def test_a_field_of_run_json_that_is_amiss_is_named(copied, field, capsys):
    write_run(copied, replace(read_run(copied), **{field: "7"}))
    line = refused(copied, capsys)
    assert field in line
    assert "run.json" in line or field == "task"


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("model.safetensors", flip),
        ("tokenizer.json", flip),
        ("tokenizer.json", lambda path: path.write_text(path.read_text().replace("word:lights", "word:lightz"))),
        ("tokenizer_config.json", lambda path: path.write_text(json.dumps(json.loads(path.read_text()), indent=3))),
        ("config.json", flip),
        ("config.json", lambda path: path.unlink()),
        ("run.json", lambda path: path.write_text(path.read_text().replace("lights_on", "lights_off"))),
        ("run.json", flip),
        ("run.json", lambda path: path.write_text("{")),
    ],
)
def test_a_file_that_was_changed_is_named_in_one_line(copied, name, change, capsys):
    change(copied / name)
    assert name in refused(copied, capsys)


def test_files_of_two_runs_are_no_run(goal_files, copied, tmp_path, capsys):
    other = tmp_path / "other"
    assert main(["train", "goals", "--data", str(goal_files), "--out", str(other), "--json", *QUICK]) == 0
    said(capsys)
    # Of the same data and options: names and shapes fit.
    shutil.copy(other / "model.safetensors", copied)
    assert "model.safetensors" in refused(copied, capsys)


def test_a_run_of_an_older_version_is_to_be_trained_anew(tmp_path, capsys):
    (tmp_path / "task.json").write_text('{"version": 2, "task": "goals"}')
    assert "train it anew" in refused(tmp_path, capsys)


def test_a_run_that_is_not_finished_is_not_used(copied, capsys):
    write_run(copied, replace(read_run(copied), finished=False))
    assert "not finished" in refused(copied, capsys)


def test_a_run_brings_no_code(copied, monkeypatch, capsys):
    """Even if whoever made it wrote its digests as well."""
    (copied / "evil.py").write_text(f"open({str(copied / 'ran')!r}, 'w').close()\nclass Evil: pass\n")
    config = json.loads((copied / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Evil"}}
    (copied / "config.json").write_text(json.dumps(config))
    record = read_run(copied)
    write_run(copied, with_digests(copied, record, record.files))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    assert "config.json" in refused(copied, capsys)
    assert not (copied / "ran").exists()


def test_what_is_not_unicode_is_one_line(goal_run, capsys):
    assert main(["predict", str(goal_run), "a \udcff b"]) == 2
    assert "text must be Unicode" in said(capsys)[1]
    assert main(["predict", str(goal_run), " "]) == 2
    assert said(capsys)[1] == "twofold: text is empty\n"


def test_our_own_mistakes_are_one_line_too(monkeypatch, capsys):
    monkeypatch.setattr("twofold.cli.evaluate.run", lambda words: {}["nothing"])
    assert main(["evaluate"]) == 1
    assert said(capsys)[1] == "twofold: KeyError: 'nothing' (--debug shows where)\n"
    with pytest.raises(KeyError):
        main(["evaluate", "--debug"])


def test_a_run_of_another_task_is_not_resumed(goal_run, capsys):
    assert main(["train", "translation", "--out", str(goal_run), "--resume"]) == 2
    assert "is a run of goals, not of translation" in said(capsys)[1]


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--device", "cuda"], "device"),
        (["--label-smoothing", "0.1"], "label_smoothing"),
        (["--report-to", "trackio"], "trackio"),
    ],
)
def test_what_cannot_be_done_removes_nothing(more, complaint, copied, goal_files, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "trackio", None)
    if torch.cuda.is_available():
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    before = {path.name: path.read_bytes() for path in copied.iterdir() if path.is_file()}
    words = ["train", "goals", "--data", str(goal_files), *more, *QUICK]
    assert main([*words, "--out", str(copied), "--force"]) == 2
    assert complaint in said(capsys)[1]
    assert {path.name: path.read_bytes() for path in copied.iterdir() if path.is_file()} == before
    assert main([*words, "--out", str(tmp_path / "new")]) == 2
    assert not (tmp_path / "new").exists()


def test_a_start_on_a_full_disk_may_begin_again(goal_files, tmp_path, monkeypatch, capsys):
    def full(self, folder):
        (folder / "tokenizer.json").write_text("{")
        # What tokenizers raise.
        raise Exception("File too large (os error 27)")

    run = tmp_path / "run"
    words = ["train", "goals", "--data", str(goal_files), "--out", str(run), "--json", *QUICK]
    with monkeypatch.context() as patched:
        patched.setattr("transformers.PreTrainedTokenizerFast.save_pretrained", full)
        assert main(words) == 2
    assert "File too large" in said(capsys)[1]
    # Whose data it would go on with, nobody knows.
    assert main(["train", "goals", "--out", str(run), "--resume"]) == 2
    assert "has no run to resume" in said(capsys)[1]
    assert main(words) == 0
    assert main(["evaluate", str(run), "--json"]) == 0


def test_changed_data_is_not_gone_on_with(goal_files, tmp_path, capsys):
    data = shutil.copytree(goal_files, tmp_path / "data")
    run = tmp_path / "run"
    assert main(["train", "goals", "--data", str(data), "--out", str(run), "--json", *QUICK]) == 0
    again = ["train", "goals", "--out", str(run), "--resume", "--json"]
    assert main(again) == 0
    (data / ".DS_Store").write_text("what no reader reads")
    assert main(again) == 0
    train = next(data.glob("train*"))
    train.write_text(train.read_text().replace("the ", "teh "))
    said(capsys)
    assert main(again) == 2
    assert f"files of {data} have changed since" in said(capsys)[1]
    # They can be scored, and whoever reads the scores is told.
    assert main(["evaluate", str(run), "--json"]) == 0
    assert said(capsys)[1].startswith("twofold: the files are not what the run was trained on")


def test_data_that_moved_are_gone_on_with(goal_files, tmp_path, capsys):
    data, run = shutil.copytree(goal_files, tmp_path / "data"), tmp_path / "run"
    assert main(["train", "goals", "--data", str(data), "--out", str(run), "--json", *QUICK]) == 0
    moved = data.rename(tmp_path / "moved")
    said(capsys)
    again = ["train", "goals", "--out", str(run), "--resume", "--json"]
    assert main(again) == 2
    assert "no such file" in said(capsys)[1]
    assert main([*again, "--data", str(moved)]) == 0


def test_scores_are_told_where_nothing_can_be_written(goal_run, monkeypatch, capsys):
    def refuse(self, folder):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder / "index.safetensors"))

    monkeypatch.setattr(Goals, "write_files", refuse)
    assert main(["evaluate", str(goal_run), "--json"]) == 0
    out, err = said(capsys)
    assert json.loads(out)["scores"]
    assert err == f"twofold: {goal_run} stays as it was: Read-only file system\n"


def test_slots_inside_words_are_told(tmp_path, capsys):
    lines = [
        {"text": f"wake me at {n}am", "goal": "alarm", "slots": [{"name": "hour", "value": str(n)}]} for n in range(20)
    ]
    lines += [{"text": f"call me {n}", "goal": "call", "slots": [{"name": "who", "value": "me"}]} for n in range(20)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    train = Goals.examples(tmp_path).train
    inside = sum(one.goal == "alarm" for one in train)
    (doubt,) = Goals.prepared(train).doubts(train)
    assert doubt == f"{inside} of {len(train)} slots begin or end inside a word: found are whole words"
    assert main(["train", "goals", "--data", str(tmp_path), "--out", str(tmp_path / "run"), *QUICK]) == 0
    assert doubt in " ".join(said(capsys)[1].split())


@pytest.mark.parametrize("lines", [["\ufeffturn it off\r\n", "play it\r\n"], ["turn it off\n", "play it"]])
def test_lines_of_windows_are_lines(lines, goal_run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", lines)
    assert main(["predict", str(goal_run), "--json"]) == 0
    assert [json.loads(line)["text"] for line in said(capsys)[0].splitlines()] == ["turn it off", "play it"]


def test_a_line_that_cannot_be_read_is_named(goal_run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", ["turn it off\n", "\n", "a \udcff b\n"])
    assert main(["predict", str(goal_run), "--json"]) == 2
    out, err = said(capsys)
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["turn it off"]
    assert "line 3: text must be Unicode" in err


def test_nothing_commands_the_terminal(tmp_path, capsys):
    assert main(["evaluate", str(tmp_path / "\x1b[31mred\x07")]) == 2
    assert "\ufffd[31mred\ufffd" in said(capsys)[1]


def test_goals_need_a_goal(tmp_path, capsys):
    (tmp_path / "train.jsonl").write_text("".join(f'{{"text": "text {n}", "goal": null}}\n' for n in range(30)))
    assert main(["train", "goals", "--data", str(tmp_path), "--out", str(tmp_path / "run")]) == 2
    assert "train has no goal, only what is out of scope" in said(capsys)[1]
    assert not (tmp_path / "run").exists()
