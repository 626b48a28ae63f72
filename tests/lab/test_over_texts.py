"""A plan that asks for more texts: what is clear over seeds alone is not enough."""

from dataclasses import replace

import numpy as np

from tests.lab.made_up import plan
from tests.lab.test_verdict import CLEAR, SPLIT, grid, runs
from twofold.lab.analysis import compared
from twofold.lab.per_text import TextSums
from twofold.lab.verdict import Word, judged

ASKED = plan(arms=("standard", SPLIT), primary=((SPLIT, "standard"),), budgets=(1000,), over_texts=True)


def with_texts(spread, texts=40):
    """The clear runs, whose gain differs so much between texts."""
    shift = np.random.default_rng(0).normal(0, spread, texts)
    found = []
    for run in runs(CLEAR):
        parts = run.value + (shift - shift.mean() if run.arm == SPLIT else np.zeros(texts))
        found.append(replace(run, texts=TextSums(1.0, tuple(parts), ())))
    return [*grid(ASKED), *found]


def first(records, asked=ASKED):
    [comparison] = compared(asked, records)
    return comparison, judged(asked, comparison)


def test_a_gain_on_all_texts_alike_is_better():
    comparison, verdict = first(with_texts(0.01))
    assert verdict.word is Word.BETTER
    assert "over seeds, -0.0" in verdict.sentence
    assert "over seeds and texts, 8 pairs" in verdict.sentence
    assert comparison.over_texts.low < comparison.adjusted_difference.low


def test_a_gain_that_hangs_on_a_few_texts_is_undecided():
    comparison, verdict = first(with_texts(0.3))
    assert verdict.word is Word.UNDECIDED
    assert comparison.adjusted_difference.excludes(0.0)
    assert not comparison.over_texts.excludes(0.0)
    # The same runs, where texts were not asked for.
    assert first(with_texts(0.3), replace(ASKED, over_texts=False))[1].word is Word.BETTER


def test_more_seeds_do_not_make_up_for_texts():
    asked = replace(ASKED, bound=0.005)
    comparison, verdict = first(with_texts(0.3), asked)
    assert comparison.needed is None
    assert verdict.sentence.endswith("and no number of pairs would show one of 0.00500 on these texts.")
    few, many = (first(with_texts(spread), asked)[0].detectable for spread in (0.01, 0.3))
    assert few < many


def test_runs_without_texts_are_not_judged():
    _, verdict = first([*grid(ASKED), *runs(CLEAR)])
    assert verdict.word is Word.NOT_JUDGED
    assert "runs do not keep what each text adds" in verdict.sentence
