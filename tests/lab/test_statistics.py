"""Against numbers worked out by hand, by counting, or by scipy in another way."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from twofold.lab.statistics import (
    Estimate,
    bootstrap_interval,
    holm,
    mcnemar_p,
    sign_flip_p,
    smallest_detectable,
    smallest_p,
    standardised_effect,
    t_interval,
)

EIGHTHS = st.lists(st.integers(-40, 40).map(lambda number: number / 8), min_size=1, max_size=9)
# What takes numbers and refuses the same ones.
TAKERS = [sign_flip_p, t_interval, bootstrap_interval, smallest_detectable, standardised_effect]


def counted_p(differences):
    """By rational numbers, one flip at a time."""
    exact = [Fraction(difference) for difference in differences]
    observed = abs(sum(exact))
    flips = list(itertools.product((1, -1), repeat=len(exact)))
    far = sum(abs(sum(sign * one for sign, one in zip(flip, exact, strict=True))) >= observed for flip in flips)
    return far / len(flips)


class TestSignFlip:
    @settings(max_examples=60, deadline=None)
    @given(EIGHTHS)
    def test_is_the_share_of_flips_as_far_from_zero(self, differences):
        assert sign_flip_p(differences) == pytest.approx(counted_p(differences), abs=1e-12)

    @settings(max_examples=30, deadline=None)
    @given(EIGHTHS, st.randoms(use_true_random=False))
    def test_knows_neither_order_nor_direction_nor_unit(self, differences, random):
        shuffled = random.sample(differences, len(differences))
        assert sign_flip_p(shuffled) == sign_flip_p(differences)
        assert sign_flip_p([-1024 * one for one in differences]) == sign_flip_p(differences)

    @pytest.mark.parametrize("pairs", [1, 2, 3, 5, 8, 10, 12])
    def test_reaches_its_smallest_when_all_pairs_agree(self, pairs):
        assert sign_flip_p([0.01 * (1 + place) for place in range(pairs)]) == pytest.approx(smallest_p(pairs))

    def test_ties_that_rounding_would_part(self):
        # 0.1 + 0.2 is not 0.3 in floating point, and yet as far from zero.
        assert sign_flip_p([0.1, 0.2, 0.3]) == 0.25
        assert sign_flip_p([0.1, 0.2, -0.3]) == 1.0
        assert sign_flip_p([0.3, 0.3, 0.3, -0.3]) == pytest.approx(10 / 16)

    def test_sums_of_large_numbers_are_not_endless(self):
        assert sign_flip_p([1e308] * 8) == sign_flip_p([1.0] * 8) == 2 / 2**8

    def test_no_difference_is_none(self):
        assert sign_flip_p([0.0]) == sign_flip_p([0.0] * 8) == 1.0
        assert sign_flip_p([0.0, 0.0, 0.5]) == 1.0

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.integers(-999, 999).map(lambda number: number / 1024), min_size=2, max_size=9))
    def test_is_scipys(self, differences):
        """In fractions that add up exactly, for its ties may be parted by rounding."""
        theirs = stats.permutation_test(
            (differences,), np.mean, permutation_type="samples", vectorized=True, n_resamples=np.inf
        )
        assert sign_flip_p(differences) == pytest.approx(theirs.pvalue)

    def test_many_pairs_are_still_exact(self):
        assert sign_flip_p([1.0] * 20) == 2.0**-19
        with pytest.raises(ValueError, match="differences must be at most 24 for an exact test, got 25"):
            sign_flip_p([1.0] * 25)


def test_shuffled_arm_labels_give_uniform_p():
    """Labels that mean nothing: p <= alpha in at most alpha of experiments, and in just alpha where p can be alpha.

    Over all shuffles of one experiment that is exact; over experiments drawn anew it is tested by chi-square.
    """
    pairs, levels = 6, 2**5
    rng = np.random.default_rng(20)
    values = rng.normal(size=(pairs, 2)) + rng.normal(size=(pairs, 1))
    ps = [
        sign_flip_p([values[i, place] - values[i, 1 - place] for i, place in enumerate(shuffle)])
        for shuffle in itertools.product((0, 1), repeat=pairs)
    ]
    # Without ties each attainable level 2k / 2^n is taken by two of the 2^n shuffles.
    assert Counter(round(p * levels) for p in ps) == dict.fromkeys(range(1, levels + 1), 2)
    for alpha in (0.01, 0.05, 0.2, 0.5, 1.0):
        share = np.mean(np.array(ps) <= alpha)
        assert share <= alpha
        assert share == math.floor(alpha * levels) / levels

    drawn = [sign_flip_p(rng.permuted(rng.normal(size=(pairs, 2)), axis=1) @ [1, -1]) for _ in range(1600)]
    counts = Counter(round(p * levels) for p in drawn)
    assert stats.chisquare([counts[level] for level in range(1, levels + 1)]).pvalue > 0.01


def test_shuffled_labels_with_ties_are_never_too_sure():
    # Whole points of accuracy: many differences are equal or none.
    values = np.array([[90, 91], [88, 88], [93, 95], [90, 92], [87, 88], [91, 90]])
    ps = [
        sign_flip_p([values[i, place] - values[i, 1 - place] for i, place in enumerate(shuffle)])
        for shuffle in itertools.product((0, 1), repeat=6)
    ]
    for alpha in sorted(set(ps)):
        assert np.mean(np.array(ps) <= alpha) == pytest.approx(alpha)


@pytest.mark.parametrize(
    ("pairs", "smallest"), [(1, 1), (3, 0.25), (5, 0.0625), (8, 0.0078125), (10, 2**-9), (12, 2**-11)]
)
def test_smallest_p(pairs, smallest):
    assert smallest_p(pairs) == smallest
    assert smallest_p(pairs, 2) == min(1, 2 * smallest)


def test_smallest_p_of_nothing():
    with pytest.raises(ValueError, match="pairs and comparisons must be at least 1, got 0 and 1"):
        smallest_p(0)


class TestHolm:
    def test_by_hand(self):
        assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
        assert holm([0.04]) == [0.04]
        assert holm([0.9, 0.8]) == [1.0, 1.0]
        assert holm([]) == []

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
    def test_between_the_p_itself_and_bonferroni(self, ps):
        adjusted = holm(ps)
        for p, after in zip(ps, adjusted, strict=True):
            assert p <= after <= min(1, p * len(ps))
        assert [after for _, after in sorted(zip(ps, adjusted, strict=True))] == sorted(adjusted)

    @pytest.mark.parametrize("ps", [[0.1, 1.5], [-0.1], [math.nan]])
    def test_only_takes_ps(self, ps):
        with pytest.raises(ValueError, match="ps must be between 0 and 1, got"):
            holm(ps)


class TestIntervals:
    @settings(deadline=None)
    @given(st.lists(st.floats(-100, 100), min_size=2, max_size=12), st.sampled_from([0.8, 0.95, 0.975]))
    def test_t_is_scipys(self, values, confidence):
        ours = t_interval(values, confidence)
        if np.std(values) > 1e-9:
            theirs = stats.ttest_1samp(values, 0).confidence_interval(confidence)
            assert (ours.low, ours.high) == pytest.approx(tuple(theirs), rel=1e-9, abs=1e-9)
        assert ours.mean == pytest.approx(np.mean(values))
        assert ours.low <= ours.mean <= ours.high

    def test_t_by_hand(self):
        # Spread 1, three values: 4.303 / sqrt(3) on either side.
        assert t_interval([1, 2, 3]) == Estimate(
            2.0, pytest.approx(-0.4841, abs=1e-4), pytest.approx(4.4841, abs=1e-4), 3
        )

    @pytest.mark.parametrize("interval", [t_interval, bootstrap_interval])
    def test_edges(self, interval):
        assert interval([0.5]) == Estimate(0.5, -math.inf, math.inf, 1)
        assert not interval([0.5]).is_bounded
        assert interval([0.5] * 4) == Estimate(0.5, 0.5, 0.5, 4)
        assert interval([0.5] * 4).excludes(0)
        assert not interval([0.5]).excludes(0)
        with pytest.raises(ValueError, match="confidence must be between 0 and 1, got 95"):
            interval([1, 2], 95)

    def test_bootstrap_of_numbers_that_differ_in_their_last_bits(self):
        found = bootstrap_interval([0.1] * 7 + [0.1 + 1.4e-17])
        assert found.low == found.mean == found.high == pytest.approx(0.1)

    def test_bootstrap_draws_the_same_for_the_same_seed(self):
        values = np.random.default_rng(3).exponential(size=40)
        one = bootstrap_interval(values)
        assert one == bootstrap_interval(values)
        assert one != bootstrap_interval(values, seed=1)
        # Skewed to the right, and so is the interval.
        assert one.high - one.mean > one.mean - one.low

    def test_bootstrap_nears_t_on_many_even_numbers(self):
        values = np.random.default_rng(4).normal(1, 2, size=400)
        drawn, exact = bootstrap_interval(values), t_interval(values)
        assert (drawn.low, drawn.high) == pytest.approx((exact.low, exact.high), abs=0.02)


class TestMcNemar:
    def test_by_hand(self):
        # Seven only ours, one only theirs: 2 (1 + 8) / 2^8.
        ours = [True] * 7 + [False] + [True, False] * 5
        theirs = [False] * 7 + [True] + [True, False] * 5
        assert mcnemar_p(ours, theirs) == pytest.approx(18 / 256)
        assert mcnemar_p(theirs, ours) == mcnemar_p(ours, theirs)

    def test_agreement_says_nothing(self):
        assert mcnemar_p([True, False], [True, False]) == 1.0
        assert mcnemar_p([True, False], [False, True]) == 1.0

    @pytest.mark.parametrize(("ours", "theirs"), [([True], []), ([], [])])
    def test_needs_the_same_examples(self, ours, theirs):
        with pytest.raises(ValueError, match=f"same examples, got {len(ours)} and {len(theirs)} answers"):
            mcnemar_p(ours, theirs)

    @given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=10))
    def test_is_the_sign_flip_of_right_minus_wrong(self, answers):
        ours, theirs = zip(*answers, strict=True)
        differences = [int(one) - int(other) for one, other in answers]
        assert mcnemar_p(ours, theirs) == pytest.approx(sign_flip_p(differences))


class TestSmallestDetectable:
    @pytest.mark.parametrize(("pairs", "threshold"), [(6, 0.05), (8, 0.05), (8, 0.025), (12, 0.05), (16, 0.025)])
    def test_interval_and_exact_test_agree_in_four_of_five_experiments(self, pairs, threshold):
        rng = np.random.default_rng(5)
        unit = rng.normal(size=pairs)
        unit = (unit - unit.mean()) / unit.std(ddof=1)
        effect = smallest_detectable(unit, threshold)

        def is_seen():
            drawn = rng.normal(effect, 1, size=pairs)
            # The exact test last, for it takes the longest.
            return t_interval(drawn, 1 - threshold).low > 0 and sign_flip_p(drawn) <= threshold

        assert np.mean([is_seen() for _ in range(1500)]) == pytest.approx(0.8, abs=0.03)

    def test_grows_with_spread_and_shrinks_with_pairs(self):
        few, many = [-1.0, 1.0] * 4, [-1.0, 1.0] * 8
        assert smallest_detectable([3 * one for one in few]) == pytest.approx(3 * smallest_detectable(few))
        assert smallest_detectable(many) < smallest_detectable(few)
        assert smallest_detectable(few, 0.025) > smallest_detectable(few, 0.05)
        assert smallest_detectable([one + 7 for one in few]) == pytest.approx(smallest_detectable(few))
        assert smallest_detectable([0.25] * 8) == 0

    @pytest.mark.parametrize("pairs", [1, 3, 5])
    def test_no_effect_is_large_enough_for_too_few_pairs(self, pairs):
        assert smallest_detectable([float(place) for place in range(pairs)]) == math.inf

    def test_a_level_that_can_just_be_reached(self):
        assert smallest_detectable([0.0, 1.0, 2.0], threshold=0.25) < math.inf
        assert smallest_detectable([0.0, 1.0, 2.0], threshold=0.2499) == math.inf

    def test_power_must_make_sense(self):
        with pytest.raises(ValueError, match=r"power above it and below 1, got 0.05 and 0.01"):
            smallest_detectable([1, 2], power=0.01)


class TestEffects:
    def test_by_hand(self):
        # Mean 2, spread 1, and 1 - 3 / 7 for three pairs.
        assert standardised_effect([1, 2, 3]) == pytest.approx(2 * 4 / 7)
        assert standardised_effect([0, 0, 0]) == 0

    def test_a_hedged_effect_is_unbiased(self):
        rng = np.random.default_rng(6)
        found = [standardised_effect(rng.normal(0.7, 1, size=8)) for _ in range(4000)]
        assert np.mean(found) == pytest.approx(0.7, abs=0.03)

    def test_needs_a_spread(self):
        with pytest.raises(ValueError, match="got 3 equal ones"):
            standardised_effect([0.1, 0.1, 0.1])
        with pytest.raises(ValueError, match=r"must be at least 3, .* got 2"):
            standardised_effect([0.1, 0.2])

    def test_there_may_be_very_many_pairs(self):
        """Where 2^n is more than any number, too."""
        many = smallest_detectable(np.random.default_rng(0).normal(size=1100))
        assert many == pytest.approx(2.8 / math.sqrt(1100), rel=0.05)


@pytest.mark.parametrize("takes", TAKERS, ids=lambda takes: takes.__name__)
def test_what_is_no_number_is_refused(takes):
    for bad, said in (([1.0, math.nan], "got nan among them"), ([math.inf, 1], "got inf among them")):
        with pytest.raises(ValueError, match=said):
            takes(bad)
    for shapeless in ([], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="at least 1 number, got shape"):
            takes(shapeless)
