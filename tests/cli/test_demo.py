"""`twofold demo` as a user runs it: two runs, a report, and what happens when it is called again or stopped."""

import json
import os
import re
import shutil
import signal
import threading
import time
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from twofold.cli import demo, main, processes
from twofold.cli.demo import ARMS
from twofold.report.goals_page import goals_page
from twofold.report.goals_runs import compare
from twofold.training import Bar, Settings, is_finished, read_metrics
from twofold_runtime.folder import RunRecord, read_run, write_run

HOSTILE = '<script>alert("1")</script> & <img src=x onerror=alert(2)>'
# A goal may be called anything.
GOAL = "<b onclick=alert(3)>play</b>"
ROOMS = ("kitchen", "hall", "cellar", "attic", "garden", "bath")
THINGS = ("light", "lamp", "fan", "heating", "radio", "oven", "pump", "alarm")


def examples(places):
    """So many utterances of two goals and of none, the room being a slot."""
    for place in places:
        room, thing = ROOMS[place % len(ROOMS)], THINGS[place // len(ROOMS) % len(THINGS)]
        slots = [{"name": "room", "value": room}]
        yield {"text": f"turn on the {room} {thing} {place}", "goal": "turn_on", "slots": slots}
        yield {"text": f"play the {thing} song in the {room} {place}", "goal": GOAL, "slots": slots}
        yield {"text": f"who won the {thing} race {place}", "goal": None}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, places in (("train", range(32)), ("dev", range(40, 48)), ("test", range(50, 60))):
        lines = [json.dumps(one) for one in examples(places)]
        if name == "test":
            lines.append(json.dumps({"text": HOSTILE, "goal": GOAL}))
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def words(data, out, *more):
    said = ["--say", HOSTILE, "--say", "turn on the hall lamp", "--say", "вимкни світло на кухні 😀"]
    return ["demo", "--data", str(data), "--out", str(out), "--epochs", "2", *said, *more]


@pytest.fixture(scope="module")
def made(data, tmp_path_factory):
    """The folder of a finished demo."""
    out = tmp_path_factory.mktemp("demo") / "runs"
    assert main(words(data, out)) == 0
    return out


class Reader(HTMLParser):
    """The elements of a page, its text, and that whatever is opened is closed."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.open, self.text = [], [], ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data if self.open and self.open[-1] != "style" else ""


def read(out):
    return Reader((out / "report.html").read_text(encoding="utf-8"))


def test_leaves_two_runs_with_equally_many_parameters(made, data, capsys):
    assert main(words(data, made, "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told["arms"]) == list(ARMS)
    one, other = (told["arms"][arm] for arm in ARMS)
    assert one["parameters"] == pytest.approx(other["parameters"], rel=1e-3)
    assert one["step"] == other["step"]
    for arm in ARMS:
        assert is_finished(made / arm)
        config = json.loads((made / arm / "config.json").read_text())
        assert config["attention"] == arm
        assert main(["evaluate", str(made / arm), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["scores"] == pytest.approx(told["arms"][arm]["test"])


def test_the_report_holds_what_the_runs_hold(made, data, capsys):
    assert main(words(data, made, "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    page = read(made)
    for arm in ARMS:
        scores, lines = told["arms"][arm]["test"], read_metrics(made / arm)
        assert (
            f"{arm} got {scores['exact_match']:.1f} %" in page.text
            or f"{arm} {scores['exact_match']:.1f} %" in page.text
        )
        assert f"{scores['slot_f1']:.1f}" in page.text
        assert f"{scores['calibration_error']:.3f}" in page.text
        assert f"{told['arms'][arm]['parameters']:,}" in page.text
        assert f"trained in {lines[-1]['seconds']:.0f} s" in page.text
        look = [line for line in lines if line["kind"] == "evaluation"][-1]
        assert f"{arm}: {look['exact_match']:.4g} at {look['step']}" in page.text
        loss = [line for line in lines if line["kind"] == "step"][-1]
        assert f"{arm}: {loss['loss']:.4g} at {loss['step']}" in page.text
    assert "one seed proves nothing" in page.text
    assert "What to try next" in page.text
    # Curves, calibration, confusion or the word that there is none, self weights, attention maps: 2 layers of 4 heads.
    titles = [attributes["aria-label"] for tag, attributes in page.elements if tag == "svg"]
    assert {"Exact match on dev", "Training loss", "Mean self weight by layer.head on dev"} <= set(titles)
    for arm in ARMS:
        assert sum(bool(re.fullmatch(rf"{arm}, layer \d, head \d", title)) for title in titles) == 8
        assert f"Self weights, {arm}: “turn on the hall lamp”" in titles
        assert any(title.startswith(f"{arm}: confidence against accuracy") for title in titles)


def test_the_report_is_one_file_in_which_texts_stay_texts(made):
    page = read(made)
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "link", "iframe", "object", "b"}
    for _, attributes in page.elements:
        assert not {"src", "href", "onclick", "onerror"} & set(attributes)
    raw = (made / "report.html").read_text(encoding="utf-8")
    assert "<script" not in raw
    assert "url(" not in raw
    assert "@import" not in raw
    assert HOSTILE in unescape(raw)
    assert GOAL in page.text
    assert "вимкни світло на кухні 😀" in page.text


def test_called_again_it_uses_what_is_there(made, data, capsys, monkeypatch):
    before = {path: path.stat().st_mtime_ns for arm in ARMS for path in sorted((made / arm).iterdir())}

    def refused(*args):
        raise AssertionError("nothing is to be trained")

    monkeypatch.setattr(processes, "train_at_once", refused)
    assert main(words(data, made)) == 0
    said = capsys.readouterr()
    assert "are trained already" in said.err
    assert {path: path.stat().st_mtime_ns for arm in ARMS for path in sorted((made / arm).iterdir())} == before
    for words_of in ("split_kv", "test: exact match", "parameters", "turn on the hall lamp", "Next:", "report.html"):
        assert words_of in said.out


def test_a_run_that_was_killed_is_made_to_its_end(made, data, capsys):
    """From the start, where it had no checkpoint yet: the same run again, bit for bit."""
    weights = {arm: (made / arm / "model.safetensors").read_bytes() for arm in ARMS}
    lines = (made / "standard" / "metrics.jsonl").read_text().splitlines(keepends=True)
    (made / "standard" / "metrics.jsonl").write_text("".join(lines[:3]))
    write_run(made / "standard", replace(read_run(made / "standard"), finished=False, calibration={}, files={}))
    assert main(words(data, made)) == 0
    said = capsys.readouterr().err
    assert "standard was stopped" in said
    assert "split_kv is trained already" in said
    assert is_finished(made / "standard")
    assert {arm: (made / arm / "model.safetensors").read_bytes() for arm in ARMS} == weights


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--seed", "5"], "is another run (seed must stay as it was"),
        (["--epochs", "3"], "is another run (epochs must stay as it was"),
        (["--data", "elsewhere"], "elsewhere: no such"),
        (["--say", " "], "--say must say something"),
        (["--epochs", "0"], "epochs must be a number above 0"),
        (["--data", "elsewhere", "--force"], "elsewhere: no such"),
    ],
)
def test_refuses_in_one_line_and_leaves_the_report(made, data, capsys, more, complaint):
    assert main(words(data, made, *more)) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
    assert (made / "report.html").is_file()


def test_data_may_move_and_must_not_change(made, data, tmp_path, capsys):
    moved = tmp_path / "moved"
    shutil.copytree(data, moved)
    assert main(words(moved, made)) == 0
    assert "are trained already" in capsys.readouterr().err
    (moved / "dev.jsonl").write_text((data / "test.jsonl").read_text())
    assert main(words(moved, made)) == 2
    assert f"is another run (a resumed run keeps the data it began with, {data}" in capsys.readouterr().err
    assert (made / "report.html").is_file()


@pytest.mark.parametrize("more", [[], ["--force"]])
def test_a_report_of_somebody_else_is_left_alone(more, data, tmp_path, capsys):
    (tmp_path / "report.html").write_text("my own notes")
    assert main(words(data, tmp_path, *more)) == 2
    assert "report.html is there without a demo's runs: remove it, or choose another folder" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.html", "my own notes")]
    assert main(words(data, tmp_path / "report.html", *more)) == 2
    assert "out must be a folder, and is a file" in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_left_alone(data, tmp_path, capsys):
    (tmp_path / "split_kv").mkdir()
    (tmp_path / "split_kv" / "letters.txt").write_text("dear")
    assert main(words(data, tmp_path)) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(words(data, tmp_path, "--force")) == 2
    assert "no run" in capsys.readouterr().err
    assert (tmp_path / "split_kv" / "letters.txt").read_text() == "dear"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_read_off_the_runs(made, terminal):
    written = StringIO()
    bars = Bar.side_by_side(ARMS, Console(file=written, force_terminal=terminal, width=120))
    followers = [processes.Follower(made / arm, bar) for arm, bar in zip(ARMS, bars, strict=True)]
    for follower in followers * 2:
        follower.follow()
    for bar in bars:
        bar.finished()
    evaluations = [line for line in read_metrics(made / "standard") if line["kind"] == "evaluation"]
    assert f"exact_match {evaluations[-1]['exact_match']:.4g}" in written.getvalue()
    steps = evaluations[-1]["step"]
    assert (f"{steps}/{steps}" if terminal else f"standard: step {steps:,} of {steps:,}") in written.getvalue()
    # The second time there was nothing new.
    if not terminal:
        assert written.getvalue().count(f"standard: step {steps}  exact_match") == 1


def test_what_would_be_done_is_told(made):
    """By whoever knows; here it is asked for, and texts stay texts."""
    folders = [made / arm for arm in ARMS]
    compared = compare(folders, ["turn on the hall lamp"], lambda prediction: f"run <i>{prediction['text']}</i>")
    page = Reader(goals_page(compared, {}, []))
    assert "Action: run <i>turn on the hall lamp</i>" in page.text
    assert compared.told()["predictions"]["split_kv"][0]["action"] == "run <i>turn on the hall lamp</i>"


def test_a_comparison_needs_two_runs_and_something_said(made):
    with pytest.raises(ValueError, match="folders must be two runs, got 1"):
        compare([made / "split_kv"], ["hello"])
    with pytest.raises(ValueError, match=r"utterances must be texts that say something, got \[\]"):
        compare([made / arm for arm in ARMS], [])


def test_a_long_utterance_is_cut_in_pictures_and_breaks_nothing(made):
    compared = compare([made / arm for arm in ARMS], ["turn on the lamp " * 300])
    page = Reader(goals_page(compared, {"date": "today"}, ["twofold"]))
    assert "(its first 16 tokens)" in page.text
    assert "date today" in page.text


def training(name, data, folder, epochs):
    return processes.Training(
        name, folder, ["goals", "--out", str(folder), "--data", str(data), "--epochs", str(epochs)]
    )


def test_a_signal_ends_a_training_with_what_it_did_saved(data, tmp_path):
    def ask():
        while not any(line["kind"] == "step" for line in read_metrics(tmp_path / "long")):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    assert processes.train_at_once([training("long", data, tmp_path / "long", 10_000)], None) == signal.SIGTERM
    asker.join()
    assert not is_finished(tmp_path / "long")
    assert list((tmp_path / "long" / "checkpoints").glob("step-*"))


def test_where_one_fails_the_others_end_and_its_complaint_is_told(data, tmp_path):
    pair = [training("good", data, tmp_path / "good", 10_000), training("bad", "nowhere", tmp_path / "bad", 1)]
    with pytest.raises(ValueError, match=r"bad: .*nowhere"):
        processes.train_at_once(pair, None)
    assert not is_finished(tmp_path / "good")


def test_data_is_the_same_however_its_path_is_written(data, tmp_path, monkeypatch):
    settings = Settings()
    for name in ("goals", "others"):
        shutil.copytree(data, tmp_path / name)
    training = {"model": {}, "choices": {}, "settings": settings.as_json(), "data": str(tmp_path / "goals")}
    record = RunRecord(task="goals", word_rules=1, reading={}, training=training | {"digest": None})
    write_run(tmp_path, record)
    monkeypatch.chdir(tmp_path)
    demo._check_same(tmp_path, settings, Path("goals"))
    with pytest.raises(ValueError, match="is another run"):
        demo._check_same(tmp_path, settings, Path("others"))
