"""The grid: which rate is best, whether it is one, and what was too high."""

from dataclasses import replace

import pytest

from tests.lab.made_up import RATES, plan, record, records
from twofold.lab.learning_rates import rate_curves, rate_for, spikes
from twofold.lab.records import Point


def grid(*values, arm="standard", budget=1000, seed=0):
    """One run a rate that ends at each of the values."""
    return [record(arm, seed, lr, budget, "grid", value=value) for lr, value in zip(RATES, values, strict=False)]


def curve(*values):
    return [Point(100 * (1 + place), 1.0 + place, value) for place, value in enumerate(values)]


def test_the_best_of_each_arm_and_budget():
    found = rate_curves(records(plan()), lower_is_better=True)
    assert {(one.arm, one.best) for one in found} == {
        ("standard", 1e-3),
        ("exclusive", 2e-3),
        ("split_kv matched", 2e-3),
    }
    assert len(found) == 9
    assert all(one.is_interior and one.highest_stable == RATES[-1] for one in found)


def test_the_mean_over_seeds_decides():
    runs = grid(3.0, 2.0, 2.2, 4.0) + grid(3.0, 2.6, 2.2, 4.0, seed=1)
    (one,) = rate_curves(runs, lower_is_better=True)
    assert one.best == RATES[2]
    assert one.rates[1].value.mean == pytest.approx(2.3)
    assert one.rates[1].value.count == 2
    (other,) = rate_curves(runs, lower_is_better=False)
    assert other.best == RATES[3]


@pytest.mark.parametrize(
    ("values", "best", "is_interior"),
    [
        ((1.0, 2.0, 3.0, 4.0), RATES[0], False),
        ((4.0, 3.0, 2.0, 1.0), RATES[3], False),
        ((2.0, 1.0, 2.0, 3.0), RATES[1], True),
        # A tie is won by the lower rate.
        ((2.0, 1.0, 1.0, 3.0), RATES[1], True),
        # With an end of the grid it is none: beyond that end there may be a better one.
        ((2.0, 1.0, 2.0, 1.0), RATES[1], False),
        ((1.0, 2.0, 1.0, 3.0), RATES[0], False),
        ((2.0, 0.3, 2.0, 0.1 + 0.2), RATES[1], False),
        # Where an end came to nothing, there is nothing beyond it.
        ((2.0, 1.0, 1.0, None), RATES[1], True),
        ((2.0,), RATES[0], False),
    ],
)
def test_an_optimum_is_one_with_worse_on_either_side(values, best, is_interior):
    (one,) = rate_curves(grid(*values), lower_is_better=True)
    assert (one.best, one.is_interior) == (best, is_interior)


def test_a_rate_with_a_run_that_diverged_is_not_chosen():
    runs = grid(3.0, 2.0, 1.0, None) + grid(3.0, 2.0, None, 1.0, seed=1)
    (one,) = rate_curves(runs, lower_is_better=True)
    assert one.best == one.highest_stable == RATES[1]
    assert [rate.value is None for rate in one.rates] == [False, False, True, True]
    (none,) = rate_curves(grid(None, None), lower_is_better=True)
    assert (none.best, none.highest_stable, none.is_interior) == (None, None, False)


def looked(first, last, lr, seed=0):
    return record(seed=seed, lr=lr, budget=1000, phase="grid", value=last, curve=curve(first, last))


@pytest.mark.parametrize("sign", [1, -1])
def test_unstable_is_who_ends_where_the_best_began_at_a_higher_rate(sign):
    """The best gets from 3 to 2. Too low a rate does not get there either, and is stable."""
    runs = [looked(sign * 3.5, sign * 3.4, RATES[0]), looked(sign * 3.0, sign * 2.0, RATES[1])]
    runs += [looked(sign * 5.0, sign * 2.9, RATES[2]), looked(sign * 2.5, sign * 3.1, RATES[3])]
    (one,) = rate_curves(runs, lower_is_better=sign > 0)
    assert [rate.unstable for rate in one.rates] == [0, 0, 0, 1]
    assert (one.best, one.highest_stable) == (RATES[1], RATES[2])


def test_who_overfits_is_stable():
    """Worse at the end than at the first look, and yet better than what the best began with."""
    runs = [looked(3.0, 2.0, RATES[0]), looked(2.1, 2.2, RATES[1])]
    (one,) = rate_curves(runs, lower_is_better=True)
    assert [rate.unstable for rate in one.rates] == [0, 0]


def test_the_best_itself_is_stable_whatever_it_began_with():
    runs = [looked(3.0, 2.5, RATES[0]), looked(1.5, 2.0, RATES[1]), looked(1.5, 2.1, RATES[2])]
    (one,) = rate_curves(runs, lower_is_better=True)
    assert (one.best, [rate.unstable for rate in one.rates]) == (RATES[1], [0, 0, 1])


def test_where_the_best_began_is_the_mean_over_its_seeds():
    runs = [looked(3.0, 2.0, RATES[0], 0), looked(4.0, 2.0, RATES[0], 1)]
    runs += [looked(5.0, 3.4, RATES[1], 0), looked(5.0, 3.6, RATES[1], 1)]
    assert rate_curves(runs, lower_is_better=True)[0].rates[1].unstable == 1
    # Nobody knows where one began that has no look but its last.
    unknown = [replace(runs[0], curve=runs[0].curve[1:]), *runs[1:]]
    assert rate_curves(unknown, lower_is_better=True)[0].rates[1].unstable == 0


def test_of_several_seeds_each_counts():
    runs = [looked(3.0, 2.0, RATES[0], seed) for seed in (0, 1)]
    runs += [looked(3.0, 2.5, RATES[1], 0), looked(3.0, 3.0, RATES[1], 1), *grid(None, None, seed=0)[1:]]
    (one,) = rate_curves(runs, lower_is_better=True)
    assert [(len(rate.seeds), rate.unstable) for rate in one.rates] == [(2, 0), (3, 2)]
    assert one.highest_stable == RATES[0]


def test_with_a_single_look_only_what_diverged_is_unstable():
    runs = [record(lr=lr, budget=1000, phase="grid", value=9.0 * lr, curve=curve(9.0 * lr)) for lr in RATES[:2]]
    (one,) = rate_curves([*runs, *grid(1.0, 1.0, 1.0, None)[3:]], lower_is_better=True)
    assert [rate.unstable for rate in one.rates] == [0, 0, 1]


def test_no_grid():
    assert rate_curves([record()], lower_is_better=True) == []
    assert rate_for([], "standard", 5) is None


def test_the_rate_of_a_budget_is_that_of_the_nearest_grid_below():
    small, large = grid(3, 1, 2, 4, budget=100), grid(3, 2, 1, 4, budget=1000)
    curves = rate_curves(small + large, lower_is_better=True)
    assert [rate_for(curves, "standard", budget) for budget in (50, 100, 999, 1000, 5000)] == [
        RATES[1], RATES[1], RATES[1], RATES[2], RATES[2],
    ]  # fmt: skip
    assert rate_for(curves, "exclusive", 100) is None


@pytest.mark.parametrize(
    ("values", "lower", "expected"),
    [
        ((5.0, 4.0, 3.0, 2.0), True, 0),
        # A tenth of the way from 5 to 3 is 0.2.
        ((5.0, 3.0, 3.1, 2.9), True, 0),
        ((5.0, 3.0, 3.3, 2.9), True, 1),
        ((5.0, 3.0, 4.0, 4.5, 2.0, 4.0), True, 2),
        ((0.1, 0.6, 0.3, 0.7), False, 1),
        ((5.0,), True, 0),
        ((), True, 0),
    ],
)
def test_spikes(values, lower, expected):
    assert spikes(record(curve=curve(*values)), lower_is_better=lower) == expected
