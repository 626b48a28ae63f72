"""Against numbers worked out by hand, by enumeration, by scipy and by sacreBLEU."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest
from scipy import stats

from twofold.lab.bootstrap import BOOTSTRAP, MCNEMAR, comparable, compared
from twofold.lab.statistics import sign_flip_p
from twofold.tasks.tallies import auroc, corpus, perplexity, share, span_scores, verdicts

quick = partial(compared, resamples=500)


def right(*answers):
    return verdicts([bool(answer) for answer in answers])


class TestRightOrWrong:
    @pytest.mark.parametrize(
        ("ours", "theirs", "alone", "p"),
        [
            # Five only we had, one only they: 2 * (1 + 6) / 2^6.
            ([1, 1, 1, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 1, 1, 0], (5, 1), 14 / 64),
            ([1] * 9 + [0], [0] * 10, (9, 0), 2 / 512),
            ([1, 0, 1, 0], [0, 1, 0, 1], (2, 2), 1.0),
            ([1, 1, 0], [1, 1, 0], (0, 0), 1.0),
            ([1], [0], (1, 0), 1.0),
        ],
    )
    def test_is_mcnemars_by_hand(self, ours, theirs, alone, p):
        found = quick(right(*ours), right(*theirs))
        assert (found.test, found.alone) == (MCNEMAR, alone)
        assert found.p == pytest.approx(p)
        assert found.difference.mean == pytest.approx(100 * (sum(ours) - sum(theirs)) / len(ours))

    def test_what_does_not_count_is_not_counted(self):
        counts = [True, True, True, False, False]
        ours = verdicts([True, True, False, True, True], counts)
        theirs = verdicts([False, True, False, False, True], counts)
        found = quick(ours, theirs)
        assert (found.ours, found.theirs) == (pytest.approx(200 / 3), pytest.approx(100 / 3))
        assert found.alone == (1, 0)


class TestBootstrap:
    def test_is_what_all_resamples_say(self):
        ours, theirs = np.array([3.0, 1.0, 4.0, 1.5]), np.array([1.0, 1.2, 2.5, 1.9])
        every = [
            np.mean([(ours - theirs)[place] for place in drawn]) for drawn in itertools.product(range(4), repeat=4)
        ]
        found = compared(share(ours, scale=1), share(theirs, scale=1), resamples=40_000)
        assert found.test == BOOTSTRAP
        assert found.difference.mean == pytest.approx(0.725)
        assert found.p == pytest.approx(2 * np.mean(np.array(every) <= 0), abs=0.01)
        assert [found.difference.low, found.difference.high] == pytest.approx(
            np.quantile(every, [0.025, 0.975]), abs=0.03
        )

    def test_is_scipys(self):
        rng = np.random.default_rng(1)
        parts, wholes = rng.integers(0, 9, (2, 60)), rng.integers(9, 20, 60)

        def difference(one, two, whole, axis):
            return 100 * (one.sum(axis) - two.sum(axis)) / whole.sum(axis)

        theirs = stats.bootstrap(
            (*parts, wholes), difference, paired=True, method="percentile", n_resamples=20_000, rng=0
        ).confidence_interval
        ours = compared(share(parts[0], wholes), share(parts[1], wholes), resamples=20_000).difference
        assert (ours.low, ours.high) == pytest.approx(tuple(theirs), abs=0.15)

    def test_is_paired(self):
        # Examples differ much, models little: apart, nothing would be seen.
        base = np.random.default_rng(2).normal(0, 10, 80)
        found = quick(share(base + 0.1), share(base))
        assert found.difference.low == pytest.approx(found.difference.high)
        assert found.p == pytest.approx(2 / 501)
        assert found.is_found

    def test_depends_on_the_seed_alone(self, monkeypatch):
        rng = np.random.default_rng(3)
        one, two = share(rng.random(30)), share(rng.random(30))
        first = quick(one, two, seed=4)
        assert quick(one, two, seed=4) == first
        assert quick(one, two, seed=5) != first
        # Nor on how much is drawn at once.
        monkeypatch.setattr("twofold.lab.bootstrap.AT_ONCE", 70)
        again = quick(one, two, seed=4)
        assert again.p == first.p
        assert (again.difference.low, again.difference.high) == pytest.approx(
            (first.difference.low, first.difference.high), rel=1e-12
        )

    def test_turned_around_it_says_the_opposite(self):
        rng = np.random.default_rng(4)
        one, two = share(rng.random(40)), share(rng.random(40) - 0.1)
        there, back = quick(one, two), quick(two, one)
        assert (back.difference.low, back.difference.high) == pytest.approx(
            (-there.difference.high, -there.difference.low)
        )
        assert back.p == there.p

    def test_the_same_answers_are_no_difference(self):
        found = quick(share([0.1, 0.7, 0.4]), share([0.1, 0.7, 0.4]))
        assert (found.difference.mean, found.difference.low, found.difference.high, found.p) == (0, 0, 0, 1)
        assert not found.is_found

    def test_ties_that_rounding_would_part(self):
        # 0.1 + 0.2 is not 0.3 in floating point: every resample of both, or of none, is a tie.
        found = compared(share([0.1, 0.2, 0.0] * 3), share([0.0, 0.0, 0.3] * 3))
        assert found.difference.mean == pytest.approx(0)
        assert found.p == 1.0

    @pytest.mark.parametrize("count", [2, 4, 9])
    def test_few_examples_have_no_smaller_p_than_a_sign_flip(self, count):
        found = compared(share([1.0] * count), share([0.0] * count))
        assert found.p == pytest.approx(2 / 2**count) == pytest.approx(sign_flip_p([1.0] * count))
        assert found.difference.excludes(0.0)
        assert (found.is_too_few, found.is_found) == (True, False)

    def test_ten_examples_are_enough(self):
        found = quick(share([1.0] * 10), share([0.0] * 10))
        assert (found.is_too_few, found.is_found) == (False, True)

    def test_one_example_bounds_nothing(self):
        found = quick(share([1.0]), share([0.0]))
        assert (found.difference.low, found.difference.high, found.p) == (-math.inf, math.inf, 1.0)
        assert not found.is_found

    def test_where_models_are_equally_good_it_seldom_finds_one_better(self):
        rng = np.random.default_rng(5)
        false = sum(quick(share(rng.random(100)), share(rng.random(100))).is_found for _ in range(300))
        # 5 % of 300 are 15; at 4 standard deviations.
        assert false <= 30

    def test_of_a_ratio_of_sums(self):
        # Long examples weigh more: 10 of 100 and 1 of 1, not the mean of 10 % and 100 %.
        assert quick(share([10, 1], [100, 1]), share([0, 0], [100, 1])).ours == pytest.approx(1100 / 101)

    def test_perplexity_grows_by_products(self):
        found = quick(perplexity([2.0, 4.0], [2, 2], "token"), perplexity([2.0, 2.0], [2, 2], "token"))
        assert found.ours == pytest.approx(math.exp(1.5))
        assert found.difference.high == pytest.approx(math.exp(2) - math.exp(1))


def test_spans_by_hand():
    truth = [[("a", 0, 2)], [], [("b", 0, 1), ("b", 1, 2)]]
    found = span_scores(truth, [[("a", 0, 2), ("b", 2, 3)], [], [("b", 0, 2)]])
    # Of three true spans one is found, among three that were told: the last two are taken for one.
    assert {name: tally.score for name, tally in found.items()} == {
        "f1": pytest.approx(200 / 6),
        "precision": pytest.approx(100 / 3),
        "recall": pytest.approx(100 / 3),
    }


TRUTH = [f"the {colour} cat sat on {number} mats" for colour in ("red", "blue", "grey") for number in range(10)]
GOOD = [line.replace("cat", "dog") if place % 5 == 0 else line for place, line in enumerate(TRUTH)]
POOR = [line.replace("sat on", "is at") if place % 2 else line for place, line in enumerate(TRUTH)]


class TestSacrebleu:
    @pytest.mark.parametrize("metric", [BLEU(), CHRF()], ids=["bleu", "chrf"])
    def test_its_score_and_its_own_test(self, metric):
        tallies = [corpus(metric, written, TRUTH) for written in (GOOD, POOR)]
        found = quick(*tallies)
        for score, written in ((found.ours, GOOD), (found.theirs, POOR)):
            assert score == pytest.approx(metric.corpus_score(written, [TRUTH]).score)
        assert found.is_found
        systems = [("baseline", POOR), ("other", GOOD)]
        _, scores = PairedTest(systems, {"x": metric}, [TRUTH], test_type="bs", n_samples=1000)()
        [(_, told)] = [column for name, column in scores.items() if name != "System"]
        assert found.sacrebleu.p == told.p_value < 0.01
        assert "|bs:1000|seed:12345|" in found.sacrebleu.signature

    def test_equal_texts_have_no_p_of_its(self):
        found = quick(corpus(BLEU(), GOOD, TRUTH), corpus(BLEU(), GOOD, TRUTH))
        assert (found.p, found.sacrebleu) == (1.0, None)

    def test_equal_scores_of_other_texts_have_none_either(self):
        found = quick(corpus(BLEU(), ["no", "nothing"] * 10, TRUTH[:20]), corpus(BLEU(), ["x", "y"] * 10, TRUTH[:20]))
        assert (found.difference.mean, found.sacrebleu) == (0, None)

    def test_its_p_looks_at_one_side(self):
        """Hence ours beside it: near the threshold ours is about twice as large."""
        rng = np.random.default_rng(6)
        spoilt = [[rng.random() < share for _ in TRUTH] for share in (0.2, 0.45)]
        written = [
            [line.replace("sat", "lay") if bad else line for line, bad in zip(TRUTH, which, strict=True)]
            for which in spoilt
        ]
        found = compared(*(corpus(BLEU(), one, TRUTH) for one in written))
        assert 0.01 < found.p < 0.4
        assert 1.5 < found.p / found.sacrebleu.p < 2.7

    def test_other_words_are_another_score(self):
        one, two = (corpus(BLEU(tokenize=cut), GOOD, TRUTH) for cut in ("13a", "char"))
        assert comparable({"bleu": one}, {"bleu": two}) == ([], ["bleu"])


def test_only_what_means_the_same_is_compared():
    ours = {"a": share([1]), "b": share([1], per="token of one"), "c": share([1])}
    theirs = {"a": share([1]), "b": share([1], per="token of another"), "d": share([1])}
    assert comparable(ours, theirs) == (["a"], ["b", "c", "d"])
    # Of what is no sum no examples can be drawn.
    no_sum = auroc([0.1, 0.9], [False, True])
    assert comparable({**ours, "e": no_sum}, {**theirs, "e": no_sum}) == (["a"], ["b", "c", "d"])


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (
            lambda: compared(share([1, 2]), share([1])),
            "must have what ours has, 2 examples of 2 numbers, got 1 examples",
        ),
        (lambda: compared(share([]), share([])), "0 examples"),
        (lambda: compared(share([1], per="word"), share([1])), "a score per word and one per example"),
        (lambda: compared(share([1]), share([1]), resamples=99), "resamples must be from 100 to 1,000,000, got 99"),
        (lambda: compared(share([1]), share([1]), seed=-1), "seed must be at least 0, got -1"),
    ],
)
def test_a_mistake_is_said(make, complaint):
    with pytest.raises(ValueError, match=complaint):
        make()
