"""Classes of texts: learned on a part of the embedded set, reopened, and given texts of all kinds."""

from collections import Counter

import pytest
from transformers import pipeline

from tests.tasks.small import train_small
from twofold.tasks.classification import Classification
from twofold.tasks.registry import unknown_note
from twofold.tasks.runs import open_run
from twofold_runtime.labels import LONGEST


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classification")
    with pytest.MonkeyPatch.context() as patch:
        part, scores = train_small("classification", folder, patch, train=1200, steps=60)
    return part, scores, open_run(folder)


def test_beats_the_commonest_class(run):
    part, scores, opened = run
    commonest = Counter(one.label for one in part.train).most_common(1)[0][0]
    trivial = 100 * sum(one.label == commonest for one in part.dev) / len(part.dev)
    assert scores["accuracy"] > trivial + 10
    assert 0 < scores["macro_f1"] <= 100
    assert 0 <= scores["calibration_error"] <= 1
    assert opened.task.scores(opened.model, part.dev) == pytest.approx(scores)


def test_tells_class_and_confidence(run):
    _, _, opened = run
    prediction = opened.predict("thank you so much for the trip")
    assert prediction["label"] in opened.task.reading["labels"]
    assert (
        prediction["confidence"] >= prediction["others"][0]["confidence"] >= prediction["others"][1]["confidence"] >= 0
    )
    assert len({prediction["label"], *(one["label"] for one in prediction["others"])}) == 3
    assert opened.task.codec.shown(prediction).splitlines()[1].strip().startswith(prediction["label"])


def test_a_pipeline_of_transformers_names_the_same_class(run):
    part, _, opened = run
    classify = pipeline("text-classification", model=opened.model, tokenizer=opened.task.tokenizer, device="cpu")
    texts = [one.text for one in part.dev[:20]]
    assert [one["label"] for one in classify(texts)] == [opened.predict(text)["label"] for text in texts]
    assert opened.model.config.label2id == {label: at for at, label in enumerate(opened.task.reading["labels"])}


@pytest.mark.parametrize("text", ["🙂🙂", "谢谢你的信", "</s> <pad>", "word " * 3 * LONGEST])
def test_any_text_gets_a_class(run, text):
    assert 0 < run[2].predict(text)["confidence"] <= 1


@pytest.mark.parametrize("text", ["", "  \n"])
def test_no_text_gets_an_error(run, text):
    with pytest.raises(ValueError, match=r"^text is empty"):
        run[2].predict(text)


def test_is_tuned_on_dev(run):
    part, scores, opened = run
    assert list(opened.record.calibration) == ["temperature"]
    untuned = Classification(opened.task.tokenizer, opened.task.reading)
    # A temperature moves confidences and no labels.
    before = untuned.scores(opened.model, part.dev)
    assert before["accuracy"] == pytest.approx(scores["accuracy"])
    assert before["calibration_error"] != scores["calibration_error"]
    assert opened.task.codec.calibration["temperature"] != 1.0


def test_many_texts_have_the_answers_of_each(run):
    part, _, opened = run
    texts = [*(one.text for one in part.dev[:20]), "word " * 3 * LONGEST, "x"]
    for one, text in zip(opened.predict_many(texts), texts, strict=True):
        alone = opened.predict(text)
        assert (one.text, one.label) == (text, alone.label)
        chances, expected = ([made.confidence, *(other.confidence for other in made.others)] for made in (one, alone))
        assert chances == pytest.approx(expected, abs=1e-5)


def write(folder, **files):
    for name, lines in files.items():
        (folder / f"{name}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in lines))


def test_one_label_cannot_be_learned(tmp_path):
    write(tmp_path, train=[("a", "x"), ("b", "x")], dev=[("c", "x")], test=[("d", "x")])
    with pytest.raises(ValueError, match=r"train has one label, 'x'"):
        Classification.examples(tmp_path)


def test_a_label_that_train_lacks_is_named_and_never_right(run, tmp_path):
    write(tmp_path, train=[("a", "x"), ("b", "y")], dev=[("c", "z")], test=[("d", "x")])
    splits = Classification.examples(tmp_path)
    assert unknown_note(Classification.prepared(splits.train), splits.dev) is not None
    opened = run[2]
    assert opened.task.scores(opened.model, splits.dev)["accuracy"] == 0
    assert opened.task.tuned(opened.model, splits.dev).codec.calibration == opened.task.codec.calibration
