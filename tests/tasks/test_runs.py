"""What the commands tell of a run, as a user types them: what was scored, why it stopped, what they refuse."""

import io
import json
import math
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.tasks.small import train_small, trained
from twofold import open_run
from twofold.cli import main, say_json
from twofold.tasks.lm import LanguageChoices
from twofold_runtime.folder import read_run, with_digests, write_run

# Of every goal one, so that none of them can be cut from the rest.
ONE_EACH = [("turn on the lights", "lights_on"), ("wake me at ten", "alarm_set"), ("call anna", "call_start")]


@pytest.fixture
def one_each(tmp_path):
    path = tmp_path / "one_each.jsonl"
    path.write_text("".join(json.dumps({"text": text, "goal": goal}) + "\n" for text, goal in ONE_EACH))
    return path


@pytest.fixture(scope="module")
def image_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captioning") / "run"
    with pytest.MonkeyPatch.context() as patched:
        train_small("captioning", folder, patched, train=40, dev=5, steps=1)
    return folder


@pytest.fixture(scope="module")
def language_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm")
    (folder / "train.txt").write_text("Once upon a time there was a cat. " * 20)
    choices = LanguageChoices(tokenization="char", context_length=32)
    trained("lm", folder / "run", choices=choices, data=folder / "train.txt", steps=1)
    return folder / "run"


def said(capsys, *words, code=0):
    capsys.readouterr()
    assert main([str(word) for word in words]) == code
    return capsys.readouterr()


def refused(capsys, *words):
    out, err = said(capsys, *words, code=2)
    assert (out, err.count("\n")) == ("", 1)
    return err


class TestScoring:
    def test_what_cannot_be_cut_can_all_be_scored(self, goal_run, one_each, capsys):
        words = ("evaluate", goal_run, "--data", one_each, "--json")
        assert "has too few examples of its labels to cut" in refused(capsys, *words)
        out, err = said(capsys, *words, "--split", "all")
        told = json.loads(out)
        assert (told["examples"], err) == (len(ONE_EACH), "")
        assert "notes" not in told

    def test_one_example(self, goal_run, one_each, capsys):
        one_each.write_text(one_each.read_text().splitlines()[0])
        out, _ = said(capsys, "evaluate", goal_run, "--data", one_each, "--split", "all")
        assert out.splitlines()[0].strip() == "goals: 1 example of all splits"

    def test_both_of_two_runs_read_all_of_a_file(self, goal_run, goal_files, one_each, tmp_path, capsys):
        trained("goals", tmp_path / "other", data=goal_files, steps=1, batch_size=8)
        words = ("evaluate", goal_run, "--against", tmp_path / "other", "--data", one_each, "--split", "all")
        out, _ = said(capsys, *words, "--resamples", "200")
        least = "3 examples cannot tell, and it takes at least 10."
        assert out.endswith(f"By exact match no difference could be found: {least}\n")
        told = json.loads(said(capsys, *words, "--json").out)
        assert (told["examples"], told["verdict"]) == (3, "no difference found")

    def test_a_text_too_short_to_cut(self, language_run, tmp_path, capsys):
        (tmp_path / "tiny.txt").write_text("Once upon")
        words = ("evaluate", language_run, "--data", tmp_path / "tiny.txt", "--json")
        assert "has 9 characters, too few to cut dev and test from" in refused(capsys, *words)
        assert json.loads(said(capsys, *words, "--split", "all").out)["examples"] == 1

    def test_programs_are_told_what_is_cut(self, goal_run, goal_files, tmp_path, capsys):
        trained("goals", tmp_path / "other", data=goal_files, steps=1, batch_size=8)
        words = ("evaluate", goal_run, "--data", goal_files / "test.jsonl", "--json")
        for more in ((), ("--against", tmp_path / "other")):
            out, err = said(capsys, *words, *more)
            note = "test is cut from train, for the data has none (--split all scores all there is)"
            assert json.loads(out)["notes"] == {"split": note}
            assert err.startswith(f"twofold: {note}\n")


class TestEarlyStop:
    @pytest.fixture
    def words(self, tmp_path):
        for split in ("train", "dev", "test"):
            (tmp_path / f"{split}.en").write_text("good morning\ngood night\na red house\n")
            (tmp_path / f"{split}.de").write_text("guten Morgen\ngute Nacht\nein rotes Haus\n")
        # A rate by which nothing gets better.
        never = ("--learning-rate", "1e-12", "--evaluate-steps", "1", "--steps", "9", "--device", "cpu")
        return ("train", "translation", "--data", tmp_path, "--out", tmp_path / "run", *never)

    def test_is_told(self, words, capsys):
        out, _ = said(capsys, *words)
        assert "best at step 1 of 3, by chrf\n" in out
        assert "stopped early, after 2 evaluations on the dev split without a better chrf (--patience)\n" in out

    def test_is_told_to_programs(self, words, capsys):
        told = json.loads(said(capsys, *words, "--json").out)
        assert (told["steps"], told["best_step"], told["stopped_early"]) == (3, 1, True)

    def test_one_evaluation(self, words, capsys):
        out, _ = said(capsys, *words, "--patience", "1")
        assert "stopped early, after 1 evaluation on" in out

    def test_a_run_to_its_end_did_not(self, words, capsys):
        out, _ = said(capsys, *words, "--patience", "9")
        assert "best at step 1 of 9, by chrf\n" in out
        assert "stopped early" not in out
        assert json.loads(said(capsys, *words, "--force", "--patience", "9", "--json").out)["stopped_early"] is False


class TestPrediction:
    def test_images_are_not_joined(self, image_run, capsys):
        for names in (["a.png"], ["a.png", "b.png"]):
            assert "must be an image file, and there is none" in refused(capsys, "predict", image_run, *names)

    def test_words_are(self, goal_run, capsys):
        out, _ = said(capsys, "predict", goal_run, "yes", "no", "--json")
        assert json.loads(out)["text"] == "yes no"

    def test_the_help_says_so(self, capsys):
        told = " ".join(said(capsys, "predict", "--help").out.replace("│", " ").split())
        assert "[OPTIONS] PATH [TEXT] " in told
        assert "Where texts are read, words are joined." in told
        assert "Blank lines of standard input are passed over. The first line that cannot be read ends it" in told

    def test_as_the_help_says_of_lines(self, goal_run, monkeypatch, capsys):
        monkeypatch.setattr(sys, "stdin", io.StringIO("call anna\n\n\udcff\nwake me\n"))
        out, err = said(capsys, "predict", goal_run, "--json", code=2)
        assert [json.loads(line)["text"] for line in out.splitlines()] == ["call anna"]
        assert err.startswith("twofold: line 3: ")


def resealed(run):
    """The run with the digests that its files have now, as if it had been trained so."""
    record = read_run(run)
    write_run(run, with_digests(run, record, record.files))
    return run


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "config.json", "model.safetensors"])
def test_a_file_that_is_missing_or_changed_is_named(name, goal_run, tmp_path, capsys):
    run = shutil.copytree(goal_run, tmp_path / "run")
    whole = (run / name).read_bytes()
    (run / name).write_bytes(whole + b" ")
    for words in (("predict", run, "x"), ("evaluate", run)):
        assert str(run / name) in refused(capsys, *words)
    (run / name).unlink()
    with pytest.raises(ValueError, match=re.escape(f"{run} lacks {name}")):
        open_run(run)


def test_a_tokenizer_of_another_run(goal_run, language_run, tmp_path, capsys):
    run = shutil.copytree(goal_run, tmp_path / "run")
    shutil.copy(language_run / "tokenizer.json", run)
    said = refused(capsys, "predict", resealed(run), "lights", "off")
    assert re.search(r"run has a tokenizer\.json of \d+ tokens and a model of \d+: they are not of one run\n", said)


def test_rows_beyond_the_tokens_up_to_a_round_number(language_run, tmp_path):
    run = shutil.copytree(language_run, tmp_path / "run")
    opened = open_run(language_run, device="cpu")
    opened.model.resize_token_embeddings(len(opened.task.tokenizer) + 1, pad_to_multiple_of=8)
    opened.model.save_pretrained(run)
    assert open_run(resealed(run), device="cpu").model.config.vocab_size > len(opened.task.tokenizer)


def test_weights_that_are_not_finite(goal_run, tmp_path, capsys):
    run = shutil.copytree(goal_run, tmp_path / "run")
    weights = load_file(run / "model.safetensors")
    name = sorted(weights)[0]
    weights[name][0] = math.nan
    save_file(weights, run / "model.safetensors", metadata={"format": "pt"})
    assert f"run: {name} has numbers that are not finite\n" in refused(capsys, "predict", resealed(run), "lights")


def test_what_is_not_finite_is_null_to_programs(capsys):
    say_json({"scores": {"loss": math.inf, "all": [1.5, math.nan]}, "text": "NaN"})
    assert json.loads(capsys.readouterr().out) == {"scores": {"loss": None, "all": [1.5, None]}, "text": "NaN"}


def test_threads_write_what_one_would(language_run):
    """Chance is a process's: each text is drawn by itself, and nobody else's numbers move."""
    opened = open_run(language_run, device="cpu")
    alone, state = opened.predict("once"), torch.get_rng_state()
    with ThreadPoolExecutor(6) as pool:
        assert [one == alone for one in pool.map(opened.predict, ["once"] * 6)] == [True] * 6
    assert torch.equal(torch.get_rng_state(), state)


def test_a_temperature_next_to_nothing(language_run, capsys):
    err = refused(capsys, "generate", language_run, "--prompt", "Once", "--temperature", "0.0009")
    assert "temperature must be a number from 0.001 to" in err
    said(capsys, "generate", language_run, "--prompt", "Once", "--temperature", "0.001", "--max-new-tokens", "3")


@pytest.mark.parametrize(
    "damage",
    [
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    ],
)
def test_a_tokenizer_that_makes_its_library_panic_is_one_line(damage, goal_run, tmp_path, capfd):
    """The first when it is read, the second when it is used."""
    run = shutil.copytree(goal_run, tmp_path / "run")
    tokenizer = json.loads((run / "tokenizer.json").read_text())
    (run / "tokenizer.json").write_text(json.dumps(tokenizer | damage))
    resealed(run)
    capfd.readouterr()
    assert main(["predict", str(run), "hello"]) == 2
    err = capfd.readouterr().err
    assert err.startswith(f"twofold: {run} has no readable tokenizer: ")
    assert err.count("\n") == 1
