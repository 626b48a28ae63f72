"""The score of every task is what the libraries of its field make of the same answers, and the sum of its examples."""

from itertools import pairwise
from math import log

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from twofold.data.examples import Slot, Utterance
from twofold.tasks import TASKS, lm
from twofold.tasks.answers import exact_match, token_f1
from twofold.tasks.goals import Goals
from twofold.tasks.lm import LanguageChoices, LanguageModelling
from twofold.tasks.options import ModelOptions
from twofold.tasks.registry import choices_for, task_class
from twofold.tasks.tallies import (
    BINS,
    auroc,
    calibration_error,
    macro_f1,
    perplexity,
    reliability,
    scores_of,
    share,
    span_scores,
    verdicts,
)
from twofold_runtime.predictions import GoalPrediction, LabelPrediction, SlotValue

# Scores that are not made of sums over examples.
OF_ALL_ROWS = {"macro_f1", "calibration_error", "out_of_scope_auroc"}
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


def goal_answer(text, best, slots, confidence, evidence):
    """Accepted from an evidence of a half on."""
    values = tuple(SlotValue(slot.name, text[slot.start : slot.end], slot.start, slot.end) for slot in slots)
    is_accepted = evidence >= 0.5
    return GoalPrediction(
        text=text,
        goal=best if is_accepted else None,
        confidence=confidence,
        slots=values if is_accepted else (),
        best_goal=best,
        best_slots=values,
        evidence=evidence,
    )


def slots_of(examples):
    """All slots of utterances or answers, each with the number of its own."""
    every = [one.slots if isinstance(one, Utterance) else one.best_slots for one in examples]
    return {(number, slot.name, slot.start, slot.end) for number, slots in enumerate(every) for slot in slots}


def expected_error(confidence, right):
    """The expected calibration error, bin by bin."""
    confidence, right = np.array(confidence), np.array(right)
    edges = np.linspace(0, 1, BINS + 1)
    error = 0.0
    for low, high in pairwise(edges):
        inside = (confidence >= low) & ((confidence < high) | (high == 1))
        if inside.any():
            error += inside.mean() * abs(confidence[inside].mean() - right[inside].mean())
    return error


def goals(task, examples):
    random = np.random.default_rng(0)
    sure, evidence = random.random((2, len(examples)))
    right = [
        goal_answer(one.text, one.goal or "lights_on", one.slots, sure[n], 0.3 + 0.7 * evidence[n] if one.goal else 0.1)
        for n, one in enumerate(examples)
    ]
    wrong = [goal_answer(one.text, "alarm_set", one.slots[:1], 0.7, evidence[n]) for n, one in enumerate(examples)]
    answers = partly(right, wrong)
    inside = [(one, answer) for one, answer in zip(examples, answers, strict=True) if one.goal]
    in_scope, told = zip(*inside, strict=True)
    hits = [one.goal == answer.best_goal for one, answer in inside]
    true_slots, told_slots = slots_of(in_scope), slots_of(told)
    exact = [
        answer.goal == one.goal and (one.goal is None or slots_of([answer]) == slots_of([one]))
        for one, answer in zip(examples, answers, strict=True)
    ]
    return answers, {
        "exact_match": 100 * np.mean(exact),
        "goal_accuracy": 100 * accuracy_score([one.goal for one in in_scope], [one.best_goal for one in told]),
        "slot_f1": 200 * len(true_slots & told_slots) / (len(true_slots) + len(told_slots)),
        "calibration_error": expected_error([one.confidence for one in told], hits),
        "out_of_scope_auroc": roc_auc_score([bool(one.goal) for one in examples], [a.evidence for a in answers]),
    }


def labels(task, examples):
    truth = [one.label for one in examples]
    predicted = partly(truth, shifted(truth))
    sure = np.random.default_rng(0).random(len(examples))
    answers = [LabelPrediction("", label, one, ()) for label, one in zip(predicted, sure, strict=True)]
    return answers, {
        "accuracy": 100 * accuracy_score(truth, predicted),
        "macro_f1": 100 * f1_score(truth, predicted, average="macro"),
        "calibration_error": expected_error(sure, [a == b for a, b in zip(truth, predicted, strict=True)]),
    }


def some_tags(task, examples):
    truth = [[*one.tags] for one in examples]
    return truth, partly(truth, [task.reading["tags"][1:2] * (len(one) - 1) + one[-1:] for one in truth])


def names(task, examples):
    from seqeval.metrics import f1_score, precision_score, recall_score

    truth, tags = some_tags(task, examples)
    measures = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
    return tags, {name: 100 * measure(truth, tags) for name, measure in measures.items()}


def parts_of_speech(task, examples):
    truth, tags = some_tags(task, examples)
    words = [word.lower() for one in examples for word in one.words]
    pairs = [
        (one, other) for true, told in zip(truth, tags, strict=True) for one, other in zip(true, told, strict=True)
    ]
    known = task.tokenizer.get_vocab()
    new = [pair for word, pair in zip(words, pairs, strict=True) if f"word:{word}" not in known]
    assert 0 < len(new) < len(pairs)
    return tags, {
        "accuracy": 100 * accuracy_score(*zip(*pairs, strict=True)),
        "new_word_accuracy": 100 * accuracy_score(*zip(*new, strict=True)),
    }


def answers_of_texts(task, examples):
    truth = [one.answers[0].text for one in examples]
    contexts = [one.context for one in examples]
    answers = partly(truth, [f"{one} {context[:7]}" for one, context in zip(truth, contexts, strict=True)])
    pairs = [*zip(answers, [[one] for one in truth], strict=True)]
    return answers, {
        "f1": 100 * np.mean([token_f1(*pair) for pair in pairs]),
        "exact_match": 100 * np.mean([exact_match(*pair) for pair in pairs]),
    }


def corpus_scores(written, truth):
    from sacrebleu.metrics import BLEU, CHRF

    return {name: metric.corpus_score(written, [truth]).score for name, metric in (("bleu", BLEU()), ("chrf", CHRF()))}


def exact_share(written, truth):
    return 100 * np.mean([one == other.strip() for one, other in zip(written, truth, strict=True)])


def translations(task, examples):
    truth = [one.target for one in examples]
    written = partly(truth, [f"{one.target[:20]} {one.source}" for one in examples])
    return written, corpus_scores(written, truth) | {"exact_match": exact_share(written, truth)}


def captions(task, examples):
    truth = [one.caption for one in examples]
    written = partly(truth, shifted(truth))
    return written, corpus_scores(written, truth) | {"exact_match": exact_share(written, truth)}


def summaries(task, examples):
    from rouge_score.rouge_scorer import RougeScorer

    written = partly([one.target for one in examples], [f"{one.target[:20]} {one.source}" for one in examples])
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    # All of it in plain letters, of which rouge-score's own words are made.
    scores = [scorer.score(one.target, text) for one, text in zip(examples, written, strict=True)]
    names = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}
    return written, {name: 100 * np.mean([one[kind].fmeasure for one in scores]) for name, kind in names.items()}


def rankings(task, examples):
    from ir_measures import RR, Qrel, R, ScoredDoc, calc_aggregate, nDCG

    documents = [*examples[0].documents.values()]
    right = [[*(one.documents[name] for name in one.query.relevant), *documents[:9]] for one in examples]
    wrong = [[documents[n], *one] for n, one in enumerate(right)]
    found = [[*dict.fromkeys((document.id, document) for document in one)] for one in partly(right, wrong)]
    made = [[(document, -float(rank)) for rank, (_, document) in enumerate(one)] for one in found]
    truth = [Qrel(str(n), name, grade) for n, one in enumerate(examples) for name, grade in one.query.relevant.items()]
    run = [ScoredDoc(str(n), document.id, score) for n, ranking in enumerate(made) for document, score in ranking]
    scores = calc_aggregate([nDCG @ 10, RR @ 10, R @ 10], truth, run)
    return made, {str(measure): score for measure, score in scores.items()}


# What stands in for a model: answers of which some are right, and the scores that they have elsewhere.
ANSWERS = {
    "goals": goals,
    "translation": translations,
    "summarization": summaries,
    "captioning": captions,
    "classification": labels,
    "ner": names,
    "pos": parts_of_speech,
    "qa": answers_of_texts,
    "retrieval": rankings,
}


def prepared(name):
    """The task with its tokenizer, and examples of which all labels are known."""
    kind = task_class(name)
    splits = kind.examples(None)
    train = splits.train if name in ("goals", "retrieval") else splits.train[:300]
    return kind.prepared(train, **choices_for(kind)), splits.test[:40]


def untrained(task):
    torch.manual_seed(0)
    return task.model_class(task.config(ModelOptions())).eval()


@pytest.mark.parametrize("name", ANSWERS)
def test_scores_are_those_of_the_libraries(name):
    task, examples = prepared(name)
    answers, expected = ANSWERS[name](task, examples)
    tallies = task.judged(examples, answers)
    assert scores_of(tallies) == pytest.approx(expected, rel=1e-6)
    assert task.metric in tallies
    assert set(task.lower) <= set(task.metrics) == set(tallies)
    for score, tally in tallies.items():
        # Where all is right or all wrong, little is seen.
        assert tally.score not in (0, 100), score
        assert len(tally.rows) == len(examples) or score == "calibration_error"
    assert {score for score, tally in tallies.items() if tally.is_right} == RIGHT_OR_WRONG.get(name, set())
    assert {score for score, tally in tallies.items() if tally.of_sums is None} == OF_ALL_ROWS & set(tallies)


def test_every_task_is_scored_here():
    assert {*ANSWERS, "lm"} == set(TASKS)


def utterance_task():
    train = [Utterance("lights on", "lights_on"), Utterance("明天北京", "go", (Slot("date", 0, 2), Slot("city", 2, 4)))]
    return Goals.prepared(train)


def test_what_is_out_of_scope_has_a_row_and_no_goal():
    examples = [Utterance("what is love", None), Utterance("lights on", "lights_on")]
    answers = [goal_answer(one.text, "lights_on", (), 0.9, 0.9) for one in examples]
    tallies = utterance_task().judged(examples, answers)
    assert tallies["goal_accuracy"].rows.tolist() == [[0, 0], [1, 1]]
    assert set(tallies) == {"exact_match", "goal_accuracy", "calibration_error", "out_of_scope_auroc"}
    assert set(utterance_task().judged(examples[:1], answers[:1])) == {"exact_match"}
    assert set(utterance_task().judged(examples[1:], answers[1:])) == {
        "exact_match",
        "goal_accuracy",
        "calibration_error",
    }


@pytest.mark.parametrize(
    ("slots", "f1", "exact"),
    [
        ((Slot("date", 0, 2), Slot("city", 2, 4)), 100, 100),
        ((Slot("date", 0, 2), Slot("city", 2, 5)), 50, 0),
        ((Slot("date", 0, 2),), 200 / 3, 0),
        ((Slot("city", 0, 2), Slot("date", 2, 4)), 0, 0),
        ((), 0, 0),
    ],
)
def test_slots_are_counted_by_their_places(slots, f1, exact):
    """Two in one run of letters, where a script has no spaces."""
    example = Utterance("明天北京天气", "go", (Slot("date", 0, 2), Slot("city", 2, 4)))
    tallies = utterance_task().judged([example], [goal_answer(example.text, "go", slots, 1.0, 1.0)])
    assert tallies["slot_f1"].score == pytest.approx(f1)
    assert tallies["exact_match"].score == exact


def test_scores_of_random_answers_are_those_of_the_libraries():
    """Labels that only one side has, scores that are equal, and every kind of draw."""
    random = np.random.default_rng(0)
    for size in (2, 5, 40):
        truth, predicted = (random.choice([*"abcdef"], size).tolist() for _ in range(2))
        expected = 100 * f1_score(truth, predicted, average="macro", zero_division=0)
        assert macro_f1(truth, predicted).score == pytest.approx(expected)
        positive = np.arange(size) % 2 == 0
        scores = random.integers(0, 4, size) / 4
        assert auroc(scores, positive).score == pytest.approx(roc_auc_score(positive, scores))
        confidence, right = random.random(size), random.random(size) < 0.5
        assert calibration_error(confidence, right).score == pytest.approx(expected_error(confidence, right))


def test_scores_of_drawn_rows_are_those_of_drawn_examples():
    random = np.random.default_rng(0)
    truth, predicted = (random.choice([*"abc"], 30) for _ in range(2))
    positive, scores = random.random(30) < 0.5, random.random(30)
    drawn = random.integers(0, 30, 30)
    assert macro_f1(truth, predicted).of_rows(macro_f1(truth, predicted).rows[drawn]) == pytest.approx(
        100 * f1_score(truth[drawn], predicted[drawn], average="macro")
    )
    assert auroc(scores, positive).of_rows(auroc(scores, positive).rows[drawn]) == pytest.approx(
        roc_auc_score(positive[drawn], scores[drawn])
    )


def test_shares_of_nothing_are_none():
    assert share([], []).score == 0
    assert verdicts([True, False], [False, False]).score == 0
    assert {tally.score for tally in span_scores([[], []], [[], []]).values()} == {0}
    assert verdicts([True, False, True]).score == pytest.approx(200 / 3)
    assert verdicts([True, False, True], [True, True, False]).score == 50
    assert perplexity([1e9], [1], "token").score < float("inf")


def test_bins_count_what_is_in_them():
    bins = reliability([0.0, 0.01, 0.99, 1.0], [False, True, True, True])
    assert len(bins) == BINS
    assert bins[0] == (2, pytest.approx(0.005), 0.5)
    assert bins[-1] == (2, pytest.approx(0.995), 1.0)
    assert all(one == (0, 0.0, 0.0) for one in bins[1:-1])


@pytest.mark.parametrize(
    ("confidence", "right", "error"),
    [
        ([0.75] * 4, [True, True, True, False], 0),
        ([1.0] * 4, [True, False, False, False], 0.75),
        ([0.0, 0.01, 0.99, 1.0], [False, True, True, True], (2 * 0.495 + 2 * 0.005) / 4),
        ([1.0], [True], 0),
    ],
)
def test_the_calibration_error_is_the_mean_distance_of_confidence_and_accuracy(confidence, right, error):
    assert calibration_error(confidence, right).score == pytest.approx(error)


TEXTS = ("The cat sat. " * 9, "", "Über 東京 🙂!", "x")


class TestLanguage:
    def tallies(self, texts, train=TEXTS, **choices):
        task = LanguageModelling.prepared(train, LanguageChoices(context_length=16, **choices))
        return task.tallies(untrained(task), texts)

    @pytest.mark.parametrize("tokenization", ["char", "word", "bpe"])
    @pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1], [""], ["東"]], ids=["four", "long", "empty", "short"])
    def test_every_token_belongs_to_one_part(self, tokenization, texts, monkeypatch):
        """Parts are texts, or where texts are few pieces of them: together they have all tokens and characters."""
        monkeypatch.setattr(lm, "PIECE", 10)
        by_text, by_piece = {}, {}
        for few, made in ((0, by_text), (50, by_piece)):
            monkeypatch.setattr(lm, "FEW", few)
            made |= self.tallies(texts, tokenization=tokenization, vocabulary=300)
        assert scores_of(by_text) == pytest.approx(scores_of(by_piece), rel=1e-6)
        task = LanguageModelling.prepared(TEXTS, LanguageChoices(tokenization=tokenization, vocabulary=300))
        tokens = [len(task.tokenizer(text)["input_ids"]) + 1 for text in texts]
        nats, whole = by_text["nats_per_token"].rows.T
        assert whole.tolist() == tokens
        assert by_text["perplexity"].score == pytest.approx(np.exp(nats.sum() / sum(tokens)))
        assert (by_piece["nats_per_token"].rows >= 0).all()
        assert len(by_piece["nats_per_token"].rows) == sum(max(1, -(-len(text) // 10)) for text in texts)
        if tokenization == "word":
            assert set(by_text) == {"perplexity", "nats_per_token", "unknown_words"}
            return
        assert set(by_text) == set(LanguageModelling.metrics)
        assert by_text["nats_per_character"].rows.tolist() == [
            [pytest.approx(cost), len(text) + 1] for cost, text in zip(nats, texts, strict=True)
        ]
        assert by_text["bits_per_character"].score == pytest.approx(by_text["nats_per_character"].score / log(2))

    def test_parts_are_the_same_for_every_tokenization(self, monkeypatch):
        monkeypatch.setattr(lm, "PIECE", 10)
        one, two = (self.tallies(TEXTS, tokenization=kind, vocabulary=300) for kind in ("char", "bpe"))
        assert one["nats_per_character"].rows[:, 1].tolist() == two["nats_per_character"].rows[:, 1].tolist()
        assert one["nats_per_character"].per == two["nats_per_character"].per
        assert one["perplexity"].per != two["perplexity"].per
        assert one["perplexity"].per == self.tallies(["a"], tokenization="char")["perplexity"].per

    def test_where_texts_end_there_is_more_to_predict(self):
        one, two = (self.tallies(["a cat"], train=train) for train in (["a cat sat"], ["a cat", " sat"]))
        assert all(one[name].per != two[name].per for name in one)
        assert two["nats_per_token"].rows[:, 1].sum() == one["nats_per_token"].rows[:, 1].sum() + 1
