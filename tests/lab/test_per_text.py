"""Intervals over seeds and texts hold what is true as often as they say, whichever of the two varies."""

import math

import numpy as np
import pytest

from twofold.lab.per_text import TextSums, over_seeds_and_texts, text_sums, variance
from twofold.lab.statistics import t_interval
from twofold.tasks.tallies import perplexity, share, verdicts

TRUTH = -0.01


def drawn(rng, *, seeds=8, texts=60, by_seed=0.0, by_text=0.0, by_both=0.0, noise=0.05):
    """Pairs of runs whose loss a token differs by TRUTH on average; texts are of very different lengths."""
    tokens = np.round(np.exp(rng.normal(6, 1, texts))) + 10
    level = rng.normal(1.3, 0.3, texts)
    of_text, of_seed = rng.normal(0, by_text, texts), rng.normal(0, by_seed, seeds)
    pairs = []
    for seed in range(seeds):
        theirs = level + noise * rng.normal()
        ours = theirs + TRUTH + of_seed[seed] + of_text + rng.normal(0, by_both, texts)
        pairs.append(tuple(TextSums(1.0, tuple(loss * tokens), tuple(tokens)) for loss in (ours, theirs)))
    return pairs


def coverage(found):
    return np.mean([one.low <= TRUTH <= one.high for one in found])


@pytest.mark.parametrize(
    ("effects", "low", "high"),
    [
        ({"by_seed": 0.005}, 0.93, 0.99),
        ({"by_text": 0.03}, 0.92, 0.99),
        ({"by_seed": 0.005, "by_text": 0.03}, 0.93, 0.99),
        ({"by_both": 0.05}, 0.93, 1.0),
        ({"by_seed": 0.003, "by_text": 0.02, "by_both": 0.05}, 0.93, 0.99),
        ({"by_seed": 0.004, "by_text": 0.02, "texts": 300, "seeds": 12}, 0.93, 0.98),
    ],
    ids=str,
)
def test_a_95_percent_interval_holds_the_truth_in_95_of_100(effects, low, high):
    rng = np.random.default_rng(0)
    found = [over_seeds_and_texts(drawn(rng, **effects), 0.95) for _ in range(600)]
    assert low <= coverage(found) <= high


def test_an_interval_over_seeds_alone_misses_it_where_texts_differ():
    rng = np.random.default_rng(0)
    pairs = [drawn(rng, by_seed=0.001, by_text=0.03, texts=24) for _ in range(200)]
    alone = [t_interval([ours.score - theirs.score for ours, theirs in one]) for one in pairs]
    assert coverage(alone) < 0.5 < 0.85 < coverage([over_seeds_and_texts(one, 0.95) for one in pairs])


def test_the_parts_of_the_variance():
    pairs = drawn(np.random.default_rng(1), by_seed=0.01)
    found = variance(pairs)
    spread = np.var([ours.score - theirs.score for ours, theirs in pairs], ddof=1)
    assert found.seeds == pytest.approx(spread / 8)
    assert found.texts < 1e-20
    assert found.total == pytest.approx(found.seeds)
    assert found.freedom == pytest.approx(7)


def test_one_pair_and_other_texts_bound_nothing():
    [pair] = drawn(np.random.default_rng(1), seeds=1)
    assert over_seeds_and_texts([pair], 0.95).low == -math.inf
    other = drawn(np.random.default_rng(1), seeds=1, texts=7)
    assert over_seeds_and_texts([pair, *other], 0.95).high == math.inf


@pytest.mark.parametrize(
    ("tally", "scale"),
    [
        (share([1.0, 2.5], [3.0, 4.0], scale=1), 1.0),
        (share([1.0, 0.0]), 100.0),
        (verdicts([True, False, True]), 100.0),
        (perplexity([10.0, 12.0], [5.0, 6.0], "token"), None),
        (share([1.0], [0.0]), None),
    ],
    ids=["ratio", "mean", "verdicts", "perplexity", "nothing"],
)
def test_what_is_a_ratio_of_sums_keeps_them(tally, scale):
    found = text_sums(tally)
    assert (found and found.scale) == scale
    if found is not None:
        assert found.score == pytest.approx(tally.score)
