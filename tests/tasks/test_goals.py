"""Goals: learned, calibrated, rejected, reopened."""

import json
import math
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tasks.conftest import SETTINGS
from twofold.data.examples import Slot, Utterance
from twofold.models.encoder import EncoderForGoal
from twofold.models.engine import TorchEngine
from twofold.models.loading import load_as
from twofold.tasks.calibration import best_temperature, best_threshold
from twofold.tasks.goals import Goals, slots_of_goals
from twofold.tasks.options import ModelOptions
from twofold.tasks.registry import task_class, unknown_note
from twofold.tasks.runs import open_run
from twofold.training import read_metrics
from twofold.training.run import train_task
from twofold_runtime.predictor import Predictor
from twofold_runtime.tagging import spans_of


def test_it_learns_more_than_the_commonest_goal(goal_run, goal_files):
    run = open_run(goal_run)
    scores = run.task.scores(run.model, Goals.examples(goal_files).test)
    # Four goals and what is out of scope: a guess is right in about a quarter of the cases in scope.
    assert scores["goal_accuracy"] > 70
    assert scores["exact_match"] > 20
    assert scores["out_of_scope_auroc"] > 0.7
    assert 0 <= scores["calibration_error"] < 0.4
    # The values of test are new ones, too much for a few seconds; those of train are not.
    assert run.task.scores(run.model, Goals.examples(goal_files).train)["slot_f1"] > 40


def test_a_prediction_is_what_is_printed(goal_run):
    prediction = dict(open_run(goal_run).predict("turn on the kitchen lights"))
    assert set(prediction) == {"text", "goal", "confidence", "slots"}
    assert json.loads(json.dumps(prediction)) == prediction
    assert 0 <= prediction["confidence"] <= 1
    for slot in prediction["slots"]:
        assert set(slot) == {"name", "value", "start", "end"}
        assert prediction["text"][slot["start"] : slot["end"]] == slot["value"]


def test_many_texts_have_the_answers_of_each(goal_run, goal_files):
    """Of every length, in several batches, in any order."""
    run = open_run(goal_run)
    texts = ["", "電気をつけて", "a" * 5000, *(one.text for one in Goals.examples(goal_files).test[:70])]
    for one, text in zip(run.predict_many(texts), texts, strict=True):
        alone = dict(run.predict(text))
        assert dict(one) == alone | {"confidence": pytest.approx(alone["confidence"], abs=1e-5)}


def test_what_is_out_of_scope_does_not_move_the_temperature(goal_run, goal_files):
    run = open_run(goal_run)
    dev = Goals.examples(goal_files).dev
    inside, outside = ([one for one in dev if (one.goal is None) == is_outside] for is_outside in (False, True))
    temperatures, task = [], run.task
    for part in (inside, [*inside, *outside], outside):
        task = task.tuned(run.model, part)
        temperatures.append(task.codec.calibration["temperature"])
    # The last has nothing to go by, and leaves it as it was.
    assert temperatures == [temperatures[0]] * 3


def test_evaluations_while_training_say_what_the_end_says(goal_run, goal_files):
    """Or a model is kept, stopped and compared by another number than it is used with."""
    run, dev = open_run(goal_run), Goals.examples(goal_files).dev
    end = run.task.scores(run.model, dev)
    evaluations = [line for line in read_metrics(goal_run) if line["kind"] == "evaluation"]
    best = max(evaluations, key=lambda line: line["exact_match"])
    assert {name: best[name] for name in end} == pytest.approx(end, abs=1e-3)
    assert 0 < run.record.calibration["threshold"] < 1


def test_tuning_makes_another_task_and_leaves_this_one(goal_run, goal_files):
    run, dev = open_run(goal_run), Goals.examples(goal_files).dev
    task = Goals(run.task.tokenizer, run.task.reading, {"temperature": 7.5, "threshold": 0.125})
    tuned, scores = task.tuned_and_scored(run.model, dev)
    assert task.codec.calibration == {"temperature": 7.5, "threshold": 0.125}
    assert tuned.codec.calibration["temperature"] != 7.5
    # A run was tuned on the same.
    assert tuned.codec.calibration["threshold"] == pytest.approx(run.task.codec.calibration["threshold"])
    assert scores == pytest.approx(run.task.scores(run.model, dev))
    assert task.tuned(run.model, dev).codec.calibration == tuned.codec.calibration


def test_transitions_are_the_models(goal_run):
    run = open_run(goal_run)
    labels = len(run.task.reading["slot_labels"])
    transitions = np.array(run.record.calibration["transitions"])
    assert transitions.shape == (labels + 1, labels)
    weight = run.model.moves.weight.detach().numpy()
    assert weight == pytest.approx(transitions.T)


@pytest.mark.parametrize("text", ["", "🎉", "أطفئ الأنوار", "e\u0301te\u0301", "a" * 5000, "\0"])
def test_any_text_gets_an_answer(goal_run, text):
    prediction = open_run(goal_run).predict(text)
    assert prediction["text"] == text
    assert all(text[slot["start"] : slot["end"]] == slot["value"] for slot in prediction["slots"])


def test_a_task_goes_to_workers_after_an_evaluation(goal_run, goal_files):
    """Where they are not forked, what is sent to them is pickled."""
    run = open_run(goal_run)
    run.task.scores(run.model, Goals.examples(goal_files).dev[:4])
    again = pickle.loads(pickle.dumps(run.task.collate))  # noqa: S301
    rows = run.task.rows(Goals.examples(goal_files).dev[:2])
    assert again(rows).keys() == run.task.collate(rows).keys()


def test_a_run_is_reopened_as_it_was(goal_run):
    one, other = open_run(goal_run), open_run(str(goal_run))
    assert dict(one.predict("call anna")) == dict(other.predict("call anna"))
    names = {path.name for path in goal_run.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "metrics.jsonl", "run.json"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pth", ".pkl"))]
    assert set(one.record.files) == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


def test_a_finished_run_whose_end_was_lost_is_not_trained_over(goal_run, goal_files, tmp_path):
    folder = Path(shutil.copytree(goal_run, tmp_path / "run"))
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:-1]))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=r"finished model.* metrics\.jsonl"):
        train_task("goals", folder=folder, options=ModelOptions(), settings=SETTINGS, data=goal_files, resume=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert dict(open_run(folder).predict("call anna")) == dict(open_run(goal_run).predict("call anna"))


@pytest.fixture(scope="module")
def train(goal_files):
    return Goals.examples(goal_files).train


@pytest.fixture(scope="module")
def fresh(train):
    return Goals.prepared(train)


def test_labels_and_spans_are_each_others_inverse(fresh, train):
    names = fresh.reading["slot_labels"]
    for one in train[:200]:
        features = fresh.features(one)
        tags = [names[label] for label in features["slot_labels"][1:-1]]
        spans = spans_of(fresh.encode(one).places, tags)
        assert [Slot(*span) for span in spans] == [*one.slots]
        inside = features["slot_places"][1:-1].tolist()
        assert [place > 0 for place in inside] == [tag != "O" for tag in tags]
        assert sorted({place for place in inside if place}) == list(range(1, len(one.slots) + 1))


def test_hiding_leaves_goals_labels_ends_and_padding_alone(fresh, train):
    features = [fresh.features(one) for one in train]
    torch.manual_seed(0)
    batch = fresh.collate(features)
    assert set(batch) == {"input_ids", "cue_ids", "attention_mask", "labels", "slot_labels"}
    unknown, pad = fresh.tokenizer.unk_token_id, fresh.tokenizer.pad_token_id
    hidden = []
    for row, one in enumerate(features):
        length = len(one["input_ids"])
        ids, cues = batch["input_ids"][row].tolist(), batch["cue_ids"][row]
        before, places = one["input_ids"].tolist(), one["slot_places"].tolist()
        assert batch["slot_labels"][row, :length].tolist() == one["slot_labels"].tolist()
        assert set(ids[length:]) <= {pad}
        assert (cues[length:] == pad).all()
        assert [ids[0], ids[length - 1]] == [before[0], before[-1]]
        hidden += [
            new == unknown for old, new, place in zip(before, ids, places, strict=False) if place and old != unknown
        ]
        assert all(new in (old, unknown) for new, old in zip(ids, before, strict=False))
    # 15 in 100 with the whole slot, and of the others 30 by themselves: 40.
    assert 0.33 < sum(hidden) / len(hidden) < 0.48


def test_a_batch_without_slots_has_nothing_to_substitute(fresh, train):
    batch = fresh.collate([fresh.features(Utterance(one.text, one.goal)) for one in train[:8]])
    assert set(batch["slot_labels"].flatten().tolist()) == {-100, fresh.reading["slot_labels"].index("O")}


def test_a_substituted_word_is_unknown_and_spelt_like_one_of_a_slot(train, monkeypatch):
    monkeypatch.setattr("twofold.tasks.goals.SUBSTITUTED", 1.0)
    monkeypatch.setattr("twofold.tasks.goals.with_word_dropout", lambda batch: batch)
    train = [one for one in train if one.slots][:16]
    task = Goals.prepared(train)
    features = [task.features(one) for one in train]
    batch = task.collate(features)
    spellings = {
        tuple(cues)
        for one in features
        for cues, place in zip(one["cue_ids"].tolist(), one["slot_places"], strict=True)
        if place
    }
    for row, one in enumerate(features):
        for column, place in enumerate(one["slot_places"]):
            word, cues = batch["input_ids"][row, column].item(), batch["cue_ids"][row, column].tolist()
            if place:
                assert word == task.tokenizer.unk_token_id
                assert tuple(cues) in spellings
            else:
                assert (word, cues) == (one["input_ids"][column], one["cue_ids"][column].tolist())


@pytest.mark.parametrize("attention", ["split_key", "split_value", "split_kv"])
def test_kinds_have_equal_parameters(fresh, attention):
    counts = [
        sum(p.numel() for p in fresh.model_class(fresh.config(ModelOptions(attention=kind))).parameters())
        for kind in ("standard", attention)
    ]
    assert abs(counts[0] - counts[1]) <= 0.001 * counts[0]


def test_a_model_without_a_judge_of_tokens_is_still_read(fresh, tmp_path):
    config = fresh.config(ModelOptions(width=16, layers=1))
    assert config.goal_by_tokens
    config.goal_by_tokens = False
    EncoderForGoal(config).save_pretrained(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    del content["goal_by_tokens"]
    (tmp_path / "config.json").write_text(json.dumps(content))
    model = load_as(tmp_path, EncoderForGoal)
    assert model.bag is None
    for prediction in Predictor(fresh.codec, TorchEngine(model)).predict_many(["", "turn on the lamp"]):
        assert 0 < prediction["confidence"] < 1


def test_slots_are_those_that_occur_with_a_goal():
    train = [
        Utterance("in rome", "weather", (Slot("city", 3, 7),)),
        Utterance("weather", "weather"),
        Utterance("stop", "stop"),
        Utterance("what is love", None),
    ]
    assert slots_of_goals(train) == {"stop": [], "weather": ["city"]}
    assert Goals.prepared(train).reading == {
        "goals": ["", "stop", "weather"],
        "slot_labels": ["O", "B-city", "I-city"],
        "slots": {"stop": [], "weather": ["city"]},
        "evidence": "sigmoid_of_logit",
    }


def test_a_label_that_train_lacks_is_named(tmp_path):
    for name, goal in (("train", "a"), ("dev", "b"), ("test", "a")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": "x", "goal": goal, "slots": []}) + "\n")
    splits = Goals.examples(tmp_path)
    assert unknown_note(Goals.prepared(splits.train), splits.dev) == "1 label not in train, counted as wrong: 'b' (1)"


def test_goals_and_slots_that_a_run_never_saw_count_as_wrong(goal_run, goal_files):
    run = open_run(goal_run)
    unknown = [Utterance("fly me there", "fly"), Utterance("fly me there", "alarm_set", (Slot("wing", 0, 3),))]
    assert unknown_note(run.task, unknown) == "2 labels not in train, counted as wrong: 'fly' (1), 'wing' (1)"
    scores = run.task.scores(run.model, unknown)
    assert scores["exact_match"] == scores["slot_f1"] == 0
    # They tell nothing of a calibration, and do not hinder one.
    dev = Goals.examples(goal_files).dev
    tuned, alone = (run.task.tuned(run.model, part).codec.calibration for part in ([*dev, unknown[0]], dev))
    assert tuned["temperature"] == alone["temperature"]


@pytest.mark.parametrize("examples", [1, 4, 16])
@pytest.mark.parametrize("classes", [2, 10])
def test_a_few_right_answers_make_nobody_sure(examples, classes):
    logits = np.zeros((examples, classes))
    logits[:, 0] = 2.0
    scaled = np.exp(logits[0] / best_temperature(logits, np.zeros(examples, int)))
    # Of so many and two more, one would be wrong.
    assert scaled[0] / scaled.sum() == pytest.approx(1 - 1 / (examples + 2), abs=0.01)


def test_the_temperature_undoes_a_scale():
    logits = torch.randn(4000, 5)
    truth = torch.distributions.Categorical(logits=logits).sample()
    assert best_temperature(3 * logits.numpy(), truth.numpy()) == pytest.approx(3, rel=0.1)


def test_the_temperature_is_where_the_smoothed_loss_is_lowest():
    """Against torch's own loss, minimized by its own optimizer."""
    logits = 4 * torch.randn(50, 3)
    truth = torch.distributions.Categorical(logits=logits / 3).sample()
    smoothing = 3 / 2 / 52
    log_temperature = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS([log_temperature], max_iter=200, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(logits / log_temperature.exp(), truth, label_smoothing=smoothing)
        value.backward()
        return value

    optimizer.step(loss)
    assert best_temperature(logits.numpy(), truth.numpy()) == pytest.approx(log_temperature.exp().item(), rel=0.02)


def test_the_threshold_parts_inside_from_outside():
    assert 0.4 < best_threshold([0.9, 0.8, 0.4, 0.3], [True, True, False, False], [False, False, True, True]) < 0.8
    assert best_threshold([0.9, 0.1], [True, False], [False, False]) == 0.0
    assert best_threshold([0.2, 0.3], [False, False], [True, True]) > 0.3


def test_equal_evidence_is_rejected_together():
    assert 0.5 < best_threshold([0.5, 0.5, 0.5, 0.9], [False, True, False, True], [True, False, True, False]) <= 0.9
    assert best_threshold([1.0, 1.0, 0.9], [False, False, True], [True, True, False]) > 1.0


def test_the_threshold_answers_most_of_them_right():
    """Against every threshold that could be drawn."""
    random = np.random.default_rng(0)
    for _ in range(50):
        evidence = random.integers(0, 8, 12) / 8
        outside = random.random(12) < 0.4
        right = ~outside & (random.random(12) < 0.7)

        def answered(threshold, evidence=evidence, right=right, outside=outside):
            return int(np.where(evidence >= threshold, right, outside).sum())

        best = best_threshold(evidence.tolist(), right.tolist(), outside.tolist())
        assert answered(best) == max(map(answered, [0.0, *evidence, *np.nextafter(evidence, math.inf)]))


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no such folder"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no run.json"):
        open_run(tmp_path)
    (tmp_path / "task.json").write_text("{}")
    with pytest.raises(ValueError, match="train it anew"):
        open_run(tmp_path)
    with pytest.raises(ValueError, match=r"^task must be one of goals, .*got 'os'"):
        task_class("os")


def test_utterances_know_their_values():
    assert Utterance("call anna", "call", (Slot("contact", 5, 9),)).value(Slot("contact", 5, 9)) == "anna"
