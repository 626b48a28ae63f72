"""`twofold compare` as users run it, clumsy ones included: killed, stopped, several at once, with wrong words."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.lab import quick
from twofold.cli import compare, main
from twofold.cli.processes import BESIDE, Beside, Pool, parted
from twofold.lab.arms import ARMS, Arm
from twofold.lab.records import FILE, read_records
from twofold.lab.registration import read_registration
from twofold.lab.trial import Laboratory
from twofold.report.lab.study import read_study

ROOT = Path(__file__).parents[2]
OPTIONS = [word for name, value in quick.SIZE.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return quick.texts(tmp_path_factory.mktemp("texts"))


def words(data, out, *more, steps=4, seeds=2):
    """The command, without `twofold`."""
    what = ["--seeds", str(seeds), "--lrs", "1e-3", "1e-2", "--tokens", str(steps * quick.STEP)]
    where = ["--metric", "nats_per_token", "--data", str(data), "--out", str(out)]
    return ["compare", "lm", *what, *where, *more, *OPTIONS]


def going_on(data, out, *more):
    return ["compare", "lm", "--data", str(data), "--out", str(out), *more]


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "lab"
    assert main(words(data, out)) == 0
    return out


@pytest.fixture
def copy(whole, tmp_path):
    """A comparison of which the first five runs are done."""
    out = tmp_path / "lab"
    out.mkdir()
    (out / "registration.json").write_bytes((whole / "registration.json").read_bytes())
    lines = (whole / FILE).read_bytes().splitlines(keepends=True)
    (out / FILE).write_bytes(b"".join(lines[:5]))
    return out


def forked(how, count, command):
    """Exit codes of so many processes (tests/cli/forked.py)."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.forked", how, str(count), *command],
        capture_output=True, text=True, timeout=120, check=True, cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert "\n" not in done.stderr.strip(), done.stderr
    return json.loads(done.stderr), done.stdout


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def values(out):
    return {record.key: record.value for record in read_records(out / FILE)}


def runs(out):
    return len(read_records(out / FILE))


def test_runs_report_and_progress(whole, data, tmp_path, capsys):
    out = tmp_path / "lab"
    assert main(words(data, out)) == 0
    said = capsys.readouterr()
    assert values(out) == values(whole)
    assert said.out.startswith("exploratory: split_kv ")
    for departure in read_study(out).departures:
        assert f"\n  note: {departure}\n" in said.out
    assert said.out.endswith(f"{out}/report.html: 8 runs\n")
    lines = said.err.splitlines()
    assert lines[0] == "compare: grid standard, rate 0.001, seed 2, 512 tokens (4 of the grid to go)"
    assert re.fullmatch(r"compare:   nats_per_token \d\.\d{4}", lines[1])
    assert re.fullmatch(r"compare: tokens 512 of 4,096  about \d+ s left", lines[2])
    assert re.fullmatch(r"compare: grid split_kv, .* \(3 of the grid to go\)", lines[3])
    assert re.fullmatch(r"compare: final split_kv, .*, seed 1, .* \(1 of the final to go\)", lines[-2])
    assert sum("to go" in line for line in lines) == 8
    for name in ("report.html", "report.md"):
        assert "does better on lm?" in (out / name).read_text()


def test_json(copy, data, capsys):
    assert main(going_on(data, copy, "--json")) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert (told["out"], told["runs"]) == (str(copy), 8)
    assert told["verdicts"][0].startswith("exploratory: ")
    assert told["departures"] == read_study(copy).departures
    # Of two rates either is at an edge.
    [departure] = told["departures"]
    assert departure.startswith("2 of the best learning rates at the edge of the grid, or level with it: standard ")
    assert said.err == ""


@pytest.mark.parametrize("command", [words, going_on])
def test_it_goes_on_and_nothing_is_done_twice(command, copy, whole, data, capsys):
    """Told the same again, or nothing but where."""
    before = (copy / FILE).read_bytes()
    assert main(command(data, copy)) == 0
    assert (copy / FILE).read_bytes().startswith(before)
    assert values(copy) == values(whole)
    capsys.readouterr()
    assert main(going_on(data, copy)) == 0
    assert capsys.readouterr().err == ""


def test_a_finished_look_around_takes_more_seeds(whole, data, tmp_path, capsys):
    out = tmp_path / "lab"
    shutil.copytree(whole, out)
    assert main(words(data, out, seeds=4)) == 0
    # The grid had seed 2, and stays as it was.
    assert {record.seed for record in read_records(out / FILE) if record.phase == "final"} == {0, 1, 3, 4}
    assert runs(out) == 12
    assert main(words(data, out, seeds=4)) == 0
    assert runs(out) == 12
    assert main(words(data, out, seeds=3)) == 2
    assert "has a plan of its own" in capsys.readouterr().err


def test_register_then_run(data, tmp_path, capsys):
    plan, out = tmp_path / "plan.toml", tmp_path / "lab"
    plan.write_text(quick.TOML, encoding="utf-8")
    assert main(["compare", "--register", str(plan), "--out", str(out), "--data", str(data)]) == 0
    said = capsys.readouterr().out
    assert "16 runs of the grid, then 16 to compare" in said
    assert f"Next: twofold compare lm --out {out} --data {data}" in said
    # Again is no other plan.
    assert main(["compare", "lm", "--register", str(plan), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sha256"] == read_registration(out).sha256
    assert main(going_on(data, out)) == 0
    said = capsys.readouterr().out
    # Nothing is wrong but that two steps are too few to say which rate is best.
    why = "the best learning rate is at the edge of the grid, or level with it ("
    assert said.startswith(f"not judged: of split_kv against standard, {why}")
    assert said.endswith("32 runs\n")
    departures = read_study(out).departures
    assert departures
    assert all("at the edge of the grid" in departure for departure in departures)
    # What was fixed stays, and the runs with it.
    plan.write_text(quick.TOML.replace("1e-3, 2e-3", "1e-3, 3e-3"), encoding="utf-8")
    assert main(["compare", "--register", str(plan), "--out", str(out)]) == 2
    assert "has another plan" in capsys.readouterr().err
    assert main(["compare", "lm", "--out", str(out), "--data", str(data), "--seeds", "2"]) == 2
    assert "has a plan of its own" in capsys.readouterr().err
    told = json.loads((out / "registration.json").read_text())
    told["plan"]["seeds"].append(8)
    (out / "registration.json").write_text(json.dumps(told))
    assert main(going_on(data, out)) == 2
    assert "was changed after it was registered" in capsys.readouterr().err
    assert runs(out) == 32


def test_a_plan_of_another_task_and_other_data_are_refused(copy, data, tmp_path, capsys):
    before = (copy / FILE).read_bytes()
    others = quick.texts(tmp_path / "others", shift=1)
    for command, complaint in (
        (["compare", "goals", "--out", str(copy)], f"{copy} has a comparison on lm, not on goals"),
        (going_on(others, copy), "has runs on other data"),
        (going_on(others, copy, "--at-once", "2"), "has runs on other data"),
    ):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert complaint in said
        assert said.count("\n") == 1
    assert (copy / FILE).read_bytes() == before


@pytest.mark.parametrize("at_once", ["1", "2"])
def test_damaged_records_are_told_once_and_left(at_once, copy, data, capfd):
    damaged = (copy / FILE).read_bytes().replace(b'"lr"', b'"LR"', 1)
    (copy / FILE).write_bytes(damaged)
    assert main(going_on(data, copy, "--at-once", at_once)) == 2
    said = capfd.readouterr().err
    assert "records.jsonl:1: " in said
    assert said.count("\n") == 1
    assert (copy / FILE).read_bytes() == damaged


@pytest.mark.parametrize("kind", [PermissionError(13, "Permission denied"), OSError(28, "No space left on device")])
def test_a_folder_that_cannot_be_written_gets_a_line(kind, copy, data, monkeypatch, capsys):
    def refused(*args, **kwargs):
        raise kind

    before = (copy / FILE).read_bytes()
    monkeypatch.setattr("twofold.lab.runner.append", refused)
    assert main(going_on(data, copy, "--json")) == 2
    said = capsys.readouterr()
    assert kind.strerror in said.err
    assert said.err.count("\n") == 1
    assert (copy / FILE).read_bytes() == before
    monkeypatch.undo()
    assert main(going_on(data, copy, "--json")) == 0
    assert runs(copy) == 8


def test_ctrl_c_ends_it_with_130_and_it_goes_on(whole, data, tmp_path, capsys):
    out = tmp_path / "lab"
    handler = signal.getsignal(signal.SIGINT)

    def ask():
        until(lambda: runs(out) >= 1)
        # Only a run listens; outside of one Ctrl-C is what it always is.
        until(lambda: signal.getsignal(signal.SIGINT) is not handler)
        os.kill(os.getpid(), signal.SIGINT)

    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    assert main(words(data, out, steps=200)) == 130
    asker.join()
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"twofold: stopped; what is finished is kept (twofold compare lm --out {out} --data {data} goes on)"
    assert 1 <= runs(out) < 8


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.long)])
def test_killed_again_and_again_it_ends_with_the_same_records(kills, whole, data, tmp_path):
    out = tmp_path / "lab"
    codes, _ = forked("kill", kills, words(data, out, "--json"))
    assert set(codes) <= {-signal.SIGKILL, 0}
    assert codes[0] == -signal.SIGKILL
    assert main(words(data, out, "--json")) == 0
    assert values(out) == values(whole)


def test_three_at_once_do_every_run_exactly_once(whole, data, tmp_path):
    """Begun at the same moment, in a folder that is not there yet."""
    out = tmp_path / "lab"
    codes, said = forked("beside", 3, words(data, out, "--json"))
    assert codes == [0, 0, 0]
    # A key that is there twice would be an error.
    assert [json.loads(line)["runs"] for line in said.splitlines()] == [8, 8, 8]
    assert values(out) == values(whole)
    assert not [departure for departure in read_study(out).departures if "edge" not in departure]


def test_at_once_another_process_takes_a_part(whole, data, tmp_path, monkeypatch, capfd):
    """However the option is spelt; and that process starts none of its own."""
    out, run, ours = tmp_path / "lab", Laboratory.run, []

    def patient(lab, key, folder):
        ours.append(key)
        until(lambda: runs(out) > 0)
        return run(lab, key, folder)

    monkeypatch.setattr(Laboratory, "run", patient)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert main(words(data, out, "--at_once", "2", "--json")) == 0
    said = capfd.readouterr()
    assert said.err == ""
    assert json.loads(said.out)["runs"] == 8
    assert 0 < len(ours) < 8
    assert values(out) == values(whole)
    assert {record.environment["runs_at_once"] for record in read_records(out / FILE)} == {2}


def test_a_process_beside_that_dies_is_told_of_and_its_runs_are_done(copy, data, monkeypatch, capfd):
    fork = compare.Beside

    class Doomed(fork):
        def __init__(self, words, count):
            assert count == 1
            super().__init__([*words[:1], "--nonsense"], count)

        def start(self):
            super().start()
            self.running[0].wait()

    monkeypatch.setattr(compare, "Beside", Doomed)
    assert main(going_on(data, copy, "--at-once", "2", "--json")) == 0
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2
    assert "nonsense" in said[0]
    assert said[1] == "twofold: a process beside this one ended with 2; its runs are left to others"
    assert runs(copy) == 8


def test_one_that_is_killed_is_told_of_once_and_none_goes_on_alone(monkeypatch, capsys):
    def sleeping(self, words, environment, **options):
        self.running.append(subprocess.Popen(["sleep", "60"]))

    monkeypatch.setattr(Pool, "launch", sleeping)
    beside = Beside([], 2)
    beside.start()
    first, second = beside.running
    beside.start()
    assert beside.running == [first, second]
    beside.tell()
    assert capsys.readouterr().err == ""
    first.kill()
    first.wait()
    beside.tell()
    beside.tell()
    assert capsys.readouterr().err == "twofold: a process beside this one ended with -9; its runs are left to others\n"
    beside.end()
    assert second.returncode == -signal.SIGTERM


def test_others_start_at_once_where_a_comparison_goes_on(copy, data, tmp_path, monkeypatch):
    """A new one is looked through first, so that one process says what is wrong with it."""
    order = []

    class Told(Beside):
        def start(self):
            order.append("others")

    class Looked(Laboratory):
        def __init__(self, *arguments):
            order.append("laboratory")
            super().__init__(*arguments)

    monkeypatch.setattr(compare, "Beside", Told)
    monkeypatch.setattr("twofold.lab.trial.Laboratory", Looked)
    assert main(going_on(data, copy, "--json")) == 0
    assert order[:2] == ["others", "laboratory"]
    order.clear()
    assert main(words(data, tmp_path / "new", "--json")) == 0
    assert order[:2] == ["laboratory", "others"]


def test_no_more_processes_than_runs(copy, data, monkeypatch):
    asked = []

    class Counted(Beside):
        def __init__(self, words, count):
            asked.append(count)
            super().__init__(words, 0)

    monkeypatch.setattr(compare, "Beside", Counted)
    assert main(going_on(data, copy, "--at-once", "200", "--json")) == 0
    assert main(going_on(data, copy, "--at-once", "200", "--json")) == 0
    # One that stands beside another starts none.
    assert main(going_on(data, copy, "--at-once", "200", f"{BESIDE}{os.getppid()}")) == 0
    assert asked == [2, 0, 0]


def test_a_process_whose_first_one_is_gone_begins_nothing():
    with pytest.raises(SystemExit):
        compare._check_parent(-1)
    compare._check_parent(os.getppid())


def test_one_that_starts_after_its_first_one_is_gone_does_nothing(copy, data):
    """However long torch takes to import: whose it is, the command says."""
    before = (copy / FILE).read_bytes()
    with pytest.raises(SystemExit):
        main(going_on(data, copy, f"{BESIDE}{2**22 + 1}"))
    assert (copy / FILE).read_bytes() == before


def test_the_command_beside_names_its_first_one(monkeypatch):
    commands = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: commands.append(command))
    Beside(["lm", "--json"], 1).start()
    parent, words = parted(commands[0][5:])
    assert (parent, words) == (os.getpid(), ["lm", "--json"])
    assert parted(["lm"]) == (None, ["lm"])


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (lambda key: key.arm == "standard", "not judged: "),
        (lambda key: key.arm == "split_kv" and (key.phase, key.seed) == ("final", 1), "not judged: "),
        (lambda key: key.lr == 1e-2, "exploratory: "),
    ],
)
def test_what_diverged_is_reported(bad, said, data, tmp_path, monkeypatch, capsys):
    run = Laboratory.run

    def diverging(lab, key, folder):
        record = run(lab, key, folder)
        return replace(record, value=None, curve=()) if bad(key) else record

    monkeypatch.setattr(Laboratory, "run", diverging)
    assert main(words(data, tmp_path / "lab", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["verdicts"][0].startswith(said)


def test_a_single_token_is_a_step(data, tmp_path):
    out = tmp_path / "lab"
    command = words(data, out, "--json")
    command[command.index("--tokens") + 1] = "1"
    assert main(command) == 0
    assert {record.tokens for record in read_records(out / FILE)} == {quick.STEP}


def test_where_everything_diverges_nothing_is_judged(data, tmp_path, capsys):
    out = tmp_path / "lab"
    command = words(data, out, "--json")
    command[command.index("1e-3")] = "1e6"
    command[command.index("1e-2")] = "1e7"
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["verdicts"][0].startswith("not judged")
    assert {record.value for record in read_records(out / FILE)} == {None}
    assert runs(out) == 4


def test_an_arm_of_one_s_own_whatever_its_name(data, tmp_path, monkeypatch, capsys):
    name = "mine/../<b>ü"
    monkeypatch.setitem(ARMS, name, Arm(name=name, source="an afternoon", fields={"attention": "split_key"}))
    out = tmp_path / "lab"
    assert main(words(data, out, "--arms", "standard", name, "--json")) == 0
    assert name in json.loads(capsys.readouterr().out)["verdicts"][0]
    assert {record.arm for record in read_records(out / FILE)} == {"standard", name}
    assert [path.name for path in tmp_path.iterdir()] == ["lab"]


OWN = """
from twofold.lab.arms import ARMS, Arm
from twofold.lab.rivals import Gated


class Mine(Gated):
    pass


there_already = ARMS["gated"]
mine = Arm(name="mine", source="an afternoon", attention=Mine)
"""


@pytest.fixture
def own(tmp_path):
    """A file with an arm that is forgotten afterwards."""
    file = tmp_path / "mine.py"
    file.write_text(OWN, encoding="utf-8")
    with patch.dict(ARMS):
        yield file


def again(file, *command):
    """The command, in a process that knows nothing yet."""
    with patch.dict(ARMS):
        ARMS.pop("mine", None)
        return main([*command, "--arms-from", str(file)])


def test_an_arm_from_a_file_is_compared_by_several_processes(own, data, tmp_path, capfd):
    out = tmp_path / "lab"
    both = ["--arms", "standard", "mine", "--at-once", "2", "--json"]
    assert again(own, *words(data, out, *both)) == 0
    assert "mine" in json.loads(capfd.readouterr().out)["verdicts"][0]
    found = read_records(out / FILE)
    assert {record.arm for record in found} == {"standard", "mine"}
    # Both arms of a pair tell what made one of them.
    assert len({record.environment["own_arms"] for record in found}) == 1
    assert read_study(out).departures[1:] == []


def test_a_plan_with_an_arm_from_a_file(own, data, tmp_path, capsys):
    out, plan = tmp_path / "lab", tmp_path / "plan.toml"
    plan.write_text(quick.TOML.replace("split_kv", "mine"), encoding="utf-8")
    asked = ["compare", "--register", str(plan), "--out", str(out)]
    assert main(asked) == 2
    assert "got 'mine'" in capsys.readouterr().err
    assert again(own, *asked) == 0
    assert f"--out {out} --arms-from {own}" in capsys.readouterr().out
    assert main(going_on(data, out)) == 2
    assert "got 'mine'" in capsys.readouterr().err


def test_an_arm_that_was_changed_does_no_run_whose_other_half_was_made_by_the_old_one(own, data, tmp_path, capsys):
    out, plan = tmp_path / "lab", tmp_path / "plan.toml"
    plan.write_text(quick.TOML.replace("split_kv", "mine"), encoding="utf-8")
    assert again(own, "compare", "--register", str(plan), "--out", str(out)) == 0
    assert again(own, *going_on(data, out)) == 0
    done = (out / FILE).read_bytes().splitlines(keepends=True)
    (out / FILE).write_bytes(b"".join(done[:-1]))
    capsys.readouterr()
    # Of the same size, and at once: what was compiled of the old one is not taken for it.
    for changed in (
        OWN + "# changed",
        OWN.replace("Mine(Gated)", "Mine(Tied) ").replace("import Gated", "import Tied "),
    ):
        own.write_text(changed, encoding="utf-8")
        assert again(own, *going_on(data, out)) == 2
        assert "has runs of another version of your own arms" in capsys.readouterr().err
    own.write_text(OWN, encoding="utf-8")
    assert again(own, *going_on(data, out)) == 0
    assert runs(out) == len(done)


def test_several_processes_need_the_file(own, data, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(ARMS, "mine", Arm(name="mine", source="a script"))
    assert main(words(data, tmp_path / "lab", "--arms", "standard", "mine", "--at-once", "2")) == 2
    said = capsys.readouterr().err
    assert "do not know the arm 'mine': name its file with --arms-from" in said
    assert not (tmp_path / "lab").exists()


def test_a_mistake_in_an_arm_is_found_before_the_first_run(own, data, tmp_path, capsys):
    own.write_text(
        "from twofold.lab.arms import Arm\nfrom twofold.models.layers import SelfAttention\n\n\n"
        "class Slip(SelfAttention):\n    def project(self, x, positions=None):\n"
        "        return super().projekt(x, positions)\n\n\nmine = Arm(name='slip', source='me', attention=Slip)\n"
    )
    arms = ["--arms", "standard", "slip", "--arms-from", str(own)]
    assert main(words(data, tmp_path / "lab", *arms)) == 2
    said = capsys.readouterr().err
    assert "arm 'slip' cannot be trained: AttributeError: 'super' object has no attribute 'projekt'" in said
    assert not (tmp_path / "lab" / FILE).exists()


def test_an_arm_is_tried_as_it_will_be_trained(own, data, tmp_path, capsys):
    """In its precision, and without a cache."""
    own.write_text(
        "import torch\nfrom twofold.lab.arms import Arm\nfrom twofold.models.layers import SelfAttention\n\n\n"
        "class Particular(SelfAttention):\n    def project(self, x, positions=None):\n"
        "        new = super().project(x, positions)\n"
        "        if self.training and new.value.dtype != torch.bfloat16:\n"
        "            raise TypeError(f'needs bfloat16, got {new.value.dtype}')\n"
        "        return new\n\n\nmine = Arm(name='particular', source='me', attention=Particular)\n"
    )
    arms = ["--arms", "standard", "particular", "--seeds", "1", "--lrs", "1e-3"]
    assert again(own, *words(data, tmp_path / "lab", *arms, "--precision", "bf16")) == 0
    assert again(own, *words(data, tmp_path / "other", *arms)) == 2
    assert "arm 'particular' cannot be trained: TypeError: needs bfloat16, got torch.float32" in capsys.readouterr().err


def test_a_dev_split_that_was_cut_is_told(data, tmp_path, capsys):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "train.txt").write_bytes((data / "train.txt").read_bytes() * 3)
    assert main(words(tmp_path / "texts", tmp_path / "lab", "--seeds", "1", "--lrs", "1e-3")) == 0
    assert "twofold: dev and test are cut from train, for the data has none\n" in capsys.readouterr().err


def test_data_without_train_are_a_line(data, tmp_path, capsys):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "test.txt").write_bytes((data / "train.txt").read_bytes())
    for more in ([], ["--tokens", "512"]):
        assert main(["compare", "lm", "--data", str(tmp_path / "texts"), "--out", str(tmp_path / "lab"), *more]) == 2
        assert "texts has no train and no dev split: train and dev are needed\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (None, "must be a Python file with arms in it"),
        ("", "must have an Arm of its own by a name at its top, such as: mine = Arm("),
        ("from twofold.lab.arms import ARMS", "must have an Arm of its own"),
        ("1 / 0", "could not be run: ZeroDivisionError: division by zero"),
        ("a b", "could not be run: SyntaxError: invalid syntax"),
        (OWN.replace('"mine"', '"gated"'), "there is an arm 'gated' already"),
        (f"{OWN}more = Arm(name='mine', source='me')", "there is an arm 'mine' already"),
        (OWN.replace('"mine"', '"mine:raw"'), "name must be a line without a colon, got 'mine:raw'"),
        (OWN.replace('"mine"', r'"mi\nne"'), r"name must be a line without a colon, got 'mi\nne'"),
        ("raise SystemExit(0)", "could not be run: SystemExit: 0"),
    ],
)
def test_a_file_without_an_arm_gets_a_line(code, said, own, tmp_path, capsys):
    own.unlink() if code is None else own.write_text(code, encoding="utf-8")
    assert main(["compare", "goals", "--out", str(tmp_path / "lab"), "--arms-from", str(own)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert str(own) in told
    assert told.count("\n") == 1
    assert not (tmp_path / "lab").exists()
