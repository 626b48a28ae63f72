"""All runs of a plan: grid, then what is compared; whoever does them, and whenever they were stopped."""

import errno
import os
import signal
from dataclasses import replace

import pytest

from tests.lab import quick
from twofold.lab import runner
from twofold.lab.learning_rates import rate_curves, rate_for
from twofold.lab.records import FILE, Key, RecordFile, append, read_records
from twofold.lab.runner import RUNS, _claimed, _name, remaining, work
from twofold.lab.trial import Laboratory
from twofold.training import Stopped
from twofold.training.progress import Progress


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return quick.texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def lab(data):
    return Laboratory(quick.plan(), data)


@pytest.fixture(scope="module")
def whole(lab, tmp_path_factory):
    """A finished comparison: its folder, and what was heard of it."""
    folder, heard = tmp_path_factory.mktemp("whole"), quick.Heard()
    assert work(lab, folder, heard, heard.begins) == read_records(folder / FILE)
    return folder, heard


@pytest.fixture
def trained(monkeypatch):
    """Which runs are trained, without training them: what they end with is made up."""

    class Trained(list):
        def on(self, lab, outcome=lambda key: 2.0 + key.lr):
            template = {"parameters": 1, "metric": "nats_per_token", "tokens": 9, "seconds": 1.0, "curve": ()}

            def run(key, folder):
                self.append(key)
                return runner.Record(**key._asdict(), **template, value=outcome(key), environment=lab.environment())

            monkeypatch.setattr(lab, "run", run)
            return self

    return Trained()


def values(folder):
    return {record.key: record.value for record in read_records(folder / FILE)}


def test_first_the_grid_then_finals_at_its_best_rates(lab, whole):
    folder, heard = whole
    records = read_records(folder / FILE)
    plan = lab.plan
    assert [record.key for record in records] == heard.begun
    assert heard.begun[: len(plan.grid())] == plan.grid()
    curves = rate_curves(records, lower_is_better=True)
    rates = {(arm, plan.end): rate_for(curves, arm, plan.end) for arm in plan.arms}
    assert heard.begun[len(plan.grid()) :] == plan.finals(rates)
    assert len(plan.finals(rates)) == 4
    assert all(record.value is not None for record in records)
    assert heard.notes == []
    assert list((folder / RUNS).iterdir()) == []


def test_what_is_finished_is_not_done_again(lab, whole):
    folder, _ = whole
    before, heard = (folder / FILE).read_bytes(), quick.Heard()
    assert len(work(lab, folder, heard, heard.begins)) == 8
    assert heard.begun == []
    assert (folder / FILE).read_bytes() == before


def test_it_goes_on_after_any_record_with_the_same_values(lab, whole, tmp_path):
    folder, _ = whole
    lines = (folder / FILE).read_bytes().splitlines(keepends=True)
    # The last one is half written.
    (tmp_path / FILE).write_bytes(b"".join(lines[:5]) + lines[5][:100])
    heard = quick.Heard()
    work(lab, tmp_path, heard, heard.begins)
    assert len(heard.begun) == 3
    assert [note for note in heard.notes if "did not finish it" in note]
    assert values(tmp_path) == values(folder)


def test_where_some_diverge_the_comparison_goes_on(lab, tmp_path, trained):
    trained.on(lab, lambda key: None if key.lr > 5e-3 or key.seed == 1 else 2.0)
    heard = quick.Heard()
    records = work(lab, tmp_path, heard, heard.begins)
    finals = [record for record in records if record.phase == "final"]
    assert {record.lr for record in finals} == {1e-3}
    assert [record.value for record in finals] == [2.0, 2.0, None, None]
    assert heard.notes == []


def test_an_arm_that_diverges_at_all_rates_is_left_out_and_told(data, tmp_path, trained):
    lab = Laboratory(quick.plan(arms=("standard", "split_kv", "gated")), data)
    trained.on(lab, lambda key: None if key.arm == "split_kv" else 2.0)
    heard = quick.Heard()
    records = work(lab, tmp_path, heard, heard.begins)
    assert {record.arm for record in records if record.phase == "final"} == {"standard", "gated"}
    assert heard.notes == ["split_kv diverged at every rate of the grid and is not compared at 768 tokens"]


def test_where_all_diverge_it_ends(lab, tmp_path, trained):
    trained.on(lab, lambda key: None)
    heard = quick.Heard()
    assert len(work(lab, tmp_path, heard, heard.begins)) == len(lab.plan.grid())
    assert len(heard.notes) == 2


def test_the_grid_may_be_of_one_budget_and_its_rate_serves_the_others(data, tmp_path, trained):
    lab = Laboratory(quick.plan(budgets=(128, 256, 512), grid_budgets=(256,)), data)
    trained.on(lab, lambda key: 2.0 - key.lr)
    work(lab, tmp_path, Progress())
    assert {key.budget for key in trained if key.phase == "grid"} == {256}
    finals = [key for key in trained if key.phase == "final"]
    assert len(finals) == 2 * 2 * 3
    assert {key.lr for key in finals} == {1e-2}
    # Arms of a pair side by side.
    assert [key.arm for key in finals[:4]] == ["standard", "split_kv"] * 2


def test_records_of_another_experiment_choose_no_rate(lab, whole):
    folder, _ = whole
    records = [replace(record, experiment="another") for record in read_records(folder / FILE)]
    assert remaining(lab.plan, records) == lab.plan.grid()


def test_a_run_that_another_has_is_waited_for(lab, tmp_path, trained, monkeypatch):
    """Without it the grid is not whole, so nothing is compared before."""
    trained.on(lab)
    theirs = lab.plan.grid()[1]
    claim = _claimed(tmp_path, theirs, lab)
    assert claim.__enter__()
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        assert {key.phase for key in trained} == {"grid"}
        assert len(trained) == 3
        if len(slept) == 2:
            append(tmp_path / FILE, lab.run(theirs, tmp_path))
            trained.pop()
            claim.__exit__(None, None, None)

    monkeypatch.setattr(runner.time, "sleep", sleep)
    assert len(work(lab, tmp_path, Progress())) == 8
    assert slept == [runner.WAIT, runner.WAIT]
    assert theirs not in trained
    assert len(trained) == 7


def test_what_another_left_undone_is_taken_over(lab, tmp_path, trained, monkeypatch):
    trained.on(lab)
    theirs = lab.plan.grid()[0]
    claim = _claimed(tmp_path, theirs, lab)
    assert claim.__enter__()
    monkeypatch.setattr(runner.time, "sleep", lambda seconds: claim.__exit__(None, None, None))
    work(lab, tmp_path, Progress())
    assert trained[3] == theirs
    assert len(trained) == 8


def test_what_another_finished_in_the_meantime_is_not_done_again(lab, tmp_path, trained):
    """Between reading the records and claiming a run."""
    trained.on(lab)
    theirs = lab.plan.grid()[1]

    class Quicker(Progress):
        def note(self, text):
            if text.startswith("  ") and theirs not in values(tmp_path):
                append(tmp_path / FILE, lab.run(theirs, tmp_path))

    work(lab, tmp_path, Quicker())
    assert trained.count(theirs) == 1
    assert len(read_records(tmp_path / FILE)) == 8


def test_runs_on_other_data_are_refused(lab, whole, tmp_path):
    folder, _ = whole
    other = Laboratory(lab.plan, quick.texts(tmp_path / "other", shift=1))
    before = (folder / FILE).read_bytes()
    with pytest.raises(ValueError, match=r"has runs on other data \(\w{16}\), got \w{16}: give data as it was"):
        work(other, folder, Progress())
    assert (folder / FILE).read_bytes() == before


def test_hidden_files_are_no_data(lab, tmp_path):
    """A file manager may leave some beside those that are read."""
    texts = quick.texts(tmp_path / "texts")
    before = Laboratory(lab.plan, texts).data
    (texts / ".hidden").mkdir()
    for path in (texts / ".DS_Store", texts / ".hidden" / "notes.txt"):
        path.write_text("nothing to learn from", encoding="utf-8")
    assert Laboratory(lab.plan, texts).data == before


def test_runs_that_do_not_say_their_data_are_refused(lab, whole, tmp_path):
    for record in read_records(whole[0] / FILE)[:2]:
        append(tmp_path / FILE, replace(record, environment={}))
    with pytest.raises(ValueError, match=r"has runs on other data \(they do not say which\), got \w{16}"):
        work(lab, tmp_path, Progress())


def test_a_damaged_file_is_refused_and_left(lab, whole, tmp_path):
    lines = (whole[0] / FILE).read_bytes().splitlines(keepends=True)
    (tmp_path / FILE).write_bytes(lines[0] + b"rubbish\n" + lines[1])
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(ValueError, match=r"records.jsonl:2: "):
        work(lab, tmp_path, Progress())
    assert (tmp_path / FILE).read_bytes() == before


@pytest.mark.parametrize("taken", [0, 10])
def test_a_full_disk_loses_a_run_and_nothing_else(taken, lab, tmp_path, trained, monkeypatch):
    trained.on(lab)
    write, calls = os.write, []

    def full(handle, line):
        calls.append(line)
        if len(calls) < 3:
            return write(handle, line)
        if taken:
            return write(handle, line[:taken])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=r"No space left|the disk took only a part"):
        work(lab, tmp_path, Progress())
    monkeypatch.setattr(os, "write", write)
    assert len(read_records(tmp_path / FILE)) == 2
    assert (tmp_path / FILE).read_bytes().endswith(b"\n")
    assert len(work(lab, tmp_path, Progress())) == 8


def unlike(data, trained, primary):
    """Two processes that make runs otherwise: one at a time, and two."""
    told = quick.plan(exploratory=False, primary=primary, arms=("standard", "split_kv", "gated"))
    labs = [Laboratory(told, data, at_once) for at_once in (1, 2)]
    for lab in labs:
        trained.on(lab)
    return labs


def keep(folder, records):
    """Of the runs that are there, these."""
    (folder / FILE).unlink()
    for record in records:
        append(folder / FILE, record)


def test_a_run_pairs_with_one_that_was_made_alike(data, tmp_path, trained):
    """With another number at once, say: the pair could not be judged."""
    once, twice = unlike(data, trained, (("split_kv", "standard"),))
    records = work(once, tmp_path, Progress())
    keep(tmp_path, [one for one in records if one.phase == "grid" or one.seed == 0 or one.arm == "standard"])
    heard = quick.Heard()
    with pytest.raises(ValueError, match=r"made otherwise.*: split_kv seed 1 \(runs_at_once 2 / 1, now / then\)"):
        work(twice, tmp_path, heard, heard.begins)
    # By gated nothing is claimed.
    assert [key.arm for key in heard.begun] == ["gated"]
    assert len(work(once, tmp_path, Progress())) == len(records)


def test_runs_that_are_compared_by_way_of_a_third_are_made_alike(data, tmp_path, trained):
    once, twice = unlike(data, trained, (("gated", "standard"), ("gated", "split_kv")))
    records = work(once, tmp_path, Progress())
    keep(tmp_path, [one for one in records if one.phase == "grid" or (one.arm, one.seed) == ("standard", 0)])
    heard = quick.Heard()
    with pytest.raises(ValueError, match=r"split_kv seed 0 \(runs_at_once 2 / 1"):
        work(twice, tmp_path, heard, heard.begins)
    # Of the other seed nothing was there.
    assert [(key.arm, key.seed) for key in heard.begun] == [("standard", 1), ("split_kv", 1), ("gated", 1)]


def test_who_is_at_a_pair_s_other_run_decides_how_it_is_made(data, tmp_path, trained):
    """Two kinds of machines share a folder: the second leaves the first its pair, and waits."""
    once, twice = unlike(data, trained, (("split_kv", "standard"),))
    grid = [record for record in work(once, tmp_path, Progress()) if record.phase == "grid"]
    keep(tmp_path, grid)
    left = remaining(once.plan, grid)
    theirs, other = left[:2]
    assert (theirs.arm, other.arm, theirs.seed) == ("standard", "split_kv", other.seed)
    with _claimed(tmp_path, theirs, once):
        heard = quick.Heard()
        file = RecordFile(tmp_path / FILE)
        while runner._did_one(twice, tmp_path, file, remaining(once.plan, file.read()), heard, heard.begins):
            pass
        assert heard.begun == [key for key in left if key not in (theirs, other)]
    # Once it is given up, anybody may.
    assert len(work(twice, tmp_path, Progress())) == len(grid) + len(left)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_asks_for_an_end_when_a_run_is_done_loses_nothing(number, lab, tmp_path, trained):
    def ended(key):
        os.kill(os.getpid(), number)
        return 2.0

    trained.on(lab, ended)
    with pytest.raises(Stopped, match=f"{number.name} stopped .*; what is finished is kept") as stopped:
        work(lab, tmp_path, Progress())
    assert stopped.value.exit_code == 128 + number
    assert [record.key for record in read_records(tmp_path / FILE)] == trained == lab.plan.grid()[:1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_waits_for_others_ends_when_asked(number, lab, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "taken", lambda path, wait: None)
    monkeypatch.setattr(runner.time, "sleep", lambda seconds: os.kill(os.getpid(), number))
    with pytest.raises(Stopped):
        work(lab, tmp_path, Progress())


def test_a_run_that_fails_gives_its_claim_back(lab, tmp_path, monkeypatch):
    def failing(key, folder):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(lab, "run", failing)
    with pytest.raises(RuntimeError, match="out of memory"):
        work(lab, tmp_path, Progress())
    with _claimed(tmp_path, lab.plan.grid()[0], lab) as is_mine:
        assert is_mine


@pytest.mark.parametrize("arm", ["a/../../b", "split_kv:raw", "..", "x" * 300, "\udcff", "名前"])
@pytest.mark.parametrize("experiment", ["../up/and/away", "e" * 300])
def test_files_of_runs_stay_where_they_belong(arm, experiment):
    name = _name(Key(experiment, "grid", arm, 0, 1e-3, 10))
    assert "/" not in name
    assert ":" not in name
    assert len(name.encode()) < 100
    assert name != _name(Key(experiment, "grid", arm, 0, 2e-3, 10))
