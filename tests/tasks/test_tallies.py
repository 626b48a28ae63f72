"""What examples add to a score gives the score that the task's own library gives, for every task."""

import pytest
import torch
from torch.nn.functional import one_hot
from twofold.tasks.words import Place

from twofold.data.examples import Utterance
from twofold.tasks import TASKS, lm
from twofold.tasks.goals import Found
from twofold.tasks.lm import LanguageChoices, LanguageModelling
from twofold.tasks.options import ModelOptions
from twofold.tasks.runs import chosen, task_class
from twofold.tasks.task import Task

# Scores that are not made of sums over examples.
WITHOUT = {"macro_f1", "calibration_error", "out_of_scope_auroc", "unknown_words"}


# Of which tasks which scores are of answers that are either right or wrong.
RIGHT_OR_WRONG = {
    "goals": {"exact_match", "goal_accuracy"},
    "classification": {"accuracy"},
    "qa": {"exact_match"},
    "captioning": {"exact_match"},
    "translation": {"exact_match"},
}


def partly(right, wrong):
    """Every third answer is a wrong one."""
    return [two if place % 3 == 0 else one for place, (one, two) in enumerate(zip(right, wrong, strict=True))]


def shifted(answers):
    return [*answers[1:], *answers[:1]]


def goals_found(task, examples):
    right = [Found(one.goal or "lights_on", 0.9, 0.8 if one.goal else 0.1, one.slots) for one in examples]
    return partly(right, [Found("alarm_set", 0.7, 0.6, one.slots[:1]) for one in examples])


def logits(task, examples):
    truth = [task.state["labels"].index(one.label) for one in examples]
    return one_hot(torch.tensor(partly(truth, shifted(truth))), len(task.state["labels"])).float()


def texts(task, examples):
    return partly([one.target for one in examples], [f"{one.target[:20]} {one.source}" for one in examples])


def captions(task, examples):
    truth = [one.caption for one in examples]
    return partly(truth, shifted(truth))


def tags(task, examples):
    truth = [[*one.tags] for one in examples]
    return partly(truth, [task.state["tags"][1:2] * (len(one) - 1) + one[-1:] for one in truth])


def answers(task, examples):
    truth = [(one.answers[0].start, one.answers[0].start + len(one.answers[0].text)) for one in examples]
    return [(Place(*place), 1.0) for place in partly(truth, [(start, end + 7) for start, end in truth])]


# What stands in for a model's part: answers of which some are right. The others' models answer by chance.
ANSWERS = {
    "goals": ("found", goals_found),
    "translation": ("written", texts),
    "summarization": ("written", texts),
    "captioning": ("_captions", captions),
    "classification": ("_logits", logits),
    "ner": ("_tags", tags),
    "pos": ("_tags", tags),
    "qa": ("_answers", answers),
}


def prepared(name):
    """The task with its tokenizer, and examples of which all labels are known."""
    kind = task_class(name)
    splits = kind.examples(None)
    train = splits.train if name in ("goals", "retrieval") else splits.train[:300]
    return kind.prepared(train, **chosen(kind)), splits.test[:40]


def untrained(task):
    torch.manual_seed(0)
    return task.model_class(task.config(ModelOptions())).eval()


@pytest.mark.parametrize("name", TASKS)
def test_sums_give_the_scores(name, monkeypatch):
    task, examples = prepared(name)
    if name in ANSWERS:
        method, answer = ANSWERS[name]
        given, model = answer(task, examples), None
        monkeypatch.setattr(task, method, lambda *_: given)
    else:
        model = untrained(task)
    scores, tallies = task.scores(model, examples), task.tallies(model, examples)
    assert set(tallies) == set(scores) - WITHOUT
    assert task.metric in tallies
    for score, tally in tallies.items():
        assert tally.score == pytest.approx(scores[score], rel=1e-6), score
        # Where all is right or all wrong, little is seen.
        assert tally.score not in (0, 100), score
        assert len(tally.rows) == len(examples)
    assert {score for score, tally in tallies.items() if tally.is_right} == RIGHT_OR_WRONG.get(name, set())


def test_what_is_out_of_scope_has_a_row_and_no_goal(monkeypatch):
    task, _ = prepared("goals")
    examples = [Utterance("what is love", None), Utterance("lights on", "lights_on")]
    monkeypatch.setattr(task, "found", lambda _, texts: [Found("lights_on", 0.9, 0.9, ()) for _ in texts])
    tallies = task.tallies(None, examples)
    assert tallies["goal_accuracy"].rows.tolist() == [[0, 0], [1, 1]]
    assert set(tallies) == {"exact_match", "goal_accuracy"}
    assert set(task.tallies(None, examples[:1])) == {"exact_match"}


def test_a_task_need_not_have_any():
    assert Task.tallies(task_class("lm"), None, []) == {}


TEXTS = ("The cat sat. " * 9, "", "Über 東京 🙂!", "x")


class TestLanguage:
    def told(self, texts, train=TEXTS, **choices):
        task = LanguageModelling.prepared(train, LanguageChoices(context_length=16, **choices))
        model = untrained(task)
        return task.scores(model, texts), task.tallies(model, texts)

    @pytest.mark.parametrize("tokenization", ["char", "word", "bpe"])
    @pytest.mark.parametrize("few", [0, 50])
    @pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1], [""], ["東"]], ids=["four", "long", "empty", "short"])
    def test_every_token_belongs_to_one_part(self, tokenization, few, texts, monkeypatch):
        monkeypatch.setattr(lm, "FEW", few)
        monkeypatch.setattr(lm, "PIECE", 10)
        scores, tallies = self.told(texts, tokenization=tokenization, vocabulary=300)
        assert ("nats_per_character" in tallies) == (tokenization != "word")
        for name, tally in tallies.items():
            assert tally.score == pytest.approx(scores[name], rel=1e-5)
            assert len(tally.rows) == (sum(max(1, -(-len(text) // 10)) for text in texts) if few else len(texts))

    def test_parts_are_the_same_for_every_tokenization(self, monkeypatch):
        monkeypatch.setattr(lm, "PIECE", 10)
        one, two = (self.told(TEXTS, tokenization=kind, vocabulary=300)[1] for kind in ("char", "bpe"))
        assert one["nats_per_character"].rows[:, 1].tolist() == two["nats_per_character"].rows[:, 1].tolist()
        assert one["nats_per_character"].per == two["nats_per_character"].per
        assert one["perplexity"].per != two["perplexity"].per
        assert one["perplexity"].per == self.told(["a"], tokenization="char")[1]["perplexity"].per

    def test_where_texts_end_there_is_more_to_predict(self):
        one, two = (self.told(["a cat"], train=train) for train in (["a cat sat"], ["a cat", " sat"]))
        assert all(one[1][name].per != two[1][name].per for name in one[1])
        assert all(one[1][name].score == pytest.approx(one[0][name], rel=1e-6) for name in one[1])
