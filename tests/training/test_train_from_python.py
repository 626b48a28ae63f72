"""`twofold.train`: the options of the command, by the same names."""

import pytest

import twofold
from twofold.tasks.lm import LanguageChoices


def test_it_trains_and_opens(tmp_path):
    run = twofold.train("goals", out=tmp_path / "run", steps=2, attention="split_key", device="cpu", evaluate_steps=2)
    training = run.record.training
    assert (training["model"]["attention"], training["settings"]["steps"], training["data"]) == ("split_key", 2, None)
    # What nobody chose is the task's own.
    assert training["settings"]["batch_size"] == 64
    assert run.predict("call anna")["text"] == "call anna"
    assert repr(run).startswith(f"Run({str(tmp_path / 'run')!r}, task='goals', parameters=")


def test_a_task_has_options_of_its_own(tmp_path):
    text = tmp_path / "train.txt"
    text.write_text("Once upon a time there was a cat. " * 40)
    run = twofold.train("lm", data=text, out=tmp_path / "run", steps=1, context_length=16, device="cpu")
    assert run.record.training["choices"] == {
        "tokenization": "char", "vocabulary": LanguageChoices().vocabulary, "context_length": 16,
    }  # fmt: skip
    with pytest.raises(ValueError, match="not empty"):
        twofold.train("lm", data=text, out=tmp_path / "run", steps=1, device="cpu")
    # A finished run that is resumed is opened as it is.
    assert twofold.train("lm", out=tmp_path / "run", resume=True, device="cpu").model.num_parameters() > 0


@pytest.mark.parametrize(
    ("options", "name"),
    [({"epoch": 3}, "did you mean epochs"), ({"epochs": -1}, "^epochs"), ({"attention": "split"}, "^attention")],
)
def test_a_mistake_is_named_and_nothing_is_written(tmp_path, options, name):
    with pytest.raises(ValueError, match=name):
        twofold.train("goals", out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
