"""Parts of speech: learned on a part of the embedded set, reopened, and given texts of all kinds."""

from collections import Counter

import pytest

from tests.tasks.small import train_small
from twofold.data.examples import Tagged
from twofold.tasks.pos import PartsOfSpeech
from twofold.tasks.registry import unknown_note
from twofold.tasks.runs import open_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pos")
    with pytest.MonkeyPatch.context() as patch:
        part, scores = train_small("pos", folder, patch, train=600)
    return part, scores, open_run(folder)


def test_beats_the_commonest_tag_of_each_word(run):
    part, scores, opened = run
    pairs = Counter((word, tag) for one in part.train for word, tag in zip(one.words, one.tags, strict=True))
    usual = {word: tag for (word, tag), _ in reversed(pairs.most_common())}
    dev = [(word, tag) for one in part.dev for word, tag in zip(one.words, one.tags, strict=True)]
    by_heart = 100 * sum(usual.get(word, "NOUN") == tag for word, tag in dev) / len(dev)
    assert scores["accuracy"] > by_heart
    assert 0 <= scores["new_word_accuracy"] <= scores["accuracy"]
    assert opened.task.scores(opened.model, part.dev) == pytest.approx(scores)


def test_tells_words_with_tags(run):
    opened = run[2]
    text = "She can water the plant."
    prediction = opened.predict(text)
    assert [one["word"] for one in prediction["words"]] == ["She", "can", "water", "the", "plant", "."]
    assert all(text[one["start"] : one["end"]] == one["word"] for one in prediction["words"])
    assert {one["tag"] for one in prediction["words"]} <= set(opened.task.reading["tags"])
    assert opened.task.codec.shown(prediction).startswith(f"She/{prediction['words'][0]['tag']} can/")
    assert prediction["words"][-1]["tag"] == "PUNCT"


@pytest.mark.parametrize("text", ["🙂", "我喜欢书", "word " * 1100])
def test_any_text_can_be_read(run, text):
    assert "".join(one["word"] for one in run[2].predict(text)["words"]) == "".join(text.split())


def test_many_texts_have_the_answers_of_each(run):
    texts = [" ".join(one.words) for one in run[0].dev[:20]] + ["word " * 600, "!"]
    assert [dict(one) for one in run[2].predict_many(texts)] == [dict(run[2].predict(text)) for text in texts]


def test_transformers_knows_the_tags_by_name(run):
    opened = run[2]
    assert opened.model.config.id2label == dict(enumerate(opened.task.reading["tags"]))


def test_no_text_gets_an_error(run):
    with pytest.raises(ValueError, match=r"^text is empty"):
        run[2].predict("")


def test_a_tag_that_train_lacks_is_named_and_never_right(run, tmp_path):
    for name, tag in (("train", "NOUN"), ("dev", "NOUN"), ("test", "VERB")):
        (tmp_path / f"{name}.tsv").write_text(f"walk\t{tag}\n")
    splits = PartsOfSpeech.examples(tmp_path)
    assert "'VERB' (1)" in (unknown_note(PartsOfSpeech.prepared(splits.train), splits.test) or "")
    opened = run[2]
    assert opened.task.scores(opened.model, [Tagged(("walk",), ("SHIP",))])["accuracy"] == 0
