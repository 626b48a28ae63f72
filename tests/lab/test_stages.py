"""An experiment with stages: judged early at a stricter level, and continued only where it is not decided."""

from dataclasses import replace

import pytest

from tests.lab import quick
from tests.lab.made_up import plan, record
from tests.lab.test_verdict import CLEAR, SPLIT, VAGUE, grid, runs
from twofold.lab.analysis import compared
from twofold.lab.registration import followed, read_registration, register
from twofold.lab.runner import remaining
from twofold.lab.stages import current_stage
from twofold.lab.statistics import stage_levels
from twofold.lab.verdict import Word, judged

SEEDS = tuple(range(16))


def staged(**changes):
    told = {"arms": ("standard", SPLIT), "primary": ((SPLIT, "standard"),), "budgets": (1000,)}
    return plan(**told | {"seeds": SEEDS, "stages": (8, 16)} | changes)


def test_levels_add_up_and_rise():
    for stages in ([8, 16], [12, 16, 24], [8]):
        levels = stage_levels(stages, 0.05)
        assert sum(levels) == pytest.approx(0.05)
        assert levels == sorted(levels)
    # O'Brien and Fleming, at half of the information.
    assert stage_levels([12, 24])[0] == pytest.approx(0.00557, abs=1e-5)


def test_a_stage_has_its_seeds_and_its_share_of_the_threshold():
    first, last = staged().at_stage(0), staged().at_stage(1)
    assert (first.seeds, last.seeds) == (SEEDS[:8], SEEDS)
    assert first.threshold + last.threshold == pytest.approx(0.05)
    assert plan().at_stage(0) == plan()


@pytest.mark.parametrize("stages", [(8,), (16, 8), (8, 8, 16), (0, 16), (8.0, 16), "8"])
def test_stages_end_with_all_seeds(stages):
    with pytest.raises(ValueError, match="stages must be"):
        staged(stages=stages)


def test_a_first_stage_that_could_not_decide_is_not_registered():
    # 2 to the power of -7 is above 0.0056.
    assert "cannot reach the threshold 0.0055" in staged().why_not()
    assert staged(stages=(10, 16)).why_not() is None


class TestCurrent:
    asked = staged(stages=(10, 16))

    def records(self, differences):
        return [*grid(self.asked), *runs(differences)]

    def test_what_is_decided_early_stays_so_and_needs_no_more(self):
        there = self.records([*CLEAR, -0.03, -0.02])
        now = current_stage(self.asked, there)
        assert now == self.asked.at_stage(0)
        [found] = compared(now, there)
        assert judged(now, found).word is Word.BETTER
        # 99.2 %, by which an early look is paid for.
        assert found.adjusted_confidence == pytest.approx(1 - now.threshold)
        assert remaining(self.asked, there) == []

    def test_what_is_undecided_goes_on_with_the_next_seeds(self):
        there = self.records([*VAGUE, 0.01, -0.01])
        left = remaining(self.asked, there)
        assert {key.seed for key in left} == set(SEEDS[10:])
        assert current_stage(self.asked, there) == self.asked.at_stage(1)
        assert {key.seed for key in remaining(self.asked, there[:-2])} == {9}

    def test_within_the_bound_is_decided(self):
        wide = replace(self.asked, bound=1.0)
        assert remaining(wide, self.records([*VAGUE, 0.01, -0.01])) == []

    def test_the_last_stage_is_the_end(self):
        assert remaining(self.asked, self.records([*VAGUE, *VAGUE])) == []

    def test_an_early_end_misses_no_runs(self, tmp_path):
        register(self.asked, tmp_path)
        there = self.records([*CLEAR, -0.03, -0.02])
        told = replace(read_registration(tmp_path), plan=current_stage(self.asked, there))
        assert [line for line in followed(told, there) if "missing" in line] == []


def test_a_look_around_may_have_stages_that_claim_nothing():
    loose = quick.plan(seeds=(0, 1, 2, 3), stages=(2, 4))
    assert current_stage(loose, []) == loose.at_stage(0)
    assert record().seed == 0
