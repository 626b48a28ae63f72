"""One run: what its record holds, that it is the same again, and what arms of a seed share."""

import json
import math
import os
import re
import signal
from dataclasses import asdict, replace

import pytest
import torch

from tests.lab import quick
from twofold.data.examples import Splits
from twofold.lab.records import Key, Point, Record
from twofold.lab.trial import Laboratory, _Looks, _uniform
from twofold.tasks import TASKS
from twofold.tasks.registry import task_class
from twofold.training import Stopped

LR = 1e-2
OWN = {"test": True, "lengths": [1, 2]}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return quick.texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def lab(data):
    plan = quick.plan(arms=("standard", "tied", "split_kv", "split_kv:raw", "wide"), size=quick.SIZE | OWN)
    return Laboratory(plan, data)


def key(arm="standard", seed=0, lr=LR, steps=12, phase="final"):
    return Key("quick", phase, arm, seed, lr, steps * quick.STEP)


@pytest.fixture(scope="module")
def run(lab, tmp_path_factory):
    """Runs by their keys, each made once."""
    made = {}

    def give(**of):
        wanted = key(**of)
        if wanted not in made:
            made[wanted] = lab.run(wanted, tmp_path_factory.mktemp("run") / "here")
        return made[wanted]

    return give


def values(record):
    """All that chance and the clock have no part in."""
    told = asdict(record)
    curve = [(point.tokens, point.value) for point in record.curve]
    return {name: one for name, one in told.items() if name not in ("seconds", "environment")} | {"curve": curve}


def test_a_record_is_complete(run, lab):
    record = run(arm="split_kv")
    assert record.key == key("split_kv")
    assert (record.metric, record.parameters) == ("nats_per_token", lab.sizes["split_kv"])
    assert record.value == record.curve[-1].value < record.curve[0].value < math.log(len(lab.task.tokenizer)) + 1
    assert record.tokens == record.curve[-1].tokens == pytest.approx(record.budget, rel=0.05)
    assert len(record.curve) == quick.SIZE["evaluations"]
    assert 0 < record.seconds == record.curve[-1].seconds
    assert record.gradient_tail >= 1
    assert [len(weights.layers) for weights in record.self_weights] == [1] * len(record.curve)
    assert 0 < record.uniform_self_weight < 1
    assert record.test > 0
    # What every text, or piece of one, adds to the two scores; here there is one.
    for sums, score in ((record.texts, record.value), (record.test_texts, record.test)):
        assert len(sums.parts) == len(sums.wholes) == 1
        assert sums.score == pytest.approx(score, rel=1e-5)
    environment = record.environment
    assert environment["data"] == lab.data
    assert {"date", "commit", "torch", "cpu", "threads", "runs_at_once"} <= environment.keys()
    # What a file gives back is the same run.
    assert Record.from_json(json.loads(json.dumps(record.as_json()))) == record


def test_longer_pieces_than_in_training_are_scored_at_the_end(run, lab):
    """Once as long is the value itself; twice as long is another, for more is seen at once."""
    (_, once), (times, twice) = run(arm="split_kv").beyond
    assert (once, times) == (pytest.approx(run(arm="split_kv").value), 2)
    assert math.isfinite(twice)
    assert twice != once
    assert run(arm="split_kv", phase="grid").beyond == ()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"task": "classification", "metric": "accuracy", "lower_is_better": False},
            "reads each text as long as it is",
        ),
        ({"size": quick.SIZE | {"lengths": [1.5]}}, "lengths must be"),
    ],
)
def test_lengths_that_a_model_cannot_read_are_found_before_the_first_run(changes, complaint, data):
    size = {"width": 16, "layers": 1, "heads": 2, "lengths": [2]}
    with pytest.raises(ValueError, match=complaint):
        Laboratory(quick.plan(**{"size": size} | changes), None if "task" in changes else data)


def test_a_run_of_the_grid_is_the_same_without_what_the_grid_does_not_need(run):
    grid, final = run(phase="grid"), run()
    assert grid.value == final.value
    assert (grid.self_weights, grid.test, grid.texts) == ((), None, None)


def test_the_same_key_gives_the_same_bits(run, lab, tmp_path):
    torch.manual_seed(1234)
    again = lab.run(key("split_kv"), tmp_path / "again")
    assert values(again) == values(run(arm="split_kv"))
    assert not (tmp_path / "again").exists()
    assert values(run(arm="split_kv", seed=1))["value"] != again.value


def test_what_a_killed_run_left_is_cleared_away(run, lab, tmp_path):
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "metrics.jsonl").write_text('{"kind": "run", "version')
    assert lab.run(key(), tmp_path / "left").value == run().value


@pytest.mark.parametrize("changes", [{}, {"attention_dropout": 0.3}, {"batch_tokens": 100}])
def test_arms_of_a_seed_see_the_same_batches(changes, data, tmp_path, monkeypatch):
    lab = Laboratory(quick.plan(arms=("standard", "wide", "split_kv", "gated"), size=quick.SIZE | changes), data)
    seen = {}
    collate = lab.task.collate
    for arm in (*lab.plan.arms, "other seed"):
        batches = seen[arm] = []

        def listening(rows, batches=batches):
            batches.append(made := collate(rows))
            return made

        monkeypatch.setattr(lab.task, "collate", listening)
        wanted = key(seed=1) if arm == "other seed" else key(arm)
        # Self weights collate too.
        lab.run(wanted._replace(phase="grid"), tmp_path / "run")
    first = seen["standard"]
    assert len(first) >= 12
    for arm in lab.plan.arms:
        assert len(seen[arm]) == len(first)
        assert all(
            torch.equal(ours["input_ids"], theirs["input_ids"]) for ours, theirs in zip(seen[arm], first, strict=True)
        )
    others = zip(seen["other seed"], first, strict=False)
    assert not all(torch.equal(ours["input_ids"], theirs["input_ids"]) for ours, theirs in others)


def test_the_tied_control_follows_standard(run):
    tied, standard, split = run(arm="tied"), run(), run(arm="split_kv")
    ours, theirs = ([point.value for point in record.curve] for record in (tied, standard))
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert split.value != pytest.approx(standard.value, rel=1e-5)


def test_sizes(lab):
    sizes = lab.sizes
    assert sizes["split_kv:raw"] > sizes["standard"]
    assert sizes["split_kv"] == pytest.approx(sizes["standard"], rel=0.01)
    # Their feed-forwards are cut to whole columns.
    assert sizes["wide"] == pytest.approx(sizes["split_kv:raw"], rel=0.01)


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_run_that_diverges_has_no_value(run):
    record = run(lr=1e6)
    assert record.value is None
    assert record.seconds > 0
    assert record.tokens < record.budget
    assert record.test is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_asks_for_an_end_during_a_look_is_heard(number, lab, tmp_path, monkeypatch):
    looks = []

    def scores(model, split):
        os.kill(os.getpid(), number)
        looks.append(split)
        return {"nats_per_token": 2.0}

    monkeypatch.setattr(lab.task, "scores", scores)
    with pytest.raises(Stopped) as stopped:
        lab.run(key(), tmp_path / "run")
    assert stopped.value.exit_code == 128 + number
    assert len(looks) == 1
    assert not (tmp_path / "run").exists()


def test_a_mistake_in_scoring_is_no_divergence(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(lab.task, "scores", lambda model, split: {"nats_per_token": 1 / 0})
    with pytest.raises(ZeroDivisionError):
        lab.run(key(), tmp_path / "run")


def test_seconds_are_steps_at_the_usual_pace(lab):
    """Neither the first step, which may compile, nor looks, nor a moment in which the machine had other work."""
    looks = _Looks(lab, weights=False)
    looks.seconds = [5.0, 7.0]
    # Steps of 0.1 s, but for the first (3 s) and ten in which something else ran (4 s); looks after 20 and 40.
    ends = {10: 3.9, 20: 4.9, 30: 10.9, 40: 14.9}
    lines = [{"kind": "step", "step": s, "seconds": t, "tokens": 8 * s} for s, t in ends.items()]
    for line, (mean, largest) in zip(lines, ((4.0, 5.0), (2.0, 9.0), (1.0, 1.5), (1.0, 1.0)), strict=True):
        line |= {"gradient_norm": mean, "largest_gradient_norm": largest}
    lines += [{"kind": "evaluation", "step": step, "value": value} for step, value in ((20, 2.0), (40, 1.0))]
    curve, seconds, tail = looks.read(lines)
    assert seconds == pytest.approx(4.0)
    assert curve == [Point(160, pytest.approx(2.0), 2.0), Point(320, pytest.approx(4.0), 1.0)]
    assert tail == 9.0 / 1.5


def test_a_score_that_is_no_number_is_a_divergence(lab, tmp_path, monkeypatch):
    told = iter([2.0, math.nan])
    monkeypatch.setattr(lab.task, "scores", lambda model, split: {"nats_per_token": next(told)})
    record = lab.run(key(), tmp_path / "run")
    assert record.value is None
    assert [point.value for point in record.curve] == [2.0]
    assert not (tmp_path / "run").exists()


def test_a_test_score_that_is_no_number_leaves_what_dev_said(lab, tmp_path, monkeypatch):
    told = iter([2.0, 1.5, math.nan])
    monkeypatch.setattr(lab.task, "scores", lambda model, split: {"nats_per_token": next(told)})
    record = lab.run(key(), tmp_path / "run")
    assert (record.value, record.test) == (1.5, None)
    assert list(told) == []


@pytest.mark.parametrize(
    ("steps", "looks", "seen"), [(1, 10, 1), (7, 7, 7), (77, 2, 2), (120, 3, 3), (60, 1, 1), (9, 5, 5)]
)
def test_there_are_as_many_looks_as_asked_for(steps, looks, seen, data, tmp_path):
    size = quick.SIZE | {"evaluations": looks, "batch_size": 1, "context_length": 4}
    lab = Laboratory(quick.plan(size=size, metric="perplexity"), data)
    record = lab.run(key()._replace(phase="grid", budget=round(steps * lab.tokens_a_step)), tmp_path / "run")
    assert len(record.curve) == seen
    assert record.curve[-1].tokens == record.tokens == steps * 4


@pytest.mark.parametrize("size", [{"batch_tokens": 100}, {"batch_tokens": 100, "buckets": False}, {"batch_size": 5}])
def test_a_run_sees_the_tokens_of_its_budget(size, data, tmp_path):
    lab = Laboratory(quick.plan(size=quick.SIZE | {"evaluations": 1} | size), data)
    assert lab.run(key(phase="grid"), tmp_path / "run").tokens == pytest.approx(12 * quick.STEP, rel=0.05)


def test_the_smallest_budget_is_a_step(lab, tmp_path):
    record = lab.run(key()._replace(budget=1), tmp_path / "run")
    assert (record.budget, record.tokens, len(record.curve)) == (1, quick.STEP, 1)
    assert record.value is not None


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"lower_is_better": False}, "lower_is_better must be true for nats_per_token of lm, got false"),
        (
            {"metric": "perplexity", "lower_is_better": False},
            "lower_is_better must be true for perplexity of lm, got false",
        ),
        ({"metric": "bleu"}, "metric must be one of perplexity, nats_per_token, .* for lm, got 'bleu'"),
        ({"arms": ("standard", "split/kv")}, "got 'split/kv'"),
        ({"size": quick.SIZE | {"heads": 3}}, "3"),
        ({"size": {"width": 2, "layers": 1, "heads": 1}, "arms": ("standard", "low_rank_32")}, "intermediate_size"),
    ],
)
def test_what_cannot_be_compared_is_found_before_the_first_run(changes, complaint, data):
    with pytest.raises(ValueError, match=complaint):
        Laboratory(quick.plan(**changes), data)


def test_where_there_is_no_gpu_none_can_be_asked_for(data, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device must be cpu or auto where torch sees no GPU"):
        Laboratory(quick.plan(size=quick.SIZE | {"device": "cuda"}), data)


@pytest.mark.parametrize(("empty", "size"), [("dev", {}), ("train", {}), ("test", {"test": True})])
def test_a_split_without_examples_is_refused(empty, size, monkeypatch):
    kind = task_class("lm")
    splits = replace(Splits(["a b"], ["a b"], ["a b"]), **{empty: []})
    monkeypatch.setattr(kind, "examples", classmethod(lambda cls, data, seed=0, choices=None: splits))
    with pytest.raises(ValueError, match=f"the embedded set has no {empty} split: train and dev"):
        Laboratory(quick.plan(size=quick.SIZE | size))


def test_a_data_set_of_the_hub_is_refused():
    with pytest.raises(ValueError, match="a comparison needs files"):
        Laboratory(quick.plan(), "hub:someone/something")


@pytest.mark.parametrize(("lengths", "is_causal", "kept"), [([1], True, 1.0), ([2], True, 0.75), ([4, 4], False, 0.25)])
def test_attending_to_all_alike(lengths, is_causal, kept):
    assert _uniform(lengths, is_causal=is_causal) == pytest.approx(kept)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_can_be_compared(task, tmp_path, monkeypatch):
    kind = task_class(task)
    whole = kind.examples.__func__

    def few(cls, *args, **kwargs):
        found = whole(cls, *args, **kwargs)
        train = found.train[:40]
        known = {label for one in train for label in kind.labels(one)}
        dev, test = ([one for one in part if known.issuperset(kind.labels(one))] for part in (found.dev, found.test))
        return replace(found, train=train, dev=dev[:6], test=test[:6])

    judged, named = kind.judged, set()

    def noted(self, *given):
        found = judged(self, *given)
        named.update(found)
        return found

    monkeypatch.setattr(kind, "examples", classmethod(few))
    monkeypatch.setattr(kind, "judged", noted)
    size = {"width": 16, "layers": 1, "heads": 2, "batch_size": 4, "evaluations": 2}
    changes = {"metric": kind.metric, "lower_is_better": kind.metric in kind.lower, "size": size}
    lab = Laboratory(quick.plan(task=task, **changes))
    assert re.fullmatch("[0-9a-f]{16}", lab.data)
    budget = round(3 * lab.tokens_a_step)
    for arm in lab.plan.arms:
        record = lab.run(key(arm)._replace(budget=budget), tmp_path / arm)
        assert record.value >= 0
        assert len(record.curve) == 2
        assert record.tokens == pytest.approx(budget, rel=0.5)
        # Of pictures nobody asks which of them attend to themselves.
        assert len(record.self_weights) == (0 if task == "captioning" else 2)
    assert {kind.metric} <= named <= set(kind.metrics)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"budgets": (6 * quick.STEP + 20,)},
            "steps, which have 128.0 tokens on average: the nearest to 788 is 768, 6 of them",
        ),
        ({"budgets": (20, 768)}, "the nearest to 20 is 128, 1 of them"),
        ({"arms": ("standard", "wide"), "primary": (("wide", "standard"),)}, "wide must not be larger than its rival"),
        (
            {"arms": ("standard", "split_kv:raw"), "primary": (("split_kv:raw", "standard"),)},
            "split_kv:raw must not be",
        ),
    ],
)
def test_what_could_not_be_judged_is_not_begun(changes, complaint, data):
    claims = {"exploratory": False, "primary": (("split_kv", "standard"),)}
    with pytest.raises(ValueError, match=re.escape(complaint)):
        Laboratory(quick.plan(**claims | changes), data)
    # Where nothing is claimed, it is told beside the numbers.
    assert Laboratory(quick.plan(**changes | {"exploratory": True}), data).steps(768) == 6
