"""The baselines do what their names say, and are scored as models are."""

import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from twofold.data.examples import Splits, Utterance
from twofold.tasks import TASKS
from twofold.tasks.registry import task_class

SCRIPT = Path(__file__).parents[2] / "examples" / "baselines.py"
# Of every task: a score, and between what it must lie on part of the embedded set. None is solved by a baseline.
BANDS = {
    "goals": ("goal_accuracy", 60, 97),
    "lm": ("nats_per_character", 0.5, 2.5),
    "translation": ("bleu", 5, 60),
    "summarization": ("rouge_l", 10, 60),
    "retrieval": ("nDCG@10", 0.2, 0.9),
    "qa": ("f1", 3, 60),
    "classification": ("accuracy", 30, 95),
    "ner": ("f1", 5, 70),
    "pos": ("accuracy", 40, 90),
    "captioning": ("bleu", 1, 40),
}


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("baselines", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def some(name, train=1000, dev=60, test=100):
    whole = task_class(name).examples(None)
    return replace(whole, train=whole.train[:train], dev=whole.dev[:dev], test=whole.test[:test])


@pytest.mark.parametrize("name", TASKS)
def test_a_baseline_gets_far_but_not_all_the_way(script, name):
    found = script.baselines(name, some(name))
    score, low, high = BANDS[name]
    assert found["examples"] == 100
    assert all(low < scores[score] < high for scores in found["scores"].values()), found
    assert score in (task_class(name).metric, "goal_accuracy", "nats_per_character")


def test_what_a_word_usually_is(script):
    tags = script.usual_tags([(["The", "can"], ["DET", "NOUN"]), (["can"], ["VERB"]), (["CAN", "x"], ["VERB", "VERB"])])
    assert tags(["the", "Can", "new"]) == ["DET", "VERB", "VERB"]


@pytest.mark.parametrize("order", [1, 2, 5])
def test_chances_of_characters_add_up(script, order):
    """Over all of Unicode, after pasts that were seen and one that was not."""
    model = script.Characters(["abracadabra", "日本日", ""], order)
    letters = sorted(set("abrcd日本"))
    for past in ("abracada", "日", "zzzzz", ""):
        # As much of it as the model looks at.
        before = (script.START * order + past)[len(past) + 1 :] if order > 1 else ""
        chances = [model.chance(before + letter) for letter in letters]
        unseen = model.chance(before + "!")
        assert all(chance > unseen > 0 for chance in chances)
        assert sum(chances) + (script.UNICODE - len(letters)) * unseen == pytest.approx(1.0)


def test_characters_are_learned(script):
    model = script.Characters(["ab" * 50], 3)
    learned, shifted, other = (model.nats([text * 10]) for text in ("ab", "ba", "aa"))
    assert learned < 1 < shifted < 3 < 30 < other
    assert model.nats(["Ω"]) > math.log(script.UNICODE) / 2


def test_words_are_translated_by_what_they_come_with(script):
    pairs = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book"), ("Das", "the")]
    known = script.dictionary((ours.split(), theirs.split()) for ours, theirs in pairs)
    assert known == {"das": "the", "haus": "house", "buch": "book", "ein": "a"}


@pytest.mark.parametrize("outside", [True, False])
def test_goals_with_and_without_what_is_out_of_scope(script, outside):
    train = [Utterance(f"play song {n}", "play") for n in range(9)] + [
        Utterance(f"stop it {n}", "stop") for n in range(9)
    ]
    test = [Utterance("play a song", "play"), Utterance("stop this", "stop"), Utterance("who is the king", None)]
    if outside:
        train += [Utterance(f"who is number {n}", None) for n in range(9)]
    (scores,) = script.baselines("goals", Splits(train, [], test))["scores"].values()
    assert scores["goal_accuracy"] == 100
    assert scores["out_of_scope_auroc"] == 1
    assert "calibration_error" not in scores
    # Never having seen any, it has no threshold to refuse by.
    assert scores["exact_match"] == (100 if outside else pytest.approx(200 / 3))


def test_two_splits_at_once(script):
    splits = some("lm", train=200, dev=5, test=10)
    one, other, both = (
        next(iter(script.baselines("lm", splits, split)["scores"].values()))["nats_per_character"]
        for split in ("dev", "test", "dev+test")
    )
    # An end is a character too.
    sizes = [sum(len(text) + 1 for text in part) for part in (splits.dev, splits.test)]
    assert both == pytest.approx((one * sizes[0] + other * sizes[1]) / sum(sizes))


def test_files_and_what_is_printed(script, tmp_path, capsys):
    (tmp_path / "train.tsv").write_text("the\tDET\ncat\tNOUN\n\nthe\tDET\ndog\tNOUN\ncat\tNOUN\n", encoding="utf-8")
    (tmp_path / "test.tsv").write_text("the\tDET\ncat\tNOUN\nthe\tNOUN\nelk\tNOUN\n", encoding="utf-8")
    (tmp_path / "dev.tsv").write_text("the\tDET\n", encoding="utf-8")
    script.main(["pos", "--data", str(tmp_path), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["task"], told["split"], told["examples"]) == ("pos", "test", 1)
    assert told["scores"]["usual tag of a word"]["accuracy"] == 75
    script.main(["pos", "--data", str(tmp_path), "--split", "dev"])
    assert "usual tag of a word: accuracy 100" in capsys.readouterr().out


def test_what_cannot_be(script, capsys):
    with pytest.raises(ValueError, match="the data has no test split"):
        script.baselines("pos", Splits(some("pos").train, [], []))
    with pytest.raises(ValueError, match="the data has no train split"):
        script.baselines("pos", Splits([], [], some("pos").test))
    with pytest.raises(SystemExit):
        script.main(["pos", "--source", "en"])
    assert "--source and --target are for translation" in capsys.readouterr().err
