"""Whatever ends a life, the next one goes on as if nothing had been: bit for bit, and without a line twice."""

import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.training import tiny
from twofold.training import Stopped, is_finished, prepare_folder, read_metrics
from twofold.training.progress import Progress

STEPS = 10


class At(Progress):
    """Does something after a step, and remembers what it was told."""

    def __init__(self, step, act):
        self.at, self.act, self.notes = step, act, []

    def step(self, step):
        if step.step == self.at:
            self.act()

    def note(self, text):
        self.notes.append(text)


class Crash(Exception):  # noqa: N818
    pass


def crash():
    raise Crash


def term():
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    tiny.train(folder, changes={"patience": 9})
    return folder


def same(folder, other):
    assert tiny.equal(tiny.weights(folder), tiny.weights(other))
    for kind in ("step", "evaluation", "end"):
        assert tiny.curve(folder, kind) == tiny.curve(other, kind)
    assert not (folder / "checkpoints").exists()
    assert not [path for path in folder.rglob("*") if path.suffix in (".bin", ".pt", ".pth", ".pkl")]


# The first, one before and after a checkpoint, an evaluation, the last; all of them take longer.
TELLING = {1, 3, 4, 6, STEPS}


@pytest.mark.parametrize(
    "step", [pytest.param(n, marks=[] if n in TELLING else pytest.mark.long) for n in range(1, STEPS + 1)]
)
@pytest.mark.parametrize("end", [crash, term])
def test_resumed_runs_are_the_same(end, step, uninterrupted, tmp_path):
    # A signal after the last step comes too late to stop anything.
    with suppress(Crash, Stopped):
        tiny.train(tmp_path, changes={"patience": 9}, progress=At(step, end))
    assert is_finished(tmp_path) == (end is term and step == STEPS)
    tiny.train(tmp_path, changes={"patience": 9}, resume=True)
    same(tmp_path, uninterrupted)


@pytest.mark.parametrize("step", [3, 6])
def test_every_kind_of_chance_goes_on_where_it_was(step, tmp_path):
    """That of Python and of numpy too, by which data may be changed while it is collated."""
    tiny.train(tmp_path / "whole", collate=tiny.by_chance)
    with pytest.raises(Crash):
        tiny.train(tmp_path / "two", progress=At(step, crash), collate=tiny.by_chance)
    tiny.train(tmp_path / "two", resume=True, collate=tiny.by_chance)
    same(tmp_path / "two", tmp_path / "whole")


def test_a_look_at_the_end_comes_once(uninterrupted, tmp_path, monkeypatch):
    """Killed while the result is written: the last step has been looked at and saved."""
    monkeypatch.setattr("twofold.training.loop.write_model", lambda *args: crash())
    with pytest.raises(Crash):
        tiny.train(tmp_path, changes={"patience": 9})
    monkeypatch.undo()
    tiny.train(tmp_path, changes={"patience": 9}, resume=True)
    same(tmp_path, uninterrupted)


def test_many_lives_are_one(uninterrupted, tmp_path):
    for step in (3, 5, 7, 9):
        with pytest.raises(Crash):
            tiny.train(tmp_path, changes={"patience": 9}, resume=step > 3, progress=At(step, crash))
    tiny.train(tmp_path, changes={"patience": 9}, resume=True)
    same(tmp_path, uninterrupted)


def test_the_best_so_far_is_remembered(tmp_path):
    """The best look lies before the checkpoint that is gone on from."""

    def scores():
        # As many looks as steps; the second is the best.
        return lambda model: {"score": {2: 9.0}.get(len(tiny.curve(folder)), 1.0)}

    options = {"metric": "score", "higher_is_better": True, "changes": {"evaluate_steps": 1, "save_steps": 5}}
    folder = tmp_path / "whole"
    whole = tiny.train(folder, evaluate=scores(), **options)
    folder = tmp_path / "resumed"
    with pytest.raises(Crash):
        tiny.train(folder, evaluate=scores(), progress=At(7, crash), **options)
    assert (folder / "checkpoints" / "step-000000005" / "best.safetensors").exists()
    resumed = tiny.train(folder, evaluate=scores(), resume=True, **options)
    assert resumed.best_step == whole.best_step == 2
    same(folder, tmp_path / "whole")


def test_without_a_metric_the_last_weights_are_kept_over_a_crash(tmp_path):
    options = {"evaluate": lambda model: {"loss": 1.0}, "metric": None, "changes": {"evaluate_steps": 1}}
    whole = tiny.train(tmp_path / "whole", **options)
    with pytest.raises(Crash):
        tiny.train(tmp_path / "resumed", progress=At(4, crash), **options)
    resumed = tiny.train(tmp_path / "resumed", resume=True, **options)
    assert resumed.best_step == whole.best_step == STEPS
    same(tmp_path / "resumed", tmp_path / "whole")


def test_patience_is_remembered(tmp_path):
    options = {"evaluate": lambda model: {"loss": 1.0}, "changes": {"patience": 5, "evaluate_steps": 1}}
    with pytest.raises(Crash):
        tiny.train(tmp_path, progress=At(4, crash), **options)
    assert tiny.train(tmp_path, resume=True, **options).steps == 6


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_go_on(number, code, tmp_path):
    before = signal.getsignal(number)
    with pytest.raises(
        Stopped, match=f"{number.name} stopped .* after step 4; the checkpoint of step 4 is kept$"
    ) as it:
        tiny.train(
            tmp_path,
            changes={"save_steps": None},
            # The step after the signal is the last.
            progress=At(3, lambda: os.kill(os.getpid(), number)),
        )
    assert it.value.exit_code == code
    assert signal.getsignal(number) is before
    assert [path.name for path in (tmp_path / "checkpoints").glob("step-*")] == ["step-000000004"]


def test_a_second_signal_does_not_wait(tmp_path, monkeypatch):
    def twice():
        term()
        term()

    with pytest.raises(Stopped, match="after step 4"):
        tiny.train(tmp_path, progress=At(3, twice))
    # Both at once were one request; a second later they are two.
    monkeypatch.setattr("twofold.training.stopping.ONE_REQUEST", 0.0)
    with pytest.raises(KeyboardInterrupt):
        tiny.train(tmp_path, progress=At(7, twice), resume=True)


def test_checkpoints_come_by_the_clock(tmp_path):
    changes = {"save_steps": None, "save_seconds": 1e-9, "keep": 3}
    with pytest.raises(Crash):
        tiny.train(tmp_path, changes=changes, progress=At(6, crash))
    saved = sorted(path.name for path in (tmp_path / "checkpoints").glob("step-*"))
    assert saved == [f"step-{step:09d}" for step in (3, 4, 5)]


def test_a_finished_run_is_left_alone(tmp_path):
    outcome = tiny.train(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    (tmp_path / "checkpoints" / ".saving-step-000000009").mkdir(parents=True)
    model = tiny.model()
    assert tiny.train(tmp_path, model=model, resume=True) == outcome
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    assert tiny.equal({name: model.state_dict()[name] for name in tiny.weights(tmp_path)}, tiny.weights(tmp_path))


@pytest.mark.parametrize(
    ("lost", "message"),
    [("config.json", "holds no model: it has no config.json"), ("model.safetensors", "holds no weights")],
)
def test_a_finished_run_that_lost_a_file_is_told(tmp_path, lost, message):
    tiny.train(tmp_path)
    (tmp_path / lost).unlink()
    with pytest.raises(ValueError, match=message):
        tiny.train(tmp_path, resume=True)


def test_killed_before_the_first_checkpoint(uninterrupted, tmp_path):
    prepare_folder(tmp_path)
    with pytest.raises(Crash):
        tiny.train(tmp_path, changes={"patience": 9}, progress=At(1, crash))
    watcher = At(0, crash)
    tiny.train(tmp_path, changes={"patience": 9}, resume=True, progress=watcher)
    assert watcher.notes == ["there is no checkpoint yet: from the start"]
    same(tmp_path, uninterrupted)


def test_an_unfinished_line_is_dropped(uninterrupted, tmp_path):
    with pytest.raises(Crash):
        tiny.train(tmp_path, changes={"patience": 9}, progress=At(5, crash))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "step", "step": 3')
    tiny.train(tmp_path, changes={"patience": 9}, resume=True)
    same(tmp_path, uninterrupted)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"changes": {"batch_size": 4}}, "batch_size must stay as it was when the run began to resume it: 8, got 4"),
        ({"train": tiny.data(36)}, "train must be what the run began with, 37 examples, got 36"),
        ({"model": tiny.model(attention="standard")}, "model must be the one that the run began with; .* only in one"),
    ],
)
def test_another_run_is_not_gone_on_with(options, message, tmp_path):
    with pytest.raises(Crash):
        tiny.train(tmp_path, progress=At(5, crash))
    with pytest.raises(ValueError, match=message):
        tiny.train(tmp_path, resume=True, **options)
    tiny.train(tmp_path, resume=True)
    assert is_finished(tmp_path)


def test_no_room_for_a_checkpoint(uninterrupted, tmp_path):
    """Training goes on, says so in a line, and what was saved before is as good as it was."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    watcher = At(3, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1])))
    try:
        with pytest.raises(
            OSError, match=r"the model cannot be written to .* \(File too large\); the checkpoint of step 2"
        ):
            tiny.train(tmp_path, changes={"patience": 9}, progress=watcher)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    failed = [f"the checkpoint of step {step} could not be written: File too large" for step in (4, 6, 8, 10)]
    assert [note for note in watcher.notes if "metrics" not in note] == failed
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["lock", "step-000000002"]
    assert not (tmp_path / "model.safetensors").exists()
    tiny.train(tmp_path, changes={"patience": 9}, resume=True)
    same(tmp_path, uninterrupted)


def test_room_comes_back(uninterrupted, tmp_path):
    """Lines of metrics.jsonl that found no room are written later."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    class Narrow(Progress):
        def __init__(self):
            self.notes = []

        def step(self, step):
            limit = {2: 1500, 7: before[0]}.get(step.step)
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))

        def note(self, text):
            self.notes.append(text)

    watcher = Narrow()
    try:
        tiny.train(tmp_path, changes={"patience": 9}, progress=watcher)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "metrics.jsonl has to wait: File too large" in watcher.notes
    same(tmp_path, uninterrupted)


def test_only_one_process_trains_a_run(tmp_path):
    """The lock goes with its holder, even one that is killed."""
    script = "\n".join(
        [
            "import sys, time, pathlib",
            "from twofold.training.folder import locked",
            "with locked(pathlib.Path(sys.argv[1])):",
            "    print('held', flush=True)",
            "    time.sleep(60)",
        ]
    )
    with pytest.raises(Crash):
        tiny.train(tmp_path, progress=At(5, crash))
    with subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="is in use: another process is training there"):
            tiny.train(tmp_path, resume=True)
        with pytest.raises(ValueError, match="is in use: another process is training there"):
            prepare_folder(tmp_path, force=True)
        holder.kill()
    tiny.train(tmp_path, resume=True)
    assert is_finished(tmp_path)


def test_every_line_is_json(uninterrupted):
    lines = (uninterrupted / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines][:1] == ["run"]
    assert json.loads(lines[-1])["kind"] == "end"
    assert len(read_metrics(uninterrupted)) == len(lines) - 1
