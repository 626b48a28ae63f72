"""Tasks with recurrent layers instead of a transformer, where they are offered."""

import pytest

from tests.tasks.small import trained, unigram_nats
from twofold.data.embedded.lm import stories
from twofold.data.embedded.translation import english_to_german
from twofold.data.goals import goals
from twofold.models import RecurrentForCausalLM, RecurrentForConditionalGeneration
from twofold.tasks.goals import Goals
from twofold.tasks.lm import LanguageChoices
from twofold.tasks.options import ModelOptions
from twofold.tasks.runs import open_run
from twofold_runtime.decoding import Decoding


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_a_recurrent_language_model_learns_and_is_opened_again(tmp_path, cell):
    splits = stories(train=60, dev=5, test=1)
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("\n".join(getattr(splits, split)), encoding="utf-8")
    choices = LanguageChoices(context_length=32)
    given = {"data": tmp_path, "choices": choices, "options": {"model": cell}}
    told = trained("lm", tmp_path / "run", **given, steps=120, learning_rate=1e-2, batch_size=16)
    unigram = unigram_nats("\n".join(splits.train), "\n".join(splits.dev))
    assert told.scores["nats_per_character"] < 0.95 * unigram
    opened = open_run(tmp_path / "run")
    assert isinstance(opened.model, RecurrentForCausalLM)
    assert opened.model.config.cell == cell
    assert opened.task.scores(opened.model, opened.examples().dev) == pytest.approx(told.scores)
    assert len(opened.write("Tom", Decoding(max_new_tokens=40))) == 40


def test_recurrent_layers_translate(tmp_path):
    splits = english_to_german(train=40, dev=4, test=1)
    for split in ("train", "dev", "test"):
        pairs = getattr(splits, split)
        (tmp_path / f"{split}.en").write_text("\n".join(pair.source for pair in pairs), encoding="utf-8")
        (tmp_path / f"{split}.de").write_text("\n".join(pair.target for pair in pairs), encoding="utf-8")
    told = trained("translation", tmp_path / "run", data=tmp_path, options={"model": "gru"}, steps=20, batch_size=8)
    opened = open_run(tmp_path / "run")
    assert isinstance(opened.model, RecurrentForConditionalGeneration)
    assert opened.task.scores(opened.model, opened.examples().dev) == pytest.approx(told.scores)
    assert opened.predict("the dog") == open_run(tmp_path / "run").predict("the dog")


def test_a_task_that_offers_none_says_so():
    task = Goals.prepared(goals(train=50, dev=0, test=0).train)
    with pytest.raises(ValueError, match="model must be transformer for this task, got 'lstm'"):
        task.config(ModelOptions(model="lstm"))
