"""Runs of the same seed, put together, and the gap between them."""

import pytest

from tests.lab.made_up import BUDGETS, plan, record, records
from twofold.lab.pairs import by_budget, gap_curve, mean_curve, paired, seconds_at
from twofold.lab.records import Point

BUDGET = 100


def run(arm, seed, value, points=(), budget=BUDGET, seconds=1.0):
    return record(arm, seed, budget=budget, value=value, curve=[Point(*point) for point in points], seconds=seconds)


def test_pairs_are_of_the_same_seed():
    runs = [run("standard", seed, 2.0 + seed) for seed in (2, 0, 1)] + [
        run("exclusive", seed, 1.5) for seed in (0, 2, 5)
    ]
    pairs = paired(runs, "exclusive", "standard", BUDGET)
    assert pairs.differences == [-0.5, -2.5]
    assert [ours.seed for ours, _ in pairs.runs] == [0, 2]
    assert pairs.alone == (1, 5)
    assert pairs.diverged == ()
    assert paired(runs, "exclusive", "standard", 7).runs == ()


def test_what_diverged_is_named_and_not_subtracted():
    runs = [run("standard", 0, 2.0), run("standard", 1, 2.0), run("exclusive", 0, None), run("exclusive", 1, 1.0)]
    pairs = paired(runs, "exclusive", "standard", BUDGET)
    assert pairs.differences == [-1.0]
    assert pairs.diverged == (("exclusive", 0),)


def test_grid_runs_are_not_compared():
    assert paired(records(plan()), "exclusive", "standard", BUDGETS[0]).runs
    only_grid = [one for one in records(plan()) if one.phase == "grid"]
    assert not paired(only_grid, "exclusive", "standard", BUDGETS[0]).runs


def test_two_runs_of_a_seed_are_one_too_many():
    runs = [record(lr=1e-3), record(lr=2e-3)]
    with pytest.raises(
        ValueError, match=r"standard seed 0 has two final runs at 20,000,000 tokens, with lr 0\.001 and"
    ):
        paired(runs, "exclusive", "standard", 20_000_000)


def test_a_gap_is_read_off_between_looks():
    ours = [run("exclusive", seed, 1.0, [(10, 1, 3.0), (30, 3, 1.0)]) for seed in (0, 1)]
    # Looks at other tokens, and one more of them.
    theirs = [
        run("standard", 0, 3.0, [(20, 2, 3.0), (25, 2.5, 3.0), (40, 4, 3.0)]),
        run("standard", 1, 2.0, [(0, 0, 6.0), (20, 2, 4.0), (40, 4, 2.0)]),
    ]
    gaps = gap_curve(paired(ours + theirs, "exclusive", "standard", BUDGET))
    # Both have 20 to 30 tokens in common; the fewest looks in there are at 30.
    assert [gap.at for gap in gaps] == [30]
    assert gaps[0].value.mean == pytest.approx(-2.0)
    assert gaps[0].value.count == 2


def test_the_gap_of_made_up_runs_is_what_was_made_up():
    pairs = paired(records(plan()), "split_kv matched", "standard", BUDGETS[-1])
    gaps = gap_curve(pairs)
    assert [gap.at for gap in gaps] == [point.tokens for point in pairs.runs[0][0].curve]
    assert all(gap.value.low < -0.03 < gap.value.high for gap in gaps[-3:])
    assert gaps[-1].value.mean == pytest.approx(sum(pairs.differences) / 8)


def test_mean_curve_and_seconds():
    runs = [run("standard", seed, 1.0, [(10, 1 + seed, 3.0 + seed), (30, 5, 1.0)]) for seed in (0, 1)]
    assert [(gap.at, gap.value.mean) for gap in mean_curve(runs)] == [(10, 3.5), (30, 1.0)]
    assert seconds_at(runs, [10, 20, 30]) == [1.5, 3.25, 5]


def test_seeds_whose_batches_differ_a_little_keep_their_looks():
    curves = [(500, 1, 3.0), (1000, 2, 1.0)], [(505, 1, 4.0), (995, 2, 2.0)]
    runs = [run("standard", seed, points[-1][2], points) for seed, points in enumerate(curves)]
    assert [(gap.at, gap.value.mean) for gap in mean_curve(runs)] == [(500, 3.5), (1000, 1.5)]


@pytest.mark.parametrize("curves", [[], [()], [(), ((1, 1, 1.0),)], [((1, 1, 1.0),), ((2, 2, 1.0),)]])
def test_nothing_in_common_is_no_curve(curves):
    assert mean_curve([run("standard", seed, 1.0, points) for seed, points in enumerate(curves)]) == []
    assert seconds_at([], [1]) == []


def test_budgets_that_both_have():
    runs = [run("standard", 0, 2.0, budget=budget) for budget in (30, 10, 20)] + [
        run("exclusive", 0, 1.0, budget=budget) for budget in (20, 40, 10)
    ]
    found = by_budget(runs, "exclusive", "standard")
    assert list(found) == [10, 20]
    assert found[20].differences == [-1.0]
