"""The words of `twofold compare`: what there is to say, and what is refused in a line before anything is begun."""

from pathlib import Path

import pytest
import torch

from tests.lab import quick
from twofold.cli import main, processes
from twofold.cli.processes import BESIDE
from twofold.lab.arms import ARMS
from twofold.lab.plan import read_plan
from twofold.lab.trial import Laboratory
from twofold.tasks import TASKS
from twofold.tasks.registry import task_class
from twofold.training.progress import span

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return quick.texts(tmp_path_factory.mktemp("texts"))


def test_help(capsys):
    assert main(["compare"]) == 2
    assert main(["compare", "--help"]) == 0
    said = capsys.readouterr().out
    for name in (*ARMS, "--register", "captioning"):
        assert name in said
    assert main(["compare", "lm", "--help"]) == 0
    said = capsys.readouterr().out
    assert "--at-once" in said
    assert BESIDE not in said


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("[0, 1, 2, 3, 4, 5, 6, 7]", "[0, 1, 2, 3, 4]", "cannot be registered: 5 seeds give a p of 0.0625"),
        ("[1e-3, 2e-3, 4e-3, 1e-2]", "[1e-3]", "lrs must be at least 4 rates, got 1"),
        ('task = "lm"', 'task = "chess"', "plan.toml: task must be one of goals, "),
        ('task = "lm"', 'task = "ner"', "plan.toml: context_length is not among the options"),
        (
            '"standard", "split_kv"]\nbase',
            '"standard", "split"]\nbase',
            "plan.toml: baseline and primary must be",
        ),
        ("width = 16", "learning_rate = 1.0", "plan.toml: learning_rate is not among"),
        ("width = 16", 'width = "16"', "plan.toml: width must be a whole number"),
        ("lower_is_better = true", "lower_is_better = maybe", "plan.toml: "),
        ("lower_is_better = true", "lower_is_better = false", "plan.toml: lower_is_better must be true for nats_per_"),
        ('"nats_per_token"', '"accuracy"', "plan.toml: metric must be one of perplexity, nats_per_token"),
        ("width = 16", "width = 15", "plan.toml: width must be a multiple of heads (2), got 15"),
        ("width = 16", 'width = 16\ntokenization = "bpe"\nvocabulary = 50', "vocabulary must be at least 260 for bpe"),
        ("width = 16", "width = 16\nworkers = 2", "plan.toml: workers is not among"),
        ("seeds = [0,", "grid_seeds = [7, 8]\nseeds = [0,", "grid_seeds must be none of seeds"),
        ("hypothesis", "hypnosis", "plan.toml: unknown field 'hypnosis'"),
    ],
)
def test_a_plan_that_will_not_do_is_refused_in_a_line(old, new, complaint, tmp_path, capsys):
    plan, out = tmp_path / "plan.toml", tmp_path / "lab"
    assert old in quick.TOML
    plan.write_text(quick.TOML.replace(old, new), encoding="utf-8")
    assert main(["compare", "--register", str(plan), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["--register", "nowhere.toml"], "nowhere.toml: there is no such file"),
        (["--register", "."], "directory"),
        (["--register", "plan.toml", "--arms", "standard", "wide"], "leave out --arms, or --register"),
        (["ner", "--register", "plan.toml"], "is a plan for lm, not for ner"),
        (["--out", "x"], "say which task to compare on"),
        (["chess"], "unknown task 'chess'"),
        (["lm", "--nonsense"], "nonsense"),
        (["lm", "--arms", "standard", "spilt_kv"], "got 'spilt_kv'"),
        (["lm", "--arms", "standard", "a/b"], "got 'a/b'"),
        (["lm", "--arms"], "arms must be"),
        (["--pool"], "--pool needs at least two comparisons that can be judged, got 0"),
        (["lm", "--arms", "standard"], "arms must be"),
        (["lm", "--arms", "standard", "standard"], "arms must be"),
        (["lm", "--seeds", "0"], "seeds must be from 1 to 10000, got 0"),
        (["lm", "--seeds", "1000000000000"], "seeds must be from 1 to 10000"),
        (["lm", "--lrs", "0"], "lrs must be"),
        (["lm", "--lrs", "1e-3", "1e999"], "lrs must be"),
        (["lm", "--tokens", "0"], "budgets must be"),
        (["lm", "--tokens", "1" + "0" * 400], "budgets must be"),
        (["lm", "--width", "1" + "0" * 30], "width must be a whole number from 1 to"),
        (["lm", "--share", "1" + "0" * 400], "share must be"),
        (["lm", "--at-once", "0"], "at_once must be from 1 to 256, got 0"),
        (["lm", "--at-once", "100000"], "at_once must be from 1 to 256, got 100000"),
        (["lm", "--metric", "bleu"], "metric must be one of perplexity, "),
        (["lm", "--wdith", "16"], "wdith"),
        (["lm", "--width", "wide"], "width"),
        (["lm", "--size", "huge"], "size"),
        (["lm", "--seed", "1"], "seed is set by the comparison itself, got 1: use --seeds"),
        (["lm", "--keep", "1"], "keep is set by the comparison itself, got 1: leave it out"),
        (["lm", "--beams", "2"], "beams"),
        (["lm", "--dropout", "nan"], "dropout must be a number"),
        (["lm", "--lengths", "2", "2"], "lengths must be different"),
        (["lm", "--lengths", "2.5"], "lengths must be"),
        (["lm", "--data", "nowhere"], "nowhere"),
        (["lm", "--data", "hub:someone/something"], "a comparison needs files"),
        (["--register", "plan.toml", "--out", "plan.toml"], "plan.toml must be a folder, and is a file"),
        (["lm", "--out", "plan.toml"], "plan.toml must be a folder, and is a file"),
        (["lm", "--data", "texts", "--out", "texts/lab"], "texts/lab must not lie in texts"),
        (["lm", "--data", "texts", "--out", "texts"], "texts must not lie in texts"),
    ],
)
def test_wrong_words_get_a_line_and_leave_nothing(given, complaint, data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(quick.TOML, encoding="utf-8")
    more = [] if "--data" in given or given[0] != "lm" else ["--data", str(data)]
    more += ["--tokens", "100"] if given[0] == "lm" and "--tokens" not in given else []
    assert main(["compare", *given, *more]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]


def test_a_report_of_somebody_else_is_left_alone(data, tmp_path, capsys):
    (tmp_path / "report.md").write_text("my own notes")
    assert main(["compare", "lm", "--data", str(data), "--tokens", "100", "--out", str(tmp_path)]) == 2
    assert "report.md is there and of no comparison: choose another folder with --out" in capsys.readouterr().err
    toy = Path(__file__).parents[2] / "examples" / "plans" / "toy.toml"
    assert main(["compare", "--register", str(toy), "--out", str(tmp_path)]) == 2
    assert "report.md is there and of no comparison" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.md", "my own notes")]


def test_processes_of_torchrun_are_refused(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["compare", "lm", "--data", str(data), "--out", str(tmp_path / "lab")]) == 2
    assert "start them without torchrun" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("count", "visible", "found"),
    [(0, None, []), (2, None, ["0", "1"]), (2, "3,5", ["3", "5"]), (1, "GPU-ab,GPU-cd", ["GPU-ab"]), (0, "", [])],
)
def test_gpus_are_those_that_the_user_left_visible(count, visible, found, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert processes._gpus() == found


def test_processes_share_out_the_gpus(monkeypatch):
    started = []
    monkeypatch.setattr(processes, "_gpus", lambda: ["3", "5"])
    monkeypatch.setattr(processes.subprocess, "Popen", lambda command, env, **options: started.append(env))
    processes.Beside(["lm"], 3).start()
    # The first process has the first of them.
    assert [env["CUDA_VISIBLE_DEVICES"] for env in started] == ["5", "3", "5"]


@pytest.mark.parametrize("task", TASKS)
def test_it_is_known_whether_less_is_better(task):
    """Of what a score is called by: an error, or what a guess costs."""
    kind = task_class(task)
    assert kind.metric in kind.metrics
    named = {name for name in kind.metrics if name.endswith("error") or name.startswith(("nats", "bits", "perplexity"))}
    assert set(kind.lower) == named


@pytest.mark.parametrize(("seconds", "told"), [(5, "5 s"), (100, "2 min"), (7200, "2.0 h")])
def test_spans(seconds, told):
    assert span(seconds) == told


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "plans").glob("*.toml")), ids=lambda path: path.stem)
def test_plans_of_the_examples_can_be_registered(path, tmp_path, capsys):
    assert main(["compare", "--register", str(path), "--out", str(tmp_path / "lab")]) == 0
    assert "runs of the grid" in capsys.readouterr().out


def test_the_toy_is_the_first_experiment_in_small():
    plan = read_plan(ROOT / "examples" / "plans" / "toy.toml")
    lab = Laboratory(plan)
    size = lab.sizes["standard"]
    assert f"{size:,} parameters" in plan.question
    assert [round(budget / size) for budget in plan.budgets] == [1, 5, 20]
    # Whole steps, or the report would say that runs did not see their budget.
    assert [lab.steps(budget) * 512 for budget in plan.budgets] == list(plan.budgets)
    # Less than one pass.
    assert plan.end < sum(map(lab.task.tokens_of, lab.rows))
