"""From runs to words: each word where it is due, and nowhere else."""

import math
import re
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import stdev

import pytest

from tests.lab.made_up import ARMS, BUDGETS, ENVIRONMENT, plan, record, records
from twofold.lab.analysis import compared
from twofold.lab.shortest_schedule import Clock
from twofold.lab.statistics import Estimate, holm, pairs_needed, sign_flip_p, smallest_detectable, t_interval
from twofold.lab.verdict import Word, interval_text, judged, number, overview, share

SPLIT = "split_kv matched"
UNJUDGED = f"not judged: of {SPLIT} against standard, "


def one_budget(**changes):
    return plan(budgets=(1000,), primary=((SPLIT, "standard"),), arms=("standard", SPLIT), **changes)


def runs(differences, seconds=1.0, sign=1.0):
    """Two arms with so much between them, one budget, no grid and no curve."""
    return [
        record(arm, seed, budget=1000, value=sign * (2.0 + seed / 7 + add), seconds=time, curve=())
        for seed, difference in enumerate(differences)
        for arm, add, time in (("standard", 0.0, 1.0), (SPLIT, difference, seconds))
    ]


def grid(plan):
    """Every rate of every arm, the one of the runs above being the best."""
    sign = 1 if plan.lower_is_better else -1
    return [
        record(key.arm, key.seed, key.lr, key.budget, "grid", value=sign * (3.0 + (key.lr != 1e-3)), curve=())
        for key in plan.grid()
    ]


def verdict(plan, records):
    """With a grid, unless there is one."""
    records = records if any(one.phase == "grid" for one in records) else [*grid(plan), *records]
    return judged(plan, compared(plan, records)[0])


CLEAR = [-0.03, -0.02, -0.04, -0.03, -0.025, -0.035, -0.03, -0.02]
VAGUE = [-0.03, 0.02, -0.04, 0.03, -0.025, 0.035, 0.03, -0.01]


class TestWords:
    def test_better(self):
        found = verdict(one_budget(), runs(CLEAR))
        assert found.word is Word.BETTER
        assert found.sentence == (
            f"better: {SPLIT} ends 0.0287 below standard in loss (95 % interval -0.0346 to -0.0229, 8 pairs, "
            "p = 0.00781), with 100 % of its seconds for the same tokens."
        )

    def test_worse(self):
        found = verdict(one_budget(), runs([-one for one in CLEAR]))
        assert found.word is Word.WORSE
        assert "ends 0.0287 above standard" in found.sentence
        # However quick it is.
        assert verdict(one_budget(), runs([-one for one in CLEAR], seconds=0.1)).word is Word.WORSE

    def test_higher_may_be_better(self):
        upside = one_budget(lower_is_better=False)
        assert verdict(upside, runs(CLEAR, sign=-1.0)).word is Word.BETTER
        assert verdict(upside, runs(CLEAR)).word is Word.WORSE

    def test_undecided_says_what_could_have_been_seen(self):
        found = verdict(one_budget(), runs(VAGUE))
        assert found.word is Word.UNDECIDED
        assert "p = " in found.sentence
        assert (
            f"a true difference of {number(smallest_detectable(VAGUE))} would have been seen in 80 %" in found.sentence
        )

    @pytest.mark.parametrize(
        "differences",
        [
            # All on one side, p = 0.0078, but Student's interval goes from -0.13 to 0.04.
            [-0.01] * 7 + [-0.30],
            # That goes from -0.037 to -0.0004, but p = 0.0625.
            [-0.034, -0.046, -0.046, -0.013, -0.011, 0.013, -0.02, 0.006],
        ],
        ids=["the interval says no", "the exact test says no"],
    )
    def test_interval_and_exact_test_must_agree(self, differences):
        assert t_interval(differences).excludes(0.0) != (sign_flip_p(differences) <= 0.05)
        for sign in (1.0, -1.0):
            found = verdict(one_budget(), runs([sign * one for one in differences]))
            assert found.word is Word.UNDECIDED

    def test_no_difference_is_found_only_within_a_bound_fixed_beforehand(self):
        reach = max(map(abs, (t_interval(VAGUE).low, t_interval(VAGUE).high)))
        assert verdict(one_budget(bound=1.01 * reach), runs(VAGUE)).word is Word.NO_DIFFERENCE
        assert verdict(one_budget(bound=0.99 * reach), runs(VAGUE)).word is Word.UNDECIDED
        # What is clear is called so, however small.
        assert verdict(one_budget(bound=1.0), runs(CLEAR)).word is Word.BETTER

    def test_undecided_says_how_many_pairs_would_do(self):
        found = verdict(one_budget(bound=0.02), runs(VAGUE))
        needed = pairs_needed(stdev(VAGUE), 0.02)
        assert found.sentence.endswith(f", and it would take {needed} pairs to see one of 0.0200.")

    def test_an_interval_that_touches_zero_does_not_exclude_it(self):
        assert not Estimate(0.1, 0.0, 0.2, 8).excludes(0.0)
        assert not Estimate(-0.1, -0.2, 0.0, 8).excludes(0.0)
        assert Estimate(0.1, 1e-9, 0.2, 8).excludes(0.0)

    def test_a_gain_that_the_clock_may_lose_is_not_better(self):
        found = verdict(one_budget(), runs(CLEAR, seconds=1.5))
        assert found.word is Word.BETTER_AT_TOKENS
        assert "below standard" in found.sentence
        assert found.sentence.endswith(
            ", but takes 150 % of its seconds for the same tokens, and whether a shorter run keeps it is unknown."
        )

    def test_few_pairs_are_exploratory_and_have_no_p(self):
        few = one_budget(seeds=(0, 1, 2), exploratory=True)
        found = verdict(few, runs(CLEAR[:3]))
        assert found.word is Word.EXPLORATORY
        assert "p = " not in found.sentence
        assert found.sentence.endswith("3 pairs); nothing is claimed.")
        alone = verdict(one_budget(seeds=(0,), exploratory=True), runs(CLEAR[:1]))
        assert "(95 % interval unknown, 1 pair); nothing is claimed." in alone.sentence

    def test_fewer_than_eight_are_exploratory_whatever_was_registered(self):
        assert verdict(one_budget(seeds=tuple(range(7))), runs(CLEAR[:7])).word is Word.EXPLORATORY

    def test_an_exploratory_plan_claims_nothing(self):
        found = verdict(one_budget(exploratory=True), runs(CLEAR))
        assert found.word is Word.EXPLORATORY
        assert "unadjusted p = 0.00781" in found.sentence

    def test_missing_runs_are_not_judged(self):
        found = verdict(one_budget(), runs(CLEAR[:6]))
        assert found.word is Word.NOT_JUDGED
        assert found.sentence == f"not judged: 6 of 8 pairs of {SPLIT} and standard are there."
        assert verdict(one_budget(), []).word is Word.NOT_JUDGED

    @pytest.mark.parametrize(("lag", "word"), [(0.2, Word.NOT_JUDGED), (0.04, Word.BETTER), (-1.0, Word.WORSE)])
    def test_a_rival_that_does_not_work_is_not_judged(self, lag, word):
        """Nor is the arm that works compared with it the less for that."""
        both = {"primary": ((SPLIT, "standard"), (SPLIT, "exclusive")), "arms": ("standard", SPLIT, "exclusive")}
        asked = plan(budgets=(1000,), rivals_within=0.05, **both)
        rival = [
            record("exclusive", one.seed, budget=1000, value=one.value + lag, seconds=1.0, curve=())
            for one in runs(CLEAR)[::2]
        ]
        against_standard, against_rival = (
            judged(asked, one) for one in compared(asked, [*grid(asked), *runs(CLEAR), *rival])[:2]
        )
        assert against_standard.word is Word.BETTER
        assert against_rival.word is word
        if word is Word.NOT_JUDGED:
            assert against_rival.sentence == (
                f"not judged: of {SPLIT} against exclusive, "
                "a rival does not train to within 0.05 of standard (exclusive ends 0.2 behind)."
            )
        unasked = plan(budgets=(1000,), **both)
        assert judged(unasked, compared(unasked, [*grid(unasked), *runs(CLEAR), *rival])[1]).word is not Word.NOT_JUDGED

    def test_what_diverged_is_not_judged(self):
        broken = [*runs(CLEAR)[:-1], record(SPLIT, 7, budget=1000, value=None, curve=())]
        found = verdict(one_budget(), broken)
        assert found.sentence == f"not judged: of {SPLIT} against standard, these runs diverged: {SPLIT} seed 7."

    def test_an_arm_that_diverged_at_every_rate_is_named_and_misses_nothing(self):
        asked = one_budget()
        grid = [
            record(key.arm, key.seed, key.lr, 1000, "grid", value=None if key.arm == SPLIT else 2.0, curve=())
            for key in asked.grid()
        ]
        found = verdict(asked, grid)
        assert found.sentence == f"not judged: {SPLIT} diverged at every rate of the grid."
        # With a run of the grid to come, nobody knows.
        assert "0 of 8 pairs" in verdict(asked, grid[:-1]).sentence

    @pytest.mark.parametrize("arm", ["standard", SPLIT])
    def test_a_rate_at_the_edge_of_the_grid_is_not_judged(self, arm):
        plan = one_budget()
        grid = [
            record(key.arm, key.seed, key.lr, 1000, "grid", value=2.0 + abs(key.lr - 1e-3), curve=())
            for key in plan.grid()
        ]
        assert verdict(plan, grid + runs(CLEAR)).word is Word.BETTER
        edge = [replace(one, value=1.9) if (one.arm, one.lr) == (arm, 5e-4) else one for one in grid]
        edge += [replace(one, lr=5e-4) if one.arm == arm else one for one in runs(CLEAR)]
        found = verdict(plan, edge)
        assert found.word is Word.NOT_JUDGED
        why = "the best learning rate is at the edge of the grid, or level with it"
        assert found.sentence == f"{UNJUDGED}{why} ({arm} 0.0005)."
        # What claims nothing may still be looked at.
        assert verdict(replace(plan, exploratory=True), edge).word is Word.EXPLORATORY

    @pytest.mark.parametrize("end", [5e-4, 4e-3])
    def test_a_best_rate_that_is_level_with_an_end_is_not_judged(self, end):
        level = [replace(one, value=3.0) if one.lr == end and one.arm == SPLIT else one for one in grid(one_budget())]
        picked = min(1e-3, end)
        ours = [replace(one, lr=picked) if one.arm == SPLIT else one for one in runs(CLEAR)]
        found = verdict(one_budget(), level + ours)
        why = "the best learning rate is at the edge of the grid, or level with it"
        assert found.sentence == f"{UNJUDGED}{why} ({SPLIT} {picked:g})."

    def test_a_grid_that_one_arm_alone_was_given_more_of_is_not_judged(self):
        asked = one_budget()
        more = [record(name, seed, 8e-3, 1000, "grid", value=5.0, curve=()) for name in asked.arms for seed in (8, 9)]
        assert verdict(asked, [*grid(asked), *more, *runs(CLEAR)]).word is Word.BETTER
        for one in more:
            for added in (one, replace(one, lr=1e-3, budget=500)):
                found = verdict(asked, [*grid(asked), added, *runs(CLEAR)])
                why = f"the grid is another for each arm ({added.lr:g} seed {added.seed})"
                assert found.sentence.startswith(f"{UNJUDGED}{why}")

    def test_a_rate_that_was_tried_with_more_seeds_than_others_is_not_judged(self):
        """Seeds could be added to it until it is the best, or is not."""
        asked, whole = one_budget(), [*grid(one_budget()), *runs(CLEAR)]
        more = [
            [record(name, 10, lr, 1000, "grid", value=3.0 + (lr != 1e-3), curve=()) for name in asked.arms]
            for lr in asked.lrs
        ]
        found = verdict(asked, [*whole, *more[0]])
        assert found.sentence == f"{UNJUDGED}not all rates were tried with the same seeds ({SPLIT}; standard)."
        assert verdict(asked, [*whole, *(one for ones in more for one in ones)]).word is Word.BETTER

    def test_runs_from_before_the_plan_are_not_judged(self):
        began = datetime.fromisoformat(ENVIRONMENT["date"])
        whole = [*grid(one_budget()), *runs(CLEAR)]
        for registered, word in ((began, Word.BETTER), (began + timedelta(seconds=1), Word.NOT_JUDGED)):
            found = judged(one_budget(), compared(one_budget(), whole, registered)[0])
            assert found.word is word
        assert found.sentence.startswith(
            f"{UNJUDGED}runs began before the plan was registered (grid standard seed 8 lr 0.0005 at 1,000 tokens "
            f"began {began:%Y-%m-%d %H:%M}; "
        )

    @pytest.mark.parametrize("date", [None, "yesterday"])
    def test_runs_that_do_not_say_when_they_began_are_not_judged(self, date):
        began = datetime.fromisoformat(ENVIRONMENT["date"])
        undated = {name: told for name, told in (ENVIRONMENT | {"date": date}).items() if told is not None}
        whole = [*grid(one_budget()), *runs(CLEAR)]
        whole[-1] = replace(whole[-1], environment=undated)
        found = judged(one_budget(), compared(one_budget(), whole, began)[0])
        which = f"final {SPLIT} seed 7 lr 0.001 at 1,000 tokens"
        assert found.sentence == f"{UNJUDGED}runs do not say when they began ({which})."

    def test_arms_of_several_versions_are_not_judged(self):
        """Not even where both halves of each pair are of one."""

        def made(one, version):
            return replace(one, environment=one.environment | {"own_arms": version})

        whole = [*grid(one_budget()), *runs(CLEAR)]
        assert verdict(one_budget(), [made(one, "a") for one in whole]).word is Word.BETTER
        for first in (lambda one: one.phase == "grid", lambda one: one.seed < 4):
            found = verdict(one_budget(), [made(one, "a" if first(one) else "b") for one in whole])
            assert found.sentence == f"{UNJUDGED}arms of one's own are of several versions (a; b)."

    def test_without_its_whole_grid_nothing_is_judged(self):
        whole = grid(one_budget())
        assert verdict(one_budget(), [*whole, *runs(CLEAR)]).word is Word.BETTER
        for gone in (whole[-1], whole[0]):
            part = [one for one in whole if one != gone]
            found = verdict(one_budget(), [*part, *runs(CLEAR)])
            assert found.sentence.startswith(f"{UNJUDGED}runs of the grid are missing ({gone.arm} {gone.lr:g})")
        assert "runs of the grid are missing" in judged(one_budget(), compared(one_budget(), runs(CLEAR))[0]).sentence

    def test_runs_off_their_tokens_are_not_judged(self):
        broken = [replace(one, tokens=980) if (one.arm, one.seed) == ("standard", 3) else one for one in runs(CLEAR)]
        assert verdict(one_budget(), broken).sentence == (
            f"{UNJUDGED}runs did not see the tokens of their budget (standard seed 3 saw 980 of 1,000)."
        )
        slack = [replace(one, tokens=995) for one in runs(CLEAR)]
        assert verdict(one_budget(), slack).word is Word.BETTER
        assert verdict(one_budget(exploratory=True), broken).word is Word.EXPLORATORY

    def test_a_larger_arm_is_not_judged(self):
        size = runs(CLEAR)[0].parameters
        larger = [replace(one, parameters=2 * size) if one.arm == SPLIT else one for one in runs(CLEAR)]
        assert verdict(one_budget(), larger).sentence == (
            f"{UNJUDGED}the arm has more parameters than its rival ({2 * size:,} to {size:,})."
        )
        # One of them is enough.
        once = [replace(one, parameters=2 * size) if one.key == runs(CLEAR)[1].key else one for one in runs(CLEAR)]
        assert verdict(one_budget(), once).word is Word.NOT_JUDGED
        about = [replace(one, parameters=round(1.005 * size)) if one.arm == SPLIT else one for one in runs(CLEAR)]
        assert verdict(one_budget(), about).word is Word.BETTER

    def test_another_commit_of_the_same_code_is_alike(self):
        def made(**standard):
            return [
                replace(one, environment=ENVIRONMENT | {"code": "c0de"} | (standard if one.arm == "standard" else {}))
                for one in runs(CLEAR)
            ]

        assert verdict(one_budget(), made(commit="another")).word is Word.BETTER
        assert "code c0de / 0ther" in verdict(one_budget(), made(code="0ther")).sentence

    def test_tiny_numbers_may_differ(self):
        """Level is what differs in its last bits, whatever the unit."""
        tiny = [replace(one, value=one.value * 1e-12) for one in runs(CLEAR)]
        assert verdict(one_budget(), tiny).word is Word.BETTER

    def test_pairs_that_were_not_made_alike_are_not_judged(self):
        other = ENVIRONMENT | {"runs_at_once": 4, "data": "other"}
        broken = [replace(one, environment=other) if one.arm == SPLIT else one for one in runs(CLEAR)]
        found = verdict(one_budget(), broken)
        assert found.word is Word.NOT_JUDGED
        assert f"pairs were not made alike ({SPLIT} / standard seed 0 at 1,000 tokens: runs_at_once 4" in found.sentence
        assert found.sentence.endswith(" and 13 more).")
        # Alike, wherever that was.
        assert verdict(one_budget(), [replace(one, environment=other) for one in runs(CLEAR)]).word is Word.BETTER

    def test_more_pairs_than_an_exact_test_takes_have_no_p(self):
        many = one_budget(seeds=tuple(range(25)), exploratory=True)
        (found,) = compared(many, runs((CLEAR * 4)[:25]))
        assert (found.p, found.adjusted_p) == (None, None)
        assert judged(many, found).sentence.endswith("25 pairs); nothing is claimed.")

    def test_no_difference_at_all(self):
        found = verdict(one_budget(), runs([0.0] * 8))
        assert found.word is Word.UNDECIDED
        assert "ends level with standard" in found.sentence
        assert "p = 1.00)" in found.sentence

    def test_what_differs_in_its_last_bits_does_not_differ(self):
        found = verdict(one_budget(), runs([-4.5e-13] * 8))
        assert found.word is Word.UNDECIDED
        assert "ends level with standard" in found.sentence


class TestHolm:
    def two(self, first, second):
        """The same split against two rivals."""
        ends = {
            "standard": (0.0,) * 8,
            SPLIT: first,
            "exclusive": [one - other for one, other in zip(first, second, strict=True)],
        }
        return [
            record(arm, seed, budget=1000, value=2.0 + seed / 7 + add, seconds=1.0, curve=())
            for arm, adds in ends.items()
            for seed, add in enumerate(adds)
        ]

    def test_p_and_interval_are_adjusted(self):
        both = plan(budgets=(1000,))
        first, second, other = compared(both, grid(both) + self.two(CLEAR, VAGUE))
        ps = [sign_flip_p(one.pairs.differences) for one in (first, second)]
        assert [first.p, second.p] == ps
        assert [first.adjusted_p, second.adjusted_p] == holm(ps)
        assert first.adjusted_difference == t_interval(first.pairs.differences, 0.975)
        assert second.adjusted_difference == t_interval(second.pairs.differences, 0.95)
        assert first.difference == t_interval(first.pairs.differences, 0.95)
        assert "p = 0.0156 after Holm" in judged(both, first).sentence
        assert [judged(both, one).word for one in (first, second, other)] == [
            Word.BETTER, Word.UNDECIDED, Word.EXPLORATORY,
        ]  # fmt: skip
        assert (other.pairs.arm, other.pairs.against, other.adjusted_p) == ("exclusive", "standard", None)

    def test_equal_ps_get_the_same_level(self):
        both = plan(budgets=(1000,))
        first, second, _ = compared(both, grid(both) + self.two(CLEAR, CLEAR[::-1]))
        assert first.p == second.p
        assert first.adjusted_confidence == second.adjusted_confidence == 0.975

    def test_what_is_missing_counts_as_nothing_found(self):
        both = plan(budgets=(1000,))
        there = grid(both) + self.two(CLEAR, VAGUE)
        first, second, _ = compared(both, [one for one in there if (one.phase, one.arm) != ("final", "exclusive")])
        assert first.adjusted_p == 2 * first.p
        assert (second.p, second.adjusted_p, second.difference, second.detectable) == (None, None, None, math.inf)
        assert judged(both, second).word is Word.NOT_JUDGED

    def test_what_is_not_judged_counts_as_nothing_found(self):
        """Or a rival that does not work would halve what the other comparison is adjusted by."""
        both = plan(budgets=(1000,), rivals_within=0.05)
        lame = [replace(one, value=one.value + 1) if one.arm == "exclusive" else one for one in self.two(CLEAR, VAGUE)]
        first, second, _ = compared(both, grid(both) + lame)
        assert judged(both, second).word is Word.NOT_JUDGED
        assert second.p == sign_flip_p(second.pairs.differences)
        assert (first.adjusted_p, second.adjusted_p) == (2 * first.p, None)
        assert first.adjusted_confidence == 0.975

    def test_what_would_have_been_seen_is_at_the_strictest_level_of_holm(self):
        both = plan(budgets=(1000,))
        first, second, other = compared(both, grid(both) + self.two(CLEAR, VAGUE))
        for one, threshold in ((first, 0.025), (second, 0.025), (other, 0.05)):
            assert one.detectable == pytest.approx(smallest_detectable(one.pairs.differences, threshold))


class TestWholeExperiments:
    def test_the_made_up_split_is_better_and_sooner(self):
        found = compared(plan(), records(plan()))
        assert [(one.pairs.arm, one.pairs.against) for one in found] == [
            (SPLIT, "standard"), (SPLIT, "exclusive"), ("exclusive", "standard"),
        ]  # fmt: skip
        first = judged(plan(), found[0])
        assert first.word is Word.BETTER
        assert "and reaches that end with" in first.sentence
        assert re.search(r"of the seconds \(95 % interval \d\d\.\d % to \d\d\.\d %\)\.$", first.sentence)
        assert found[0].clock is Clock.KEEPS
        assert found[0].difference.low < -0.03 < found[0].difference.high

    def test_seconds_can_lose_it(self):
        slow = [replace(one, seconds=one.seconds * 9) if one.arm == SPLIT else one for one in records(plan())]
        found = judged(plan(), compared(plan(), slow)[0])
        assert found.word is Word.BETTER_AT_TOKENS
        assert "but seconds lose it: it reaches that end with" in found.sentence

    def test_a_schedule_that_some_seeds_may_never_finish_says_so(self):
        comparison = compared(plan(), records(plan()))[0]
        for bounds, said in (((0.8, math.inf), "80.0 % upwards"), ((-math.inf, math.inf), "interval unknown")):
            ratio = replace(comparison.shortest.second_ratio, low=bounds[0], high=bounds[1])
            shortest = replace(comparison.shortest, second_ratio=ratio)
            assert said in judged(plan(), replace(comparison, shortest=shortest)).sentence

    def test_diverged_runs_of_a_smaller_budget_leave_the_schedule_unknown(self):
        lost = [
            replace(one, value=None) if (one.phase, one.budget, one.seed) == ("final", BUDGETS[0], 3) else one
            for one in records(plan())
        ]
        found = compared(plan(), lost)[0]
        assert found.shortest is None
        # It takes more seconds for the same tokens; its curve is at the rival's end in time.
        assert found.clock is Clock.KEEPS
        said = judged(plan(), found).sentence
        assert said.endswith(", and its curve is there in no more time, with 102 % of its seconds for the same tokens.")

    def test_seeds_and_rates_outside_the_plan_do_not_count(self):
        whole = records(plan())
        best = compared(plan(), whole)
        more = [record(arm, seed, 2e-3, BUDGETS[-1], value=0.1) for arm in ARMS for seed in (8, 9)]
        other = [record(SPLIT, seed, 4e-3, BUDGETS[-1], value=0.1) for seed in range(8)]
        assert compared(plan(), whole + more + other) == best


class TestOverview:
    """Of comparisons of which none is primary."""

    @pytest.mark.parametrize("is_low_good", [True, False])
    def test_names_the_furthest_to_either_side(self, is_low_good):
        look = plan(primary=(), exploratory=True, lower_is_better=is_low_good)
        sign = 1 if is_low_good else -1
        found = overview(
            look, compared(look, [replace(one, value=sign * one.value, curve=()) for one in records(plan())])
        )
        assert found.word is Word.EXPLORATORY
        assert found.sentence.startswith(f"exploratory: of 2 comparisons nothing is claimed; at best, {SPLIT} ends 0.0")
        assert ", and at worst, exclusive ends 0.0" in found.sentence
        assert "missing" not in found.sentence

    def test_says_what_is_missing(self):
        look = plan(primary=(), exploratory=True)
        some = [one for one in records(look) if one.arm != SPLIT or one.seed]
        found = overview(look, compared(look, some))
        assert found.sentence.endswith("; in 1 of them runs are missing or diverged.")
        none = overview(look, compared(look, []))
        assert none.sentence == "not judged: none of 2 comparisons has pairs."


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0123456, "0.0123"),
        (-2.0, "-2.00"),
        (100.0, "100"),
        (999.6, "1,000"),
        (1234567.8, "1,234,568"),
        (math.inf, "inf"),
    ],
)
def test_numbers_are_short(value, said):
    assert number(value) == said


def test_shares_are_percents_up_to_ten_times():
    assert [share(one) for one in (0.931, 1.0, 9.99, 9.996, 25)] == [
        "93.1 %",
        "100 %",
        "999 %",
        "10.0 times",
        "25.0 times",
    ]


def test_an_interval_that_is_none():
    assert interval_text(None) == interval_text(t_interval([1.0])) == "unknown"
