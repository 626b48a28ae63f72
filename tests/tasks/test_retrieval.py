"""Retrieval: a small model finds more than chance does, its index comes back, and what is wrong is said."""

import json
import math
import shutil

import pytest
import torch

from twofold import open_run
from twofold.data.embedded.retrieval import help_pages
from twofold.data.examples import Document, Query
from twofold.tasks.bm25 import bm25
from twofold.tasks.options import ModelOptions
from twofold.tasks.retrieval import Retrieval, Search, ranking_tallies
from twofold.tasks.tallies import scores_of
from twofold.training.feeding import Piece
from twofold.training.run import train_task
from twofold.training.settings import Settings
from twofold_runtime.folder import read_run
from twofold_runtime.ranking import LONGEST

PLACES = ["oven", "roof", "garden", "cellar", "attic", "garage", "balcony", "kitchen"]
DEEDS = {"clean": "how is the {} cleaned", "heat": "why is it cold in the {}", "paint": "colours for a {}"}
QUICK = Settings(steps=60, batch_size=24, learning_rate=3e-3, evaluate_steps=60, buckets=False, device="cpu")


def write_collection(folder):
    """24 documents, each asked for in three ways of which one is left to dev; two are right for the cellar."""
    documents = [
        {"doc_id": f"{place}-{deed}", "title": place, "text": f"to {deed} the {place}"}
        for place in PLACES
        for deed in DEEDS
    ]
    asked = {"train": ("{}", "please: {}"), "dev": ("tell me, {}",), "test": ("so {} then",)}
    lines = {"docs.jsonl": documents}
    for split, forms in asked.items():
        lines[f"queries.{split}.jsonl"] = [
            {"text": form.format(question.format(place)), "relevant": [f"{place}-{deed}"]}
            for form in forms
            for place in PLACES
            for deed, question in DEEDS.items()
        ]
    lines["queries.train.jsonl"].append({"text": "all about cellars", "relevant": ["cellar-heat", "cellar-paint"]})
    folder.mkdir(exist_ok=True)
    for name, records in lines.items():
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_collection(tmp_path_factory.mktemp("retrieval") / "data")


@pytest.fixture(scope="module")
def trained(data):
    folder = data.parent / "run"
    return folder, train_task("retrieval", folder=folder, options=ModelOptions(), settings=QUICK, data=data)


@pytest.fixture
def run(trained, tmp_path):
    shutil.copytree(trained[0], tmp_path / "run")
    return tmp_path / "run"


def test_training_finds_more_than_chance(trained):
    _, found = trained
    # The expectation of a random order of 24 documents with one that is right.
    chance = sum(1 / torch.log2(torch.tensor(rank + 1.0)) for rank in range(1, 11)) / 24
    assert found.scores["nDCG@10"] > 2.5 * chance
    assert set(found.scores) == {"nDCG@10", "RR@10", "R@10"}
    assert all(0 <= score <= 1 for score in found.scores.values())


def test_an_opened_run_ranks_documents(trained, data):
    opened = open_run(trained[0])
    found = opened.predict("please: how is the roof cleaned")
    scores = [one["score"] for one in found["documents"]]
    assert len(scores) == 10
    assert scores == sorted(scores, reverse=True)
    assert all(-1.001 <= score <= 1.001 for score in scores)
    assert found["documents"][0]["id"].startswith("roof-")
    assert found["documents"][0]["text"].startswith("roof\nto ")
    assert open_run(str(trained[0])).predict("please: how is the roof cleaned") == found
    shown = opened.task.codec.shown(found).splitlines()
    assert shown[0] == "please: how is the roof cleaned"
    assert len(shown) == 11
    examples = opened.task.examples(data).dev
    assert opened.task.scores(opened.model, examples) == pytest.approx(trained[1].scores)


def test_predictions_of_several_are_those_of_each(trained):
    opened = open_run(trained[0])
    texts = ["кухня 🔥", "台所を掃除する", "x", "</s>", "word " * 3000, "\n a \0"]
    predictions = opened.predict_many(texts)
    for text, prediction in zip(texts, predictions, strict=True):
        assert prediction["text"] == text
        assert len({one["id"] for one in prediction["documents"]}) == 10
        assert all(abs(one["score"]) <= 1.001 for one in prediction["documents"])
        alone = opened.predict(text)["documents"]
        assert [one["score"] for one in alone] == pytest.approx(
            [one["score"] for one in prediction["documents"]], abs=1e-5
        )


def test_a_damaged_index_is_refused_and_made_anew(run, data):
    for name in [name for name in read_run(run).files if name.startswith("index-")]:
        whole = (run / name).read_bytes()
        (run / name).write_bytes(whole[:-1])
        with pytest.raises(ValueError, match=name):
            open_run(run).predict("roof")
        (run / name).unlink()
        opened = open_run(run)
        with pytest.raises(ValueError, match=name):
            opened.predict("roof")
        opened.task.scores(opened.model, opened.task.examples(data).test)
        opened.task.write_files(run)
        assert (run / name).read_bytes() == whole
    assert open_run(run).predict("roof")["documents"]


def test_the_index_is_made_anew_from_the_collection(run, data):
    opened = open_run(run)
    before, names = opened.predict("roof"), sorted(opened.record.files)
    for name in names:
        if name.startswith("index-"):
            (run / name).unlink()
    with pytest.raises(ValueError, match="no index to write yet"):
        opened.task.write_files(run)
    opened.task.scores(opened.model, opened.task.examples(data).test)
    opened.task.write_files(run)
    assert open_run(run).predict("roof") == before
    assert sorted(read_run(run).files) == names


def searches(*relevant):
    documents = {name: Document(name, f"about {name}") for name in "abc"}
    return [Search(Query(f"what of {' '.join(names)}", dict.fromkeys(names, 1)), documents) for names in relevant]


def test_a_batch_has_every_document_once_and_marks_what_is_also_right():
    examples = searches("a", "a", "b", "ab")
    task = Retrieval.prepared(examples)
    features = [task.features(one) for one in examples]
    for _ in range(5):
        batch = task.collate(features)
        assert len(batch["document_input_ids"]) == 2
        assert batch["labels"][:3].tolist() == [0, 0, 1]
        own = batch["labels"][3].item()
        assert batch["also_right"].tolist() == [[False, False]] * 3 + [[own == 1, own == 0]]
    model = task.model_class(task.config(ModelOptions()))
    assert torch.isfinite(model(**batch).loss)
    with pytest.raises(ValueError, match="give document_input_ids as well"):
        model(batch["input_ids"], labels=batch["labels"])


def test_long_documents_are_cut():
    (example,) = searches("a")
    long = Search(example.query, {"a": Document("a", "many words " * 5000)})
    task = Retrieval.prepared([long])
    assert len(task.features(long)["relevant"]["a"]) == LONGEST


def test_counting_words_finds_what_shares_them():
    documents = [Document("roof", "a roof of tiles"), Document("oven", "an oven, and tiles"), Document("sea", "water")]
    rankings = bm25(documents, ["OVEN tiles", "кот", "roof"])
    assert [[document.id for document, _ in ranking] for ranking in rankings] == [["oven", "roof"], [], ["roof"]]
    # idf of a word in 1 of 3 documents times the saturated count, by hand.
    mean = (4 + 4 + 1) / 3
    room = 1.2 * (0.25 + 0.75 * 4 / mean)
    assert rankings[2][0][1] == pytest.approx(torch.log(torch.tensor(1 + 2.5 / 1.5)).item() * 2.2 / (1 + room))


def test_scores_of_rankings_by_hand():
    documents = [Document(str(place), "") for place in range(3)]
    queries = [Query("one", {"1": 1}), Query("none found", {"2": 1})]
    scores = scores_of(ranking_tallies(queries, [[(documents[0], 0.5), (documents[1], 0.5)], []]))
    assert scores == pytest.approx({"nDCG@10": 0.5 / torch.log2(torch.tensor(3.0)).item(), "RR@10": 0.25, "R@10": 0.5})
    # The lesser of two relevant documents comes first: 1 + 3 / log2(3) instead of 3 + 1 / log2(3).
    ranking = [(documents[0], 0.5), (documents[1], 0.4)]
    graded = scores_of(ranking_tallies([Query("graded", {"0": 1, "1": 3})], [ranking]))
    assert graded["nDCG@10"] == pytest.approx((1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)))


def test_the_embedded_set_is_the_default():
    splits = Retrieval.examples(None)
    pages = help_pages()
    assert [one.query for one in splits.test] == pages.queries.test
    assert list(splits.train[0].documents.values()) == pages.documents
    assert splits.dev[0].documents is splits.train[0].documents


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("queries.dev.jsonl", '{"text": "x", "relevant": ["moon"]}', r"queries.dev.jsonl:1: unknown doc_id 'moon'"),
        ("queries.dev.jsonl", '{"text": "", "relevant": ["roof-heat"]}', "field 'text' is empty"),
        ("docs.jsonl", '{"doc_id": "a"}', "docs.jsonl:1: missing field 'text'"),
        ("docs.jsonl", "not JSON", "docs.jsonl:1: invalid JSON"),
    ],
)
def test_bad_files_are_named(tmp_path, name, line, message):
    (write_collection(tmp_path) / name).write_text(line + "\n")
    with pytest.raises(ValueError, match=message):
        train_task("retrieval", folder=tmp_path / "run", options=ModelOptions(), settings=QUICK, data=tmp_path)
    assert not (tmp_path / "run").exists()


def test_tokens_of_a_row_are_those_of_training_on_average():
    """A plan's budget is made of the former, and a run counts the latter."""
    train = Retrieval.examples(None).train[:200]
    task = Retrieval.prepared(train)
    rows = task.rows(train)
    torch.manual_seed(0)
    seen = [Piece(task.collate(rows), counts=True).tokens for _ in range(20)]
    assert sum(seen) / 20 == pytest.approx(sum(map(task.tokens_of, rows)), rel=0.01)
