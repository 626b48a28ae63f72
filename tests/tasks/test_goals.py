"""Goals: learned, calibrated, rejected, reopened; places in characters whatever the script."""

import json
import pickle
import shutil
from pathlib import Path

import pytest
import torch

from tests.tasks.conftest import SETTINGS
from twofold.data.bio import spans_of
from twofold.data.examples import Slot, Utterance
from twofold.data.files import DataError
from twofold.models.encoder import EncoderForGoal
from twofold.models.loading import load_as
from twofold.tasks.calibration import best_temperature, best_threshold, expected_calibration_error
from twofold.tasks.goals import Found, Goals
from twofold.tasks.options import ModelOptions
from twofold.tasks.runs import open_run, read_task, task_class
from twofold.training import read_metrics
from twofold.training.run import train_task


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
    told = open_run(goal_run).predict("turn on the kitchen lights")
    assert set(told) == {"text", "goal", "confidence", "slots"}
    assert 0 <= told["confidence"] <= 1
    for slot in told["slots"]:
        assert set(slot) == {"name", "value", "start", "end"}
        assert told["text"][slot["start"] : slot["end"]] == slot["value"]


def test_what_is_out_of_scope_has_neither_goal_nor_slots(goal_run):
    run = open_run(goal_run)
    run.task.state["threshold"] = 1.1
    told = run.predict("turn on the kitchen lights")
    assert told["goal"] is None
    assert told["slots"] == []
    assert told["confidence"] > 0


def test_evidence_is_not_shared_with_other_goals(goal_run):
    task, model = open_run(goal_run).task, open_run(goal_run).model
    logits = torch.full((3, len(task.state["goals"])), -8.0)
    logits[0, 1], logits[1, 1:3], logits[2, 0] = 4.0, 4.0, 4.0
    best, confidence, evidence = task._best(model, logits)
    assert best[:2].tolist() == [1, 1]
    assert confidence[0] > 0.9 > confidence[1]
    assert evidence[0] == evidence[1] > 0.9 > 0.1 > evidence[2]


def test_what_is_out_of_scope_does_not_move_the_temperature(goal_run, goal_files):
    run = open_run(goal_run)
    dev = Goals.examples(goal_files).dev
    inside, outside = ([one for one in dev if (one.goal is None) == out] for out in (False, True))
    found = []
    for part in (inside, [*inside, *outside], outside):
        run.task.tune(run.model, part)
        found.append(run.model.config.goal_temperature)
    # The last has nothing to go by, and leaves it as it was.
    assert found == [found[0]] * 3


def test_evidence_decides_and_before_it_is_tuned_all_is_believed(goal_run, goal_files):
    task = open_run(goal_run).task
    assert 0 <= task.state["threshold"] <= 1
    task.state["threshold"] = 0.5
    assert task.is_accepted(Found("a", 0.1, 0.6, ()))
    assert not task.is_accepted(Found("a", 0.9, 0.4, ()))
    assert Goals.prepared(Goals.examples(goal_files).train).is_accepted(Found("a", 0.0, 0.0, ()))


def test_looks_while_training_say_what_the_end_says(goal_run, goal_files):
    """Or a model is kept, stopped and compared by another number than it is used with."""
    run, dev = open_run(goal_run), Goals.examples(goal_files).dev
    end = run.task.scores(run.model, dev)
    looks = [line for line in read_metrics(goal_run) if line["kind"] == "evaluation"]
    best = max(looks, key=lambda line: line["exact_match"])
    assert {name: best[name] for name in end} == pytest.approx(end, abs=1e-3)
    assert 0 < run.task.state["threshold"] < 1


def test_tuned_for_a_look_it_is_as_before_afterwards(goal_run, goal_files):
    run, dev = open_run(goal_run), Goals.examples(goal_files).dev
    run.task.state["threshold"], run.model.config.goal_temperature = 0.125, 7.5
    with run.task.tuned(run.model, dev):
        assert run.task.state["threshold"] != 0.125
        assert run.model.config.goal_temperature != 7.5
    assert (run.task.state["threshold"], run.model.config.goal_temperature) == (0.125, 7.5)


@pytest.mark.parametrize(
    "text", ["", " ", "🎉", "電気をつけて", "أطفئ الأنوار", "e\u0301te\u0301", "a" * 5000, "\0", "x\ty\nz"]
)
def test_any_text_gets_an_answer(goal_run, text):
    told = open_run(goal_run).predict(text)
    assert told["text"] == text
    assert all(text[slot["start"] : slot["end"]] == slot["value"] for slot in told["slots"])


def test_a_task_goes_to_workers_after_a_look(goal_run, goal_files):
    """Where they are not forked, what is sent to them is pickled."""
    run = open_run(goal_run)
    run.task.scores(run.model, Goals.examples(goal_files).dev[:4])
    again = pickle.loads(pickle.dumps(run.task.collate))  # noqa: S301
    rows = run.task.rows(Goals.examples(goal_files).dev[:2])
    assert again(rows).keys() == run.task.collate(rows).keys()


def test_a_run_is_reopened_as_it_was(goal_run):
    one, other = open_run(goal_run), open_run(str(goal_run))
    assert one.predict("call anna") == other.predict("call anna")
    names = {path.name for path in goal_run.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "metrics.jsonl", "task.json"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pth", ".pkl"))]


def test_a_finished_run_whose_end_was_lost_is_not_trained_over(goal_run, goal_files, tmp_path):
    folder = Path(shutil.copytree(goal_run, tmp_path / "run"))
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:-1]))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=r"has a finished model, and metrics.jsonl lost its end: use it, or train in"):
        train_task("goals", folder=folder, options=ModelOptions(), settings=SETTINGS, data=goal_files, resume=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert open_run(folder).predict("call anna") == open_run(goal_run).predict("call anna")


def test_labels_and_spans_are_each_others_inverse(goal_files):
    train = Goals.examples(goal_files).train
    task = Goals.prepared(train)
    names = task.state["slot_labels"]
    for one in train[:200]:
        features = task.features(one)
        tags = [names[label] for label in features["slot_labels"][1:-1]]
        assert spans_of(task.read(one.text).words, tags) == one.slots
        inside = features["slot_places"][1:-1]
        assert [place > 0 for place in inside] == [tag != "O" for tag in tags]
        assert sorted({place for place in inside if place}) == list(range(1, len(one.slots) + 1))


def test_hiding_leaves_goals_labels_ends_and_padding_alone(goal_files):
    train = Goals.examples(goal_files).train
    task = Goals.prepared(train)
    features = [task.features(one) for one in train]
    torch.manual_seed(0)
    batch = task.collate(features)
    assert set(batch) == {"input_ids", "cue_ids", "attention_mask", "labels", "slot_labels"}
    unknown, pad = task.tokenizer.unk_token_id, task.tokenizer.pad_token_id
    hidden = []
    for row, one in enumerate(features):
        length = len(one["input_ids"])
        ids, cues = batch["input_ids"][row], batch["cue_ids"][row]
        assert batch["slot_labels"][row, :length].tolist() == one["slot_labels"]
        assert (ids[length:] == pad).all()
        assert (cues[length:] == pad).all()
        assert ids[[0, length - 1]].tolist() == [one["input_ids"][0], one["input_ids"][-1]]
        known = zip(one["input_ids"], ids.tolist(), one["slot_places"], strict=False)
        hidden += [new == unknown for old, new, place in known if place and old != unknown]
        assert all(new in (old, unknown) for new, old in zip(ids.tolist(), one["input_ids"], strict=False))
    # 15 in 100 with the whole slot, and of the others 30 by themselves: 40.
    assert 0.33 < sum(hidden) / len(hidden) < 0.48


def test_a_batch_without_slots_has_nothing_to_renew(goal_files):
    train = Goals.examples(goal_files).train
    task = Goals.prepared(train)
    batch = task.collate([task.features(Utterance(one.text, one.goal)) for one in train[:8]])
    assert set(batch["slot_labels"].flatten().tolist()) == {-100, task.state["slot_labels"].index("O")}


def test_a_renewed_word_is_unknown_and_spelt_like_one_of_a_slot(goal_files, monkeypatch):
    monkeypatch.setattr("twofold.tasks.goals.RENEWED", 1.0)
    monkeypatch.setattr("twofold.tasks.goals.hidden", lambda batch, tokenizer: batch)
    train = [one for one in Goals.examples(goal_files).train if one.slots][:16]
    task = Goals.prepared(train)
    features = [task.features(one) for one in train]
    batch = task.collate(features)
    spellings = {
        tuple(cues) for one in features for cues, place in zip(one["cue_ids"], one["slot_places"], strict=True) if place
    }
    for row, one in enumerate(features):
        for column, place in enumerate(one["slot_places"]):
            word, cues = batch["input_ids"][row, column].item(), batch["cue_ids"][row, column].tolist()
            if place:
                assert word == task.tokenizer.unk_token_id
                assert tuple(cues) in spellings
            else:
                assert (word, cues) == (one["input_ids"][column], one["cue_ids"][column])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("Set it to 20%, anna's way", ["Set", "it", "to", "20", "%", ",", "anna", "'", "s", "way"]),
        ("spiel für Zoë!", ["spiel", "für", "Zoë", "!"]),
        ("電気を10分", ["電", "気", "を", "10", "分"]),
        ("word " * 600, ["word"] * 510),
    ],
)
def test_a_text_is_read_by_words_up_to_the_longest(goal_files, text, words):
    task = Goals.prepared(Goals.examples(goal_files).train)
    read = task.read(text)
    assert [text[start:end] for start, end in read.words] == words
    assert {name: len(of) for name, of in read.features.items()} == dict.fromkeys(
        ("input_ids", "cue_ids"), len(words) + 2
    )


@pytest.mark.parametrize("attention", ["standard", "split_key", "split_value", "split_kv"])
def test_kinds_have_equal_parameters(goal_files, attention):
    task = Goals.prepared(Goals.examples(goal_files).train)
    counts = [
        sum(p.numel() for p in task.model_class(task.config(ModelOptions(attention=kind))).parameters())
        for kind in ("standard", attention)
    ]
    assert abs(counts[0] - counts[1]) <= 0.001 * counts[0]


@pytest.mark.parametrize("text", ["", "hm", "turn on the lamp", "電気"])
def test_a_run_from_before_bags_is_still_read(goal_files, tmp_path, text):
    task = Goals.prepared(Goals.examples(goal_files).train)
    config = task.config(ModelOptions(width=16, layers=1))
    assert config.goal_by_tokens
    config.goal_by_tokens = False
    EncoderForGoal(config).save_pretrained(tmp_path)
    told = json.loads((tmp_path / "config.json").read_text())
    del told["goal_by_tokens"]
    (tmp_path / "config.json").write_text(json.dumps(told))
    model = load_as(tmp_path, EncoderForGoal)
    assert model.bag is None
    assert 0 < task.predict(model, text)["confidence"] < 1


def test_a_label_that_train_lacks_is_named(tmp_path):
    for name, goal in (("train", "a"), ("dev", "b"), ("test", "a")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": "x", "goal": goal, "slots": []}) + "\n")
    with pytest.raises(DataError, match="1 label of dev or test not in train: 'b'"):
        Goals.examples(tmp_path)


def test_goals_that_a_run_never_saw_are_named(goal_run):
    run = open_run(goal_run)
    with pytest.raises(ValueError, match="goal 'fly' was not in the training split, which had alarm_set"):
        run.task.scores(run.model, [Utterance("fly me there", "fly")])
    with pytest.raises(ValueError, match="slot 'wing' was not in the training split"):
        run.task.tallies(run.model, [Utterance("fly me there", "alarm_set", (Slot("wing", 0, 3),))])


@pytest.mark.parametrize(
    ("found", "f1"),
    [
        ((Slot("date", 0, 2), Slot("city", 2, 4)), 100),
        ((Slot("date", 0, 2), Slot("city", 2, 5)), 50),
        ((Slot("date", 0, 2),), 200 / 3),
        ((Slot("city", 0, 2), Slot("date", 2, 4)), 0),
        ((), 0),
    ],
)
def test_slots_are_counted_by_their_places(goal_run, found, f1):
    """Two in one run of letters, where a script has no spaces."""
    task, example = open_run(goal_run).task, Utterance("明天北京天气", "go", (Slot("date", 0, 2), Slot("city", 2, 4)))
    task.state = task.state | {"goals": ["", "go"], "slot_labels": ["O", "B-date", "I-date", "B-city", "I-city"]}
    assert task.judged([example], [Found("go", 1.0, 1.0, found)])["slot_f1"] == pytest.approx(f1)


def test_spans_begin_anew_with_b_and_with_another_name():
    words = [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert spans_of(words, ["B-a", "B-a", "I-b", "I-b"]) == (Slot("a", 0, 1), Slot("a", 2, 3), Slot("b", 4, 7))
    assert spans_of(words, ["I-a", "O", "I-a", "I-a"]) == (Slot("a", 0, 1), Slot("a", 4, 7))


@pytest.mark.parametrize("examples", [1, 4, 16])
@pytest.mark.parametrize("classes", [2, 10])
def test_a_few_right_answers_make_nobody_sure(examples, classes):
    logits = torch.zeros(examples, classes)
    logits[:, 0] = 2.0
    temperature = best_temperature(logits, torch.zeros(examples, dtype=torch.long))
    # Of so many and two more, one would be wrong.
    sure = (logits[0] / temperature).softmax(0)[0].item()
    assert sure == pytest.approx(1 - 1 / (examples + 2), abs=0.01)


def test_the_temperature_undoes_a_scale():
    torch.manual_seed(0)
    logits = torch.randn(4000, 5)
    truth = torch.distributions.Categorical(logits=logits).sample()
    assert best_temperature(logits * 3, truth) == pytest.approx(3, rel=0.1)


def test_the_threshold_parts_inside_from_outside():
    assert 0.4 < best_threshold([0.9, 0.8, 0.4, 0.3], [True, True, False, False], [False, False, True, True]) < 0.8
    assert best_threshold([0.9, 0.1], [True, False], [False, False]) == 0.0
    assert best_threshold([0.2, 0.3], [False, False], [True, True]) > 0.3


def test_the_calibration_error_is_the_distance_of_saying_and_being():
    assert expected_calibration_error([0.75] * 4, [True, True, True, False]) == pytest.approx(0)
    assert expected_calibration_error([1.0] * 4, [True, False, False, False]) == pytest.approx(0.75)


def test_a_folder_that_is_no_run_is_refused(tmp_path, goal_run):
    with pytest.raises(ValueError, match="there is no such folder"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"is no run: it has no task.json"):
        open_run(tmp_path)
    told = read_task(goal_run) | {"version": 99}
    (tmp_path / "task.json").write_text(json.dumps(told))
    with pytest.raises(ValueError, match="is a run of version 99, and this version of twofold reads 2"):
        open_run(tmp_path)
    (tmp_path / "task.json").write_text("{")
    with pytest.raises(ValueError, match=r"task.json is not readable"):
        open_run(tmp_path)
    with pytest.raises(ValueError, match="unknown task 'os'; there are: goals"):
        task_class("os")


def test_utterances_know_their_values():
    assert Utterance("call anna", "call", (Slot("contact", 5, 9),)).value(Slot("contact", 5, 9)) == "anna"


def test_equal_confidences_are_rejected_together():
    assert 0.5 < best_threshold([0.5, 0.5, 0.5, 0.9], [False, True, False, True], [True, False, True, False]) <= 0.9
    assert best_threshold([1.0, 1.0, 0.9], [False, False, True], [True, True, False]) > 1.0
