"""What predictions take, each task its own kind of input, and that several are answered as each alone."""

import numpy as np
import pytest
import torch

from tests.tasks.small import train_small
from twofold import open_run
from twofold.data.embedded.captioning import shapes
from twofold_runtime.predictions import ImageInput, QuestionInput


@pytest.fixture(scope="module")
def runs(goal_run, tmp_path_factory):
    """Runs by task, of a step or a few."""
    folders = {"goals": goal_run}
    for task, more in (("captioning", {"train": 40, "dev": 5}), ("qa", {"train": 40, "dev": 5}), ("pos", {})):
        folders[task] = tmp_path_factory.mktemp(task) / "run"
        with pytest.MonkeyPatch.context() as patched:
            train_small(task, folders[task], patched, steps=2, **more)
    return {task: open_run(folder, device="cpu") for task, folder in folders.items()}


def test_a_string_is_never_read_as_the_name_of_a_file(runs, tmp_path):
    pytest.importorskip("PIL.Image", reason="the extra twofold-runtime[images] is not installed").fromarray(
        shapes(0).test[0].pixels.numpy()
    ).save(tmp_path / "a.png")
    for name in (str(tmp_path / "a.png"), tmp_path / "a.png"):
        with pytest.raises(ValueError, match=f"^input must be an ImageInput, got {type(name).__name__}$"):
            runs["captioning"].predict(name)


@pytest.mark.parametrize(
    ("task", "input", "message"),
    [
        ("goals", 3, "^text must be a str, got int$"),
        ("goals", b"lights off", "^text must be a str, got bytes$"),
        ("goals", ["lights off"], "^text must be a str, got list$"),
        ("goals", QuestionInput("a", "b"), "^text must be a str, got QuestionInput$"),
        ("pos", None, "^text must be a str, got NoneType$"),
        ("qa", "who? ||| she", "^input must be a QuestionInput, got str$"),
        ("qa", {"question": "who?", "context": "she"}, "^input must be a QuestionInput, got dict$"),
        ("qa", QuestionInput("who?", 3), "^context must be a str, got int$"),
        ("qa", QuestionInput(None, "she"), "^question must be a str, got NoneType$"),
        ("captioning", np.zeros((4, 4, 3), np.uint8), "^input must be an ImageInput, got ndarray$"),
        ("captioning", ImageInput(np.zeros((4, 4), np.uint8)), "^pixels must be "),
        ("captioning", ImageInput(np.zeros((4, 4, 3))), "^pixels must be "),
    ],
)
def test_a_wrong_type_is_refused_by_its_name(runs, task, input, message):
    with pytest.raises(ValueError, match=message):
        runs[task].predict(input)


def test_a_question_is_answered_from_its_context(runs):
    question = QuestionInput("Who sings?", "Anna sings. Bob sleeps.")
    answer = runs["qa"].predict(question)
    assert (answer["question"], answer["context"]) == (question.question, question.context)
    assert question.context[answer["start"] : answer["end"]] == answer["answer"] != ""
    assert answer == runs["qa"].predict(runs["qa"].task.codec.input_of_line("Who sings? ||| Anna sings. Bob sleeps."))


INPUTS = {
    "goals": ["turn on the lights", "", "wake me at ten tomorrow please", "call anna", "what is the meaning of life"],
    "pos": ["The dog sleeps.", "a", "Many words stand in this longer sentence, do they not?"],
    "qa": [
        QuestionInput("Who sings?", "Anna sings."),
        QuestionInput("What does Bob do when he is at home?", "Bob sleeps. " * 300),
    ],
    "captioning": [ImageInput(example.pixels.numpy(), str(place)) for place, example in enumerate(shapes(0).test[:5])],
}


@pytest.mark.parametrize("task", INPUTS)
def test_several_are_answered_as_each_alone(runs, task):
    together = runs[task].predict_many(INPUTS[task])
    for input, prediction in zip(INPUTS[task], together, strict=True):
        assert _rounded(prediction) == _rounded(runs[task].predict(input))
    assert runs[task].predict_many([]) == []


def _rounded(prediction):
    """In another batch sums may round otherwise."""
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in prediction.items()}


def test_predicting_leaves_the_random_numbers_alone(runs):
    before = torch.get_rng_state()
    for task, inputs in INPUTS.items():
        runs[task].predict(inputs[0])
    assert torch.equal(before, torch.get_rng_state())
