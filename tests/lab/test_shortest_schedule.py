"""The shortest own schedule, on lines whose crossing is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.lab.made_up import BUDGETS, plan, record, records
from twofold.lab.pairs import paired
from twofold.lab.records import Point
from twofold.lab.shortest_schedule import Clock, _estimate, clock, shortest_schedule
from twofold.lab.statistics import t_interval

# Loss falls by 1 with each tenfold of tokens, seconds are tokens / 10.
LOSS = {100: 3.0, 1000: 2.0, 10000: 1.0}


def run(arm, seed, budget, value, seconds=None, curve=()):
    return record(arm, seed, budget=budget, value=value, seconds=seconds or budget / 10, curve=curve)


def runs(gain, spread=0.0, seeds=4):
    """An arm whose loss is lower by a gain, some seeds a spread more or less."""
    return [
        run(arm, seed, budget, value - ((gain + spread * (seed % 2 * 2 - 1)) if arm == "exclusive" else 0.0))
        for budget, value in LOSS.items()
        for seed in range(seeds)
        for arm in ("standard", "exclusive")
    ]


def found(records, **options):
    told = {"seeds": range(4), "budgets": tuple(LOSS), "lower_is_better": True} | options
    return shortest_schedule(records, "exclusive", "standard", **told)


def test_a_gain_of_a_tenfold_saves_nine_tenths():
    one = found(runs(gain=1.0))
    assert (one.tokens.mean, one.tokens.low, one.tokens.high) == pytest.approx((1000, 1000, 1000))
    assert one.seconds.mean == pytest.approx(100)
    assert (one.token_ratio.mean, one.second_ratio.mean) == pytest.approx((0.1, 0.1))
    assert (one.target, one.budgets) == (1.0, (100, 1000, 10000))
    assert not one.is_censored


def test_between_budgets_tokens_are_read_off_their_logarithm():
    assert found(runs(gain=0.5)).tokens.mean == pytest.approx(10**3.5)
    assert found(runs(gain=0.0)).token_ratio.mean == pytest.approx(1.0)


def test_seconds_are_tokens_at_the_pace_of_the_largest_budget():
    """However the smaller budgets were run, several at once, say: only the largest is made alike with the rival's."""

    def slower(one):
        if one.arm != "exclusive":
            return one.seconds
        return one.seconds * (2 if one.budget == max(LOSS) else 9)

    one = found([run(one.arm, one.seed, one.budget, one.value, slower(one)) for one in runs(gain=0.5)])
    assert one.token_ratio.mean == pytest.approx(10**-0.5)
    assert one.second_ratio.mean == pytest.approx(2 * 10**-0.5)
    assert one.seconds.mean == pytest.approx(2 * 10**3.5 / 10)


@pytest.mark.parametrize(("arm", "times"), [("exclusive", 0.1), ("exclusive", 10.0), ("standard", 0.1)])
def test_one_run_alone_on_its_machine_or_held_up_sets_no_pace(arm, times):
    """The last of several at once has the machine to itself; another waited for a night."""
    odd = [
        replace(one, seconds=one.seconds * times) if (one.arm, one.seed) == (arm, 3) else one for one in runs(gain=0.5)
    ]
    assert found(odd).second_ratio.mean == pytest.approx(10**-0.5)
    assert found(odd).seconds.mean == pytest.approx(10**3.5 / 10)
    assert paired(odd, "exclusive", "standard", 10000).pace == pytest.approx(1.0)


def test_an_end_that_is_never_reached_is_endless():
    one = found(runs(gain=-0.5))
    assert one.tokens.mean == one.second_ratio.mean == math.inf
    assert not one.tokens.is_bounded


def test_an_end_that_the_smallest_budget_reaches_is_an_upper_bound():
    one = found(runs(gain=2.5))
    assert one.is_censored
    assert one.tokens.mean == 100


def test_the_interval_is_over_seeds():
    one = found(runs(gain=0.5, spread=0.2))
    assert one.tokens.low < one.tokens.mean < one.tokens.high
    assert one.token_ratio.low >= 10**-0.7 - 1e-9
    assert one.token_ratio.high <= 10**-0.3 + 1e-9
    assert one == found(runs(gain=0.5, spread=0.2))
    # Where some draws never get there, the interval has no upper end.
    assert found(runs(gain=0.05, spread=0.2)).tokens.high == math.inf
    assert not found(runs(gain=0.5, seeds=1), seeds=(0,)).tokens.is_bounded


@pytest.mark.parametrize("count", [3, 8])
def test_draws_of_a_few_seeds_are_taken_further_out(count):
    """By what Student's t has more than the normal, and by what draws from a few spread less than what those are of."""
    draws = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    found = _estimate(0.0, draws, count)
    reach = stats.t.ppf(0.975, count - 1) * math.sqrt(count / (count - 1))
    assert (found.low, found.high) == pytest.approx((max(-reach, draws[0]), min(reach, draws[-1])), rel=1e-2)


@pytest.mark.parametrize(
    ("middle", "count", "least", "most"),
    [(np.mean, 5, 0.90, 0.96), (np.mean, 8, 0.925, 0.96), (np.median, 5, 0.92, 0.99), (np.median, 8, 0.96, 0.99)],
)
def test_the_interval_holds_what_is_true_as_often_as_the_docs_say(middle, count, least, most):
    """The middle 95 % of the draws alone hold it in 86 and 88 of 100. Of paces, the middle one is taken."""
    rng = np.random.default_rng(0)

    def holds_it():
        found = rng.normal(size=count)
        one = _estimate(middle(found), middle(found[rng.integers(0, count, (2000, count))], axis=1), count)
        return one.low <= 0.0 <= one.high

    assert least < np.mean([holds_it() for _ in range(2000)]) < most


@pytest.mark.parametrize("seeds", [8, 20])
def test_the_interval_is_as_wide_as_student_s(seeds):
    """On a straight line the logarithm of tokens is what the mean gain makes of it, and that has an interval."""
    gains = np.random.default_rng(0).normal(0.5, 0.1, size=seeds)
    made = [one for seed, gain in enumerate(gains) for one in runs(gain, seeds=seeds) if one.seed == seed]
    tokens, truth = found(made, seeds=range(seeds)).tokens, t_interval(4 - gains)
    assert math.log10(tokens.mean) == pytest.approx(truth.mean)
    width = truth.high - truth.low
    assert math.log10(tokens.low) == pytest.approx(truth.low, abs=0.06 * width)
    assert math.log10(tokens.high) == pytest.approx(truth.high, abs=0.06 * width)


def test_higher_may_be_better():
    turned = [run(one.arm, one.seed, one.budget, -one.value) for one in runs(gain=0.5)]
    one = found(turned, lower_is_better=False)
    assert one.tokens.mean == pytest.approx(10**3.5)
    assert one.target == -1.0


def test_needs_two_budgets():
    assert found(runs(1.0), budgets=(100,)) is None
    assert found(runs(1.0), budgets=(10000, 1000)).budgets == (1000, 10000)


@pytest.mark.parametrize(
    ("arm", "budget", "is_known"),
    [("exclusive", 100, False), ("exclusive", 10000, False), ("standard", 10000, False), ("standard", 100, True)],
)
def test_a_run_that_is_missing_or_diverged_leaves_it_unknown(arm, budget, is_known):
    whole, lost = runs(1.0), (arm, 2, budget)
    missing = [one for one in whole if (one.arm, one.seed, one.budget) != lost]
    diverged = [*missing, run(*lost, value=None)]
    assert (found(missing) is not None) == (found(diverged) is not None) == is_known
    # A seed that nobody planned is not waited for.
    assert found(missing, seeds=(0, 1, 3)) is not None


def test_made_up_runs():
    one = shortest_schedule(
        records(plan()), "split_kv matched", "standard", seeds=range(8), budgets=BUDGETS, lower_is_better=True
    )
    assert one.budgets == BUDGETS
    assert one.token_ratio.low < one.token_ratio.mean < 1
    assert one.second_ratio.mean > one.token_ratio.mean


class TestClock:
    def judged(self, records, shortest=None):
        return clock(paired(records, "exclusive", "standard", 100), shortest, lower_is_better=True)

    def test_by_schedules(self):
        faster, slower, never = found(runs(0.5)), found(runs(-0.5)), found(runs(-5.0))
        assert [self.judged([], one) for one in (faster, slower, never)] == [Clock.KEEPS, Clock.LOSES, Clock.LOSES]

    def test_an_upper_bound_loses_nothing(self):
        """Nobody knows how many seconds a still smaller budget would take."""
        slow = [replace(one, seconds=one.seconds * 200) if one.arm == "exclusive" else one for one in runs(gain=2.5)]
        one = found(slow)
        assert one.is_censored
        assert one.second_ratio.mean == pytest.approx(2.0)
        assert self.judged([], one) is Clock.UNKNOWN

    @pytest.mark.parametrize(
        ("seconds", "curve", "expected"),
        [
            (1.0, [], Clock.KEEPS),
            (2.0, [], Clock.UNKNOWN),
            # At the rival's end after 0.9 of its time, although the schedule was longer.
            (2.0, [Point(10, 0.5, 2.0), Point(90, 0.9, 0.9), Point(100, 2.0, 0.5)], Clock.KEEPS),
            (2.0, [Point(10, 0.5, 2.0), Point(90, 1.1, 0.9), Point(100, 2.0, 0.5)], Clock.UNKNOWN),
            # There for a moment only.
            (2.0, [Point(10, 0.5, 0.9), Point(90, 0.9, 1.1), Point(100, 2.0, 0.5)], Clock.UNKNOWN),
        ],
    )
    def test_with_a_single_budget(self, seconds, curve, expected):
        pair = [run("standard", 0, 100, 1.0, 1.0), run("exclusive", 0, 100, 0.5, seconds, curve)]
        assert self.judged(pair) is expected

    def test_with_a_single_budget_and_one_run_held_up(self):
        pairs = [run(arm, seed, 100, 1.0, 1.0) for seed in range(3) for arm in ("standard", "exclusive")]
        assert self.judged([replace(one, seconds=50.0) if one is pairs[-1] else one for one in pairs]) is Clock.KEEPS
        # One that had its machine to itself, or a rival's that was held up, does not speak for the others either.
        slow = [replace(one, seconds=1.02) if one.arm == "exclusive" else one for one in pairs]
        for odd, seconds in ((-1, 0.5), (-2, 10.0)):
            ones = [replace(one, seconds=seconds) if one is slow[odd] else one for one in slow]
            assert paired(ones, "exclusive", "standard", 100).pace == pytest.approx(1.02)
            assert self.judged(ones) is Clock.UNKNOWN
        two_of_three_slow = [replace(one, seconds=1.1) if one in pairs[1:4:2] else one for one in pairs]
        assert self.judged(two_of_three_slow) is Clock.UNKNOWN

    @pytest.mark.parametrize(
        ("odd", "expected"),
        [
            # One was held up; one never got there.
            ([Point(10, 0.5, 2.0), Point(90, 9.0, 0.9), Point(100, 9.9, 0.5)], Clock.KEEPS),
            ([Point(10, 0.5, 2.0), Point(90, 0.9, 2.0), Point(100, 1.1, 1.5)], Clock.UNKNOWN),
        ],
    )
    def test_with_a_single_budget_the_middle_curve_says_when_all_are_there(self, odd, expected):
        usual = [Point(10, 0.5, 2.0), Point(90, 0.9, 0.9), Point(100, 1.1, 0.5)]
        pairs = [
            one
            for seed, curve in enumerate([usual, usual, odd])
            for one in (
                run("standard", seed, 100, 1.0, 1.0),
                run("exclusive", seed, 100, curve[-1].value, 1.1, curve),
            )
        ]
        assert self.judged(pairs) is expected

    def test_no_pairs(self):
        assert self.judged([]) is Clock.UNKNOWN
