"""What a run does when nothing goes wrong."""

import errno
import io
import math
import shutil
from dataclasses import asdict

import pytest
import torch
from rich.console import Console
from torch.nn.functional import cross_entropy

from tests.training import tiny
from twofold.models import DecoderForCausalLM, EncoderForGoal, GoalConfig
from twofold.training import Bar, Settings, fit, is_finished, read_metrics
from twofold.training.distribution import join
from twofold.training.feeding import Piece, fed
from twofold.training.learner import Learner
from twofold.training.progress import Progress


def test_a_run_leaves_a_model_and_its_curve(tmp_path):
    model = tiny.model()
    outcome = tiny.train(tmp_path, model=model)
    assert is_finished(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json",
        "generation_config.json",
        "metrics.jsonl",
        "model.safetensors",
    ]
    loaded = DecoderForCausalLM.from_pretrained(tmp_path)
    assert tiny.equal(loaded.state_dict(), model.state_dict())
    assert not model.training
    steps = [line for line in read_metrics(tmp_path) if line["kind"] == "step"]
    assert [line["step"] for line in steps] == list(range(1, 11))
    assert steps[-1]["epoch"] == 2.0
    assert steps[-1]["tokens"] == outcome.tokens == 2 * sum(len(one["input_ids"]) for one in tiny.data())
    assert all(0 < line["gradient_norm"] < math.inf and line["seconds"] > 0 for line in steps)
    assert outcome.steps == 10
    assert not outcome.stopped_early


def test_a_seed_decides_everything(tmp_path):
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        tiny.train(tmp_path / name, changes={"seed": seed})
    assert tiny.equal(tiny.weights(tmp_path / "one"), tiny.weights(tmp_path / "same"))
    assert not tiny.equal(tiny.weights(tmp_path / "one"), tiny.weights(tmp_path / "other"))


def test_looking_changes_nothing(tmp_path):
    """evaluate draws random numbers; dropout, and whoever draws in collating, goes on as if it had not."""
    tiny.train(tmp_path / "often", changes={"evaluate_steps": 1}, collate=tiny.by_chance)
    tiny.train(tmp_path / "never", evaluate=None, collate=tiny.by_chance)
    assert tiny.curve(tmp_path / "often") == tiny.curve(tmp_path / "never")


def scores(values):
    """An evaluation that gives these, one after the other."""
    left = iter(values)
    return lambda model: {"score": next(left)}


def test_the_best_is_kept(tmp_path):
    seen = {}

    def evaluate(model):
        step = len(seen) + 1
        seen[step] = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        # What is no number is never the best, not even before there is another.
        return {"score": [math.nan, 1.0, 5.0, math.nan, 5.0][step - 1]}

    changes = {"evaluate_steps": 1, "steps": 5}
    outcome = tiny.train(tmp_path, evaluate=evaluate, metric="score", higher_is_better=True, changes=changes)
    assert (outcome.best_step, outcome.metrics) == (3, {"score": 5.0})
    assert tiny.equal(DecoderForCausalLM.from_pretrained(tmp_path).state_dict(), seen[3])


@pytest.mark.parametrize(
    ("higher_is_better", "best", "steps"),
    # Looks give 3, 2, 1, 2, 2, 3: the lowest comes third, the highest first.
    [(False, 3, 5), (True, 1, 3)],
)
def test_patience_ends_a_run(higher_is_better, best, steps, tmp_path):
    outcome = tiny.train(
        tmp_path,
        evaluate=scores([3, 2, 1, 2, 2, 3]),
        metric="score",
        higher_is_better=higher_is_better,
        changes={"patience": 2, "evaluate_steps": 1, "save_steps": None},
    )
    assert (outcome.best_step, outcome.steps, outcome.stopped_early) == (best, steps, True)
    assert is_finished(tmp_path)


def test_an_epoch_ends_with_a_look(tmp_path):
    tiny.train(tmp_path, changes={"evaluate_steps": None, "epochs": 2.2})
    assert [line["step"] for line in tiny.curve(tmp_path, "evaluation")] == [5, 10, 11]


def test_without_looks_the_last_is_kept(tmp_path):
    outcome = tiny.train(tmp_path, evaluate=None)
    assert (outcome.best_step, outcome.metrics) == (10, {})


def test_without_a_metric_looks_choose_nothing_and_copy_nothing(tmp_path, monkeypatch):
    copies, weights = [], Learner.weights
    monkeypatch.setattr(Learner, "weights", lambda self: copies.append(1) or weights(self))
    changes = {"evaluate_steps": 1, "steps": 5, "save_steps": 2}
    outcome = tiny.train(tmp_path, evaluate=scores([1, 5, 4, 3, 2]), metric=None, changes=changes)
    assert (outcome.steps, outcome.best_step, outcome.metrics) == (5, 5, {"score": 2.0})
    # Of the two checkpoints.
    assert len(copies) == 2


def test_patience_needs_a_metric(tmp_path):
    with pytest.raises(ValueError, match="patience must be None where no metric says what is better, got 2"):
        tiny.train(tmp_path, metric=None, changes={"patience": 2})


@pytest.mark.parametrize("changes", [{"accumulate": 3}, {"accumulate": 100}, {"workers": 1}])
def test_what_may_not_matter(changes, tmp_path):
    """Pieces, workers: the same curve. (Without dropout, which draws per piece.)"""
    for name, more in (("plain", {}), ("changed", changes)):
        tiny.train(tmp_path / name, model=tiny.model(hidden_dropout=0.0), changes=more)
    for one, other in zip(tiny.curve(tmp_path / "plain"), tiny.curve(tmp_path / "changed"), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-5)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], abs=1e-4)


def _drawn(rows):
    return {"input_ids": torch.rand(len(rows))}


def test_workers_draw_something_else_in_every_epoch():
    settings = Settings(workers=1, distribution="none", device="cpu")

    def drawn(step):
        batches = [[0, 1], [2, 3]]
        pieces = list(fed(list(range(4)), _drawn, batches, settings, join(settings), step))
        return torch.stack([piece.batch["input_ids"] for (piece,) in pieces])

    assert len({tuple(drawn(step).flatten().tolist()) for step in (0, 2, 4)}) == 3
    assert drawn(2).equal(drawn(2))


@pytest.mark.parametrize("make", [tiny.model, tiny.copier])
def test_training_keeps_no_cache(make, tmp_path):
    model, told = make(), []
    model.register_forward_pre_hook(lambda _, given, options: told.append(options["use_cache"]), with_kwargs=True)
    tiny.train(tmp_path, model=model, evaluate=None, changes={"steps": 2})
    assert told == [False, False]


@pytest.mark.parametrize("pieces", [1, 3])
def test_labels_are_smoothed_in_training_alone(pieces, tmp_path):
    """The first step's loss is torch's over all labels of the batch at once; what evaluate sees has none of it."""
    model, batch = tiny.copier(hidden_dropout=0.0), tiny.collate(tiny.data())
    with torch.no_grad():
        logits = model(**batch).logits.flatten(0, 1)
    truth = cross_entropy(logits, batch["labels"].flatten(), label_smoothing=0.3)
    seen = []

    def evaluate(model):
        batch = tiny.collate(tiny.data(9))
        found = model(**batch)
        seen.append((float(found.loss), float(cross_entropy(found.logits.flatten(0, 1), batch["labels"].flatten()))))
        return {"loss": seen[-1][0]}

    changes = {"label_smoothing": 0.3, "batch_size": 37, "steps": 1, "accumulate": pieces}
    tiny.train(tmp_path, model=model, changes=changes, evaluate=evaluate)
    assert tiny.curve(tmp_path)[0]["loss"] == pytest.approx(float(truth), abs=1e-5)
    assert seen[0][0] == pytest.approx(seen[0][1], abs=1e-6)


def test_labels_that_cannot_be_smoothed(tmp_path):
    with pytest.raises(ValueError, match=r"label_smoothing must be 0 for DecoderForCausalLM, .* answer, got 0.1"):
        tiny.train(tmp_path, changes={"label_smoothing": 0.1})


def test_batches_of_tokens(tmp_path):
    outcome = tiny.train(tmp_path, changes={"batch_tokens": 30, "epochs": 1})
    tokens = [line["tokens"] for line in tiny.curve(tmp_path)]
    assert all(0 < after - before <= 30 for before, after in zip([0, *tokens], tokens, strict=False))
    assert outcome.tokens == tokens[-1] == sum(len(one["input_ids"]) for one in tiny.data())


def test_gradients_are_clipped(tmp_path):
    tiny.train(tmp_path / "tight", changes={"clip": 1e-6, "learning_rate": 1e-9})
    tiny.train(tmp_path / "free", changes={"clip": None, "learning_rate": 1e-9})
    # The norm that is reported is that before clipping.
    tight, free = tiny.curve(tmp_path / "tight"), tiny.curve(tmp_path / "free")
    assert [line["gradient_norm"] for line in tight] == pytest.approx(
        [line["gradient_norm"] for line in free], rel=1e-4
    )
    learner = Learner(tiny.model(), Settings(clip=1e-6, device="cpu"), join(Settings(device="cpu")))
    # What the optimizer is given.
    seen = []
    learner.optimizer.register_step_pre_hook(
        lambda *_: seen.append(sum(one.grad.square().sum() for one in learner.model.parameters()).sqrt().item())
    )
    learner.step([Piece(tiny.collate(tiny.data(4)), counts=True)], [4], 4.0, 1e-3)
    assert seen == [pytest.approx(1e-6, rel=1e-2)]


def test_bf16_trains_float32_weights(tmp_path):
    seen = []

    def watch(module, args, output):
        seen.append(output.dtype)

    model = tiny.model()
    model.model.layers[0].feed_forward.register_forward_hook(watch)
    tiny.train(tmp_path, model=model, evaluate=None, changes={"precision": "bf16"})
    assert set(seen) == {torch.bfloat16}
    assert {tensor.dtype for tensor in tiny.weights(tmp_path).values()} == {torch.float32}


def test_compiled_training_is_the_same(tmp_path, monkeypatch):
    compiled = []

    def quick(model, compile=torch.compile):
        compiled.append(model)
        return compile(model, backend="eager")

    monkeypatch.setattr(torch, "compile", quick)
    for name, wanted in (("plain", False), ("compiled", True)):
        tiny.train(tmp_path / name, changes={"compile": wanted, "steps": 2})
    assert len(compiled) == 1
    losses = [[line["loss"] for line in tiny.curve(tmp_path / name)] for name in ("plain", "compiled")]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_several_heads_train(tmp_path):
    """A loss of two parts, labels of one dimension, and an utterance without a slot."""
    config = GoalConfig(
        vocab_size=17, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, num_labels=3, num_slot_labels=4
    )
    features = [{"input_ids": [3, 4, 5], "goal": number % 3} for number in range(10)]

    def collate(features):
        ids = torch.tensor([one["input_ids"] for one in features])
        goals = torch.tensor([one["goal"] for one in features])
        return {"input_ids": ids, "attention_mask": ids.clamp(max=1), "labels": goals, "slot_labels": ids % 4}

    outcome = fit(
        EncoderForGoal(config),
        features,
        collate,
        settings=Settings(epochs=1, batch_size=4, device="cpu", log_steps=2),
        folder=tmp_path,
        evaluate=None,
        metric="",
        higher_is_better=True,
    )
    assert outcome.steps == 3
    assert [line["step"] for line in tiny.curve(tmp_path)] == [2, 3]


class Told(Progress):
    def __init__(self):
        self.heard = []

    def started(self, total, done):
        self.heard.append(("started", total, done))

    def step(self, step):
        self.heard.append(("step", step.step))

    def evaluated(self, step, numbers):
        self.heard.append(("evaluated", step))

    def finished(self):
        self.heard.append(("finished",))


def test_progress_is_told(tmp_path):
    told = Told()
    tiny.train(tmp_path, progress=told, changes={"log_steps": 4})
    steps = [("step", 4), ("step", 8), ("step", 10)]
    looks = [("evaluated", step) for step in (3, 6, 9, 10)]
    assert told.heard[0] == ("started", 10, 0)
    assert told.heard[-1] == ("finished",)
    assert sorted(told.heard[1:-1]) == sorted(steps + looks)


def test_nothing_is_printed(tmp_path, capfd):
    tiny.train(tmp_path)
    tiny.train(tmp_path, resume=True)
    assert capfd.readouterr() == ("", "")


def test_one_example_suffices(tmp_path):
    assert tiny.train(tmp_path, train=tiny.data(1), changes={"epochs": 1}).steps == 1


def test_a_number_that_is_none_ends_the_run(tmp_path):
    model = tiny.model()
    calls = []

    def spoil(module, args, output):
        calls.append(None)
        return output * (math.nan if len(calls) == 5 else 1)

    model.lm_head.register_forward_hook(spoil)
    with pytest.raises(ArithmeticError, match=r"loss is nan at step 5; the checkpoint of step 4 is kept"):
        tiny.train(tmp_path, model=model, evaluate=None, changes={"log_steps": 8})
    assert not is_finished(tmp_path)
    tiny.train(tmp_path, evaluate=None, changes={"log_steps": 8}, resume=True)
    tiny.train(tmp_path.with_name("whole"), evaluate=None, changes={"log_steps": 8})
    assert tiny.equal(tiny.weights(tmp_path), tiny.weights(tmp_path.with_name("whole")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": []}, "train must have at least one example, got none"),
        (
            {"evaluate": lambda model: {"step": 1}},
            "evaluate must name its numbers otherwise than 'step', which metrics",
        ),
        ({"metric": "bleu"}, r"metric must be one that evaluate gives \(length, loss\), got 'bleu'"),
        (
            {"changes": {"distribution": "fsdp"}},
            r"distribution with 1 process\(es\) must be auto or none, .* got 'fsdp'",
        ),
        (
            {"changes": {"report_to": "trackio"}},
            r"report_to trackio needs trackio, .*: pip install '\.\[trackio\]'",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        tiny.train(tmp_path, **options)


def test_labels_are_needed(tmp_path):
    settings = Settings(device="cpu", epochs=1)

    def collate(features):
        return {"input_ids": torch.tensor([features[0]["input_ids"]])}

    with pytest.raises(ValueError, match="train must have labels: the model gives no loss for a batch of input_ids"):
        fit(
            tiny.model(),
            tiny.data(3),
            collate,
            settings=settings,
            folder=tmp_path,
            evaluate=None,
            metric="",
            higher_is_better=True,
        )


def test_settings_are_written_down(tmp_path):
    import json

    tiny.train(tmp_path, changes={"steps": 1})
    first = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])
    assert first["kind"] == "run"
    assert first["examples"] == 37
    assert first["settings"] == {**asdict(Settings(**tiny.SETTINGS, steps=1)), "betas": [0.9, 0.98]}


@pytest.mark.parametrize("looks", [True, False])
def test_a_step_that_spoils_the_weights_is_found_at_once(looks, tmp_path):
    """Its loss was a number, and what the next one would be nobody asks after the last step."""
    changes = {"steps": 1, "learning_rate": 1e20, "warmup": 0.0, "clip": None, "weight_decay": 1e20}
    with pytest.raises(
        ArithmeticError, match="weights are not all numbers after step 1; nothing is saved; try a lower"
    ):
        tiny.train(tmp_path, changes=changes, evaluate=tiny.evaluate if looks else None)
    assert not is_finished(tmp_path)


def emptied(folder):
    for path in list(folder.iterdir()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def replaced(folder):
    shutil.copytree(folder, folder.with_name("other"))
    shutil.rmtree(folder)
    folder.with_name("other").rename(folder)


GONE = {
    "removed": shutil.rmtree,
    "emptied": emptied,
    "moved": lambda path: path.rename(path.parent / "b"),
    "replaced": replaced,
}


def files(folder):
    """All but the checkpoints and their lock, and how large they are."""
    return sorted((path.name, path.stat().st_size) for path in folder.glob("*") if path.is_file())


@pytest.mark.parametrize("damage", GONE.values(), ids=GONE)
@pytest.mark.parametrize("step", [2, 9])
def test_a_folder_that_goes_while_it_trains_is_an_error_that_names_it(step, damage, tmp_path):
    """And nothing is written into what is there instead, which would pass for a run."""
    folder = tmp_path / "run"
    after = []

    class Removes(Progress):
        def step(self, step_):
            if step_.step == step:
                damage(folder)
                after.extend(files(folder))

    with pytest.raises(
        OSError, match=f"cannot be written to {folder} .*removed, emptied or moved.*nothing more is written"
    ):
        tiny.train(folder, progress=Removes())
    assert files(folder) == after


class Full(io.StringIO):
    def write(self, text):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_where_nobody_can_be_told_training_goes_on(tmp_path):
    assert tiny.train(tmp_path, progress=Bar("x", Console(file=Full()))).steps == 10
