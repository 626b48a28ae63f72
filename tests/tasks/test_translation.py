"""Translation: learned from parallel files, scored as sacreBLEU scores, in any script and direction."""

import json
from itertools import product

import pytest
import sacrebleu
import torch

from tests.tasks.small import trained
from twofold.cli import main
from twofold.data.examples import Pair, Splits
from twofold.tasks.options import ModelOptions
from twofold.tasks.runs import open_run
from twofold.tasks.translation import Translation, TranslationChoices
from twofold_runtime.decoding import Decoding
from twofold_runtime.writing import LONGEST

WORDS = (
    {"red": "rote", "old": "alte", "small": "kleine", "young": "junge", "good": "gute", "black": "schwarze"},
    {"dog": "Hund", "king": "König", "baker": "Bäcker", "man": "Mann", "bear": "Bär", "son": "Sohn"},
    {"sleeps": "schläft", "sings": "singt", "laughs": "lacht", "goes home": "geht nach Hause"},
)


def sentences():
    """Small enough to be learned in seconds; every tenth is for dev and test."""
    pairs = [
        Pair(f"The {' '.join(words)}.", f"Der {' '.join(kind[word] for kind, word in zip(WORDS, words, strict=True))}.")
        for words in product(*WORDS)
    ]
    held = pairs[::10]
    return Splits([pair for pair in pairs if pair not in held], held, held)


PAIRS = sentences()


def untrained(task):
    torch.manual_seed(0)
    return task.model_class(task.config(ModelOptions())).eval()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translation")
    for split in ("train", "dev", "test"):
        pairs = getattr(PAIRS, split)
        (folder / f"{split}.en").write_text("\n".join(pair.source for pair in pairs), encoding="utf-8")
        (folder / f"{split}.de").write_text("\n".join(pair.target for pair in pairs), encoding="utf-8")
    choices = TranslationChoices(vocabulary=400)
    told = trained(
        "translation",
        folder / "run",
        choices=choices,
        data=folder,
        options={"dropout": 0.0},
        steps=80,
        batch_size=16,
        learning_rate=2e-3,
    )
    return open_run(folder / "run"), told


def test_it_learns_more_than_to_copy(run):
    _, told = run
    truth = [pair.target for pair in PAIRS.dev]
    copied = sacrebleu.corpus_bleu([pair.source for pair in PAIRS.dev], [truth]).score
    assert told.scores["bleu"] > copied + 20
    assert told.scores["chrf"] > 30


def test_a_reopened_run_scores_and_predicts_the_same(run):
    opened, told = run
    assert opened.task.scores(opened.model, opened.examples().dev) == pytest.approx(told.scores)
    text = PAIRS.dev[0].source
    first = opened.predict(text)
    assert first == open_run(opened.folder).predict(text)
    assert first["text"] == text
    assert opened.task.codec.shown(first) == f"{text}\n  {first['translation']}"


def test_scores_are_those_of_sacrebleu(run):
    opened, told = run
    written = [opened.predict(pair.source)["translation"] for pair in PAIRS.dev]
    truth = [[pair.target for pair in PAIRS.dev]]
    assert told.scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(written, truth).score)
    assert told.scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(written, truth).score)


def test_evaluate_tells_the_signature(run, capsys):
    opened, _ = run
    assert main(["evaluate", str(opened.folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["notes"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert told["notes"]["chrf"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|")


@pytest.mark.parametrize("decoding", [Decoding(beams=3), Decoding(temperature=1.0, seed=5), Decoding(max_new_tokens=1)])
def test_it_writes_in_every_way(run, decoding):
    opened, _ = run
    said = []
    text = opened.write("the dog", decoding, None if decoding.beams > 1 else said.append)
    if decoding.beams > 1:
        # Again the same: of several beginnings the best is not a matter of chance.
        assert text == opened.write("the dog", decoding)
    else:
        assert "".join(said) == text


@pytest.mark.parametrize("text", ["猫は😀", "مرحبا", "word " * 2000, "</s>", "x"])
def test_any_text_is_translated(run, text):
    opened, _ = run
    assert isinstance(opened.predict(text)["translation"], str)
    assert len(opened.task.features(Pair(text, text))["input_ids"]) <= LONGEST


@pytest.mark.parametrize("text", ["", " \n"])
def test_nothing_cannot_be_translated(run, text):
    with pytest.raises(ValueError, match=r"^text is empty$"):
        run[0].predict(text)


def test_the_embedded_set_goes_both_ways():
    there, back = Translation.examples(None), Translation.examples(None, choices=TranslationChoices(source="de"))
    assert [(pair.target, pair.source) for pair in there.dev] == [(pair.source, pair.target) for pair in back.dev]
    assert back == Translation.examples(None, choices=TranslationChoices(target="en"))
    with pytest.raises(ValueError, match="source and target must be en and de where data is not given, got en and fr"):
        Translation.examples(None, choices=TranslationChoices(target="fr"))


@pytest.mark.parametrize(
    ("target", "words"),
    [("Guten Tag", "13a"), ("早上好，世界", "zh"), ("おはようございます", "char"), ("สวัสดี", "char")],
)
def test_scripts_without_spaces_are_cut_otherwise(target, words):
    task = Translation.prepared([Pair("good morning", target)])
    assert f"tok:{words}" in task.notes()["bleu"]
    scores = task.scores(untrained(task), [Pair("good morning", target)])
    assert 0 <= scores["bleu"] <= 100


def test_files_of_unequal_length_are_refused(tmp_path):
    (tmp_path / "train.en").write_text("a\nb\n", encoding="utf-8")
    (tmp_path / "train.de").write_text("a\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"train.de: has 1 line, but train.en has 2"):
        Translation.examples(tmp_path)


def test_beams_must_be_some():
    with pytest.raises(ValueError, match=r"^beams must be "):
        TranslationChoices(beams=0)


def test_short_targets_have_a_best_model_too(tmp_path):
    """Of single words BLEU is 0, right or wrong: it must not be what the first look is kept by."""
    words = {"red": "rot", "blue": "blau", "old": "alt", "new": "neu", "cat": "Katze", "dog": "Hund"}
    for split, times in (("train", 4), ("dev", 1), ("test", 1)):
        (tmp_path / f"{split}.en").write_text("\n".join([*words] * times))
        (tmp_path / f"{split}.de").write_text("\n".join([*words.values()] * times))
    told = trained(
        "translation", tmp_path / "run", data=tmp_path, steps=60, evaluate_steps=2, batch_size=12, patience=9
    )
    assert told.scores["bleu"] == 0
    assert told.outcome.best_step > 2
    assert told.scores["exact_match"] > 80
