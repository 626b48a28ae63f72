"""Names in texts: learned on a part of the embedded set, reopened, and given texts of all kinds."""

import pytest

from tests.tasks.small import train_small
from twofold.data.examples import Tagged
from twofold.tasks.ner import Names
from twofold.tasks.registry import unknown_note
from twofold.tasks.runs import open_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ner")
    with pytest.MonkeyPatch.context() as patch:
        part, scores = train_small("ner", folder, patch, train=600)
    return part, scores, open_run(folder)


def test_beats_names_learned_by_heart(run):
    """Which is the f1 of tagging every word as it was tagged most often."""
    from seqeval.metrics import f1_score

    part, scores, opened = run
    counts = {}
    for one in part.train:
        for word, tag in zip(one.words, one.tags, strict=True):
            counts.setdefault(word, {}).setdefault(tag, 0)
            counts[word][tag] += 1
    heart = {word: max(tags, key=tags.__getitem__) for word, tags in counts.items()}
    guess = [[heart.get(word, "O") for word in one.words] for one in part.dev]
    by_heart = 100 * f1_score([list(one.tags) for one in part.dev], guess)
    assert scores["f1"] > by_heart
    assert opened.task.scores(opened.model, part.dev) == pytest.approx(scores)


def test_tells_names_by_place(run):
    part, _, opened = run
    text = " ".join(part.train[0].words)
    prediction = opened.predict(text)
    assert prediction["entities"]
    for entity in prediction["entities"]:
        assert entity["kind"] in ("PER", "LOC", "ORG", "WORK")
        assert text[entity["start"] : entity["end"]] == entity["value"] == entity["value"].strip()
        assert f"{entity['kind']} = {entity['value']!r}" in opened.task.codec.shown(prediction)


@pytest.mark.parametrize("text", ["🙂", "Анна живёт в Осло.", "我在北京", "<unk> <pad>", "Omar " * 1500])
def test_any_text_can_be_read(run, text):
    entities = run[2].predict(text)["entities"]
    assert all(text[one["start"] : one["end"]] == one["value"] for one in entities)


def test_no_text_gets_an_error(run):
    with pytest.raises(ValueError, match=r"^text is empty"):
        run[2].predict(" ")


def test_says_which_kind_it_never_saw_and_counts_it_as_missed(run):
    opened, unknown = run[2], [Tagged(("Vasa",), ("B-SHIP",))]
    assert "'SHIP' (1)" in (unknown_note(opened.task, unknown) or "")
    assert opened.task.scores(opened.model, unknown)["recall"] == 0


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("Anna\tB-PER\nOslo\tI-LOC\n", r"train\.tsv:2: .*'I-LOC'"),
        ("Anna\tPER\n", r"train\.tsv:1: .*'PER'"),
        ("Anna PER\n", r"train\.tsv:1: .*<TAB>"),
    ],
)
def test_broken_files_are_named_with_the_line(tmp_path, lines, problem):
    (tmp_path / "train.tsv").write_text(lines)
    with pytest.raises(ValueError, match=problem):
        Names.examples(tmp_path)


def test_train_must_have_a_name(tmp_path):
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.tsv").write_text("the\tO\nend\tO\n")
    with pytest.raises(ValueError, match="train has no name"):
        Names.examples(tmp_path)
