"""Summarization: learned from pairs, scored as rouge-score scores, beside what needs no training."""

import json

import pytest
from rouge_score.rouge_scorer import RougeScorer

from tests.tasks.small import trained
from twofold.data.embedded.summarization import match_reports
from twofold.data.examples import Pair
from twofold.tasks.options import ModelOptions
from twofold.tasks.pairs import PairChoices
from twofold.tasks.runs import open_run
from twofold.tasks.summarization import Summarization, SummaryChoices, rouge
from twofold.tasks.summary_baselines import lead, most_telling, sentences
from twofold.tasks.tallies import scores_of
from twofold.tasks.translation import TranslationChoices

REPORTS = match_reports(train=300, dev=30, test=30)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("summarization")
    for split in ("train", "dev", "test"):
        lines = [json.dumps({"text": pair.source, "summary": pair.target}) for pair in getattr(REPORTS, split)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    choices = SummaryChoices(vocabulary=600)
    told = trained("summarization", folder / "run", choices=choices, data=folder, steps=120, batch_size=16)
    return open_run(folder / "run"), told


def test_it_learns_more_than_the_first_sentence(run):
    _, told = run
    first = scores_of(rouge([lead(pair.source) for pair in REPORTS.dev], REPORTS.dev))
    telling = most_telling([pair.source for pair in REPORTS.train])
    second = scores_of(rouge([telling(pair.source) for pair in REPORTS.dev], REPORTS.dev))
    assert told.scores["rouge_l"] > max(first["rouge_l"], second["rouge_l"]) + 5


def test_a_reopened_run_scores_and_predicts_the_same(run):
    opened, told = run
    assert opened.task.scores(opened.model, opened.examples().dev) == pytest.approx(told.scores)
    text = REPORTS.dev[0].source
    first = opened.predict(text)
    assert first == open_run(opened.folder).predict(text)
    assert opened.task.codec.shown(first) == first["summary"]
    assert "rouge-score" in opened.task.notes()["rouge"]


@pytest.mark.parametrize("text", ["猫は😀", "word " * 3000, "x"])
def test_any_text_is_summarised(run, text):
    task = run[0].task
    summary = run[0].predict(text)["summary"]
    assert len(task.tokenizer(summary)["input_ids"]) <= task.reading["longest"] + 2


def test_nothing_cannot_be_summarised(run):
    with pytest.raises(ValueError, match=r"^text is empty$"):
        run[0].predict("")


@pytest.mark.parametrize("copies", [True, False])
def test_copying_is_a_choice(copies):
    task = Summarization.prepared(REPORTS.train, SummaryChoices(vocabulary=400, copies=copies))
    assert task.config(ModelOptions()).copies is copies
    assert not hasattr(task.config(ModelOptions(model="gru")), "copies")
    # Only what is copied has to look the same in the middle of a text and at its beginning.
    first, later = (task.features(Pair(text, "x"))["input_ids"].tolist() for text in ("Rovers", "the Rovers"))
    assert (later[-len(first) :] == first) is copies


def test_summaries_copy_unless_told_otherwise_and_translations_do_not():
    assert SummaryChoices().copies
    assert not PairChoices().copies
    assert not TranslationChoices().copies


def test_scores_are_those_of_rouge_score():
    pair, summary = Pair("text", "The Ravens beat the Rovers 4-2 in Lyon"), "Ravens beating Rovers, 4-1 in Lyon."
    found = scores_of(rouge([summary], [pair]))
    usual = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True).score(pair.target, summary)
    assert found == pytest.approx({name: 100 * usual[kind].fmeasure for kind, name in
                                   (("rouge1", "rouge_1"), ("rouge2", "rouge_2"), ("rougeL", "rouge_l"))})  # fmt: skip


@pytest.mark.parametrize("text", ["Привет, мир", "早上好世界", "كيف حالك"])
def test_any_script_is_scored(text):
    assert rouge([text], [Pair("x", text)])["rouge_1"].score == pytest.approx(100)
    assert rouge(["nothing of it"], [Pair("x", text)])["rouge_1"].score == 0


@pytest.mark.parametrize("more", ["“{}”", "{} …", "{} – été", "Мир: {}"])
def test_words_are_stemmed_whatever_stands_beside_them(more):
    """Of texts of which one has other letters or marks, too."""
    text = "Flooding families are moving houses"
    assert rouge([text], [Pair("x", more.format("flooded family is moved house"))])["rouge_1"].score > 60
    assert rouge([more.format(text)], [Pair("x", more.format(text))])["rouge_2"].score == pytest.approx(100)


def test_bad_files_are_named(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"train.jsonl:1: missing field 'summary'"):
        Summarization.examples(tmp_path)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("no end\nhere", ["no end", "here"]),
        ("", []),
        ("3.5 m", ["3.5 m"]),
    ],
)
def test_sentences(text, parts):
    assert sentences(text) == parts
    assert lead(text) == (parts[0] if parts else "")


def test_lead_may_count_words():
    assert lead("one two three four", words=2) == "one two"


def test_the_most_telling_sentence_has_the_rarest_words():
    telling = most_telling(["it was a match", "it was a day", "it was a goal by Novak"])
    assert telling("It was. It was a match by Novak.") == "It was a match by Novak."
    assert telling("") == ""
    assert telling("unknown things") == "unknown things"
