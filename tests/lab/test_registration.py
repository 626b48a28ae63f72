"""Plans: what is refused beforehand, what is fixed, and every way to depart from it."""

import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.lab.made_up import BUDGETS, ENVIRONMENT, RATES, plan, record, records
from twofold.lab.plan import Plan, read_plan
from twofold.lab.records import Key, append
from twofold.lab.registration import SAME_FOR_PAIRS, Registration, counted, followed, read_registration, register

TOML = """
experiment = "first"
question = "Does the gain last?"
hypothesis = "It does: ja, 是的"
task = "lm"
data = "kernel source"
metric = "loss"
lower_is_better = true
arms = ["standard", "wide", "split_kv matched"]
baseline = "standard"
primary = [["split_kv matched", "standard"]]
seeds = [0, 1, 2, 3, 4, 5, 6, 7]
lrs = [4e-3, 1e-3, 2e-3, 5e-4]
budgets = [200, 10]
analysis = "as ever"
stop_rule = "all runs"

[size]
layers = 4
"""


@pytest.fixture
def toml(tmp_path):
    def write(text=TOML):
        path = tmp_path / "plan.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def registered(plan, date="2026-11-01T00:00:00+00:00"):
    return Registration(plan=plan, sha256="", registered=datetime.fromisoformat(date), versions={})


class TestPlan:
    def test_a_registration_from_before_rivals_had_to_work_still_holds(self, tmp_path):
        """Its hash is that of what it says, without the field."""
        register(plan(), tmp_path)
        path = tmp_path / "registration.json"
        told = json.loads(path.read_text())
        del told["plan"]["rivals_within"]
        text = json.dumps(told["plan"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        path.write_text(json.dumps(told | {"sha256": hashlib.sha256(text.encode()).hexdigest()}))
        assert read_registration(tmp_path).plan == plan()
        assert register(plan(), tmp_path).plan == plan()
        with pytest.raises(ValueError, match="has another plan"):
            register(plan(rivals_within=0.05), tmp_path)

    @pytest.mark.parametrize("within", [0, -1.0, "much", True, float("inf")])
    def test_rivals_within_is_a_number_above_0(self, within):
        with pytest.raises(ValueError, match="rivals_within must be a number above 0"):
            plan(rivals_within=within)

    def test_is_read_as_it_is_written(self, toml):
        found = read_plan(toml())
        assert found.lrs == (5e-4, 1e-3, 2e-3, 4e-3)
        assert found.budgets == (10, 200)
        assert found.end == 200
        assert found.primary == (("split_kv matched", "standard"),)
        assert (found.threshold, found.exploratory, found.size) == (0.05, False, {"layers": 4})
        assert (found.grid_seeds, found.grid_budgets) == ((8, 9), (10, 200))
        assert Plan.from_json(json.loads(json.dumps(found.as_json()))) == found

    @pytest.mark.parametrize("name", re.findall(r"^(\w+) =", TOML.partition("[size]")[0], re.MULTILINE))
    def test_a_missing_field_is_named(self, toml, name):
        text = re.sub(rf"^{name} =.*\n", "", TOML, flags=re.MULTILINE)
        with pytest.raises(ValueError, match=rf"plan\.toml: field '{name}' is missing$"):
            read_plan(toml(text))

    def test_an_unknown_field_is_named(self, toml):
        with pytest.raises(ValueError, match=r"plan\.toml: unknown field 'seed'; there are: experiment, question"):
            read_plan(toml("seed = 3\n" + TOML))

    def test_a_plan_that_is_nested_too_deep_is_a_line(self, tmp_path):
        path = tmp_path / "plan.toml"
        path.write_text("a = " + "[" * 20_000)
        with pytest.raises(ValueError, match=r"plan\.toml: maximum recursion depth"):
            read_plan(path)

    def test_no_toml(self, toml, tmp_path):
        with pytest.raises(ValueError, match=r"plan\.toml: .*line 2"):
            read_plan(toml("a = 1\nb = = 2"))
        with pytest.raises(ValueError, match=r"other\.toml: there is no such file"):
            read_plan(tmp_path / "other.toml")

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"question": " "}, "question"),
            ({"metric": 3}, "metric"),
            ({"lower_is_better": "yes"}, "lower_is_better"),
            ({"arms": ["standard"]}, "arms"),
            ({"arms": ["a", "a"]}, "arms"),
            ({"baseline": "wide"}, "baseline and primary must be of the arms .*, got 'wide'"),
            ({"primary": [["wide", "standard"]]}, "primary must be of the arms .*, got 'wide'"),
            ({"primary": [["standard"]]}, "primary"),
            ({"primary": [["standard", "standard"]]}, "primary"),
            ({"primary": [["exclusive", "standard"]] * 2}, "primary"),
            ({"primary": [["exclusive", "standard"]] * 3}, "primary"),
            ({"seeds": []}, "seeds"),
            ({"seeds": [1, 1]}, "seeds"),
            ({"seeds": 8}, "seeds"),
            ({"grid_seeds": [0.5]}, "grid_seeds"),
            ({"budgets": [0]}, "budgets"),
            ({"seeds": [10**18]}, "grid_seeds"),
            ({"lrs": []}, "lrs"),
            ({"lrs": [1e-3, -1]}, "lrs"),
            ({"lrs": [1e-3, 1e-3]}, "lrs"),
            ({"threshold": 0.5}, "threshold"),
            ({"threshold": 1e-17, "exploratory": True}, "threshold"),
            ({"lrs": [1e-320, 1e-3]}, "lrs"),
            ({"lrs": [10**400]}, "lrs"),
            ({"size": {"date": datetime(2026, 1, 1, tzinfo=UTC)}}, "size"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, changes, said):
        with pytest.raises(ValueError, match=said):
            plan(**changes)

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            (
                {"seeds": tuple(range(5)), "primary": (("exclusive", "standard"),)},
                "5 seeds give a p of 0.0625 at best, .* which cannot reach",
            ),
            ({"seeds": tuple(range(6))}, "6 seeds give a p of 0.0625 at best, after Holm"),
            ({"seeds": tuple(range(7))}, "seeds must be at least 8 for a p to be printed, got 7"),
            ({"seeds": tuple(range(30))}, "seeds must be at most 24 for an exact test, got 30"),
            ({"threshold": 0.01}, "8 seeds give a p of 0.01562 at best"),
            ({"lrs": RATES[:3]}, "lrs must be at least 4 rates, got 3"),
            ({"primary": ()}, "primary names no comparison"),
            (
                {"grid_budgets": (30_000_000,)},
                "grid_budgets must hold one up to the largest budget 20,000,000, got 30,000,000",
            ),
            ({"grid_seeds": (9, 3)}, r"grid_seeds must be none of seeds, .*, got \[3\] in both"),
        ],
    )
    def test_a_plan_that_cannot_answer_is_not_registered(self, tmp_path, changes, said):
        with pytest.raises(ValueError, match=f"plan 'made up' cannot be registered: .*{said}"):
            register(plan(**changes), tmp_path)
        assert register(plan(**changes, exploratory=True), tmp_path).plan.exploratory

    def test_runs_of_a_plan(self):
        small = plan(seeds=(3, 1), budgets=(10, 20), lrs=RATES[:2], grid_budgets=[10])
        assert small.grid()[:3] == [Key("made up", "grid", arm, 4, RATES[0], 10) for arm in small.arms]
        assert len(small.grid()) == 12
        rates = {(arm, budget): 1e-3 for arm in small.arms for budget in (10, 20)}
        assert len(small.finals(rates)) == 12
        assert small.finals(rates)[-1] == Key("made up", "final", small.arms[-1], 1, 1e-3, 20)


class TestRegister:
    def test_writes_what_it_reads(self, tmp_path):
        before = datetime.now(UTC).replace(microsecond=0)
        found = register(plan(), tmp_path / "new")
        assert found == read_registration(tmp_path / "new")
        assert found.plan == plan()
        assert before <= found.registered <= datetime.now(UTC)
        assert {"python", "twofold", "scipy"} <= set(found.versions)
        assert re.fullmatch(r"[0-9a-f]{64}", found.sha256)
        assert {path.name for path in (tmp_path / "new").iterdir()} == {".registration.json.lock", "registration.json"}

    def test_the_same_plan_again_changes_nothing(self, tmp_path):
        first = register(plan(), tmp_path)
        append(tmp_path / "records.jsonl", record())
        assert register(plan(lrs=RATES[::-1]), tmp_path) == first

    def test_another_plan_is_refused(self, tmp_path):
        register(plan(), tmp_path)
        with pytest.raises(
            ValueError, match=r"registration\.json has another plan, registered 20..-..-..: choose another"
        ):
            register(plan(question="Another?"), tmp_path)

    def test_without_runs_a_folder_may_be_removed(self, tmp_path):
        register(plan(), tmp_path)
        for way in ("choose another folder, or remove this one: it has no runs", "choose another folder"):
            with pytest.raises(ValueError, match=rf"has another plan, registered \S+: {way}$"):
                register(plan(hypothesis="none"), tmp_path)
            append(tmp_path / "records.jsonl", record())

    def test_runs_come_after(self, tmp_path):
        append(tmp_path / "records.jsonl", record())
        with pytest.raises(
            ValueError, match=r"records\.jsonl has runs already: a plan is registered before the first one"
        ):
            register(plan(), tmp_path)

    def test_a_plan_that_was_changed_is_found_out(self, tmp_path):
        register(plan(), tmp_path)
        path = tmp_path / "registration.json"
        path.write_text(path.read_text().replace("The matched split ends below", "The matched split ends above"))
        with pytest.raises(ValueError, match="its plan was changed after it was registered"):
            read_registration(tmp_path)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("{", "Expecting property name"),
            ("{}", "is no registration"),
            ("[]", "is no registration"),
            ('{"plan": {}}', "field 'experiment' is missing"),
        ],
    )
    def test_what_is_no_registration(self, tmp_path, text, said):
        (tmp_path / "registration.json").write_text(text)
        with pytest.raises(ValueError, match=rf"registration\.json: .*{said}"):
            read_registration(tmp_path)

    def test_nothing_registered(self, tmp_path):
        with pytest.raises(ValueError, match=r"has no registration\.json: nothing was registered there"):
            read_registration(tmp_path)


class TestMoreSeeds:
    def test_a_look_around_takes_more_and_keeps_its_date_and_grid(self, tmp_path):
        few, many = (plan(seeds=tuple(range(count)), exploratory=True) for count in (3, 6))
        before = register(few, tmp_path)
        wider = few.widened_like(many)
        # The grid has seed 3.
        assert (wider.seeds, wider.grid_seeds) == ((0, 1, 2, 4, 5, 6), (3,))
        found = register(wider, tmp_path)
        assert (found.plan, found.registered) == (wider, before.registered)
        # The same command again.
        assert found.plan.widened_like(many) == found.plan

    def test_what_claims_something_takes_none(self):
        assert plan().widened_like(plan(seeds=tuple(range(12)))) is None
        assert plan().widened_like(plan()) == plan()

    def test_neither_fewer_nor_anything_else(self):
        three = plan(seeds=(0, 1, 2), exploratory=True)
        assert three.widened_like(plan(seeds=(0, 1), exploratory=True)) is None
        assert three.widened_like(plan(seeds=(0, 1, 2, 3), lrs=(1e-3,), exploratory=True)) is None


class TestFollowed:
    def departures(self, records, asked=None, **options):
        return followed(registered(asked or plan(), **options), records)

    def test_a_plan_that_was_followed_has_no_departures(self):
        assert self.departures(records(plan())) == []

    def test_runs_that_are_missing(self):
        whole = records(plan())
        assert len(whole) == 2 * 3 * 4 * 3 + 3 * 8 * 3
        (said,) = self.departures(whole[:-4])
        assert said.startswith("4 of 144 runs are missing: final exclusive seed 7 lr 0.002 at 20,000,000 tokens; ")
        assert said.endswith(" and 1 more")
        (nothing,) = self.departures([])
        # Without a grid no rate is known.
        assert nothing.startswith("144 of 144 runs are missing: final exclusive seed 0 at 1,000,000 tokens; ")

    def test_an_arm_that_diverges_at_every_rate_of_one_budget_is_told_and_not_waited_for(self):
        asked = plan(grid_budgets=BUDGETS[:2])
        is_lost = lambda one: (one.arm, one.budget) == ("exclusive", BUDGETS[0])  # noqa: E731
        kept = [
            replace(one, value=None) if is_lost(one) else one
            for one in records(asked)
            if one.phase == "grid" or not is_lost(one)
        ]
        assert self.departures(kept, asked) == [
            "1 of the arms diverged at every rate of the grid: exclusive at 1,000,000 tokens"
        ]

    def test_of_a_grid_that_is_half_done_no_best_rate_is_told(self):
        """It may not be the best in the end."""
        half = [one for one in records(plan()) if one.phase == "grid" and one.lr != RATES[-1]]
        (said,) = self.departures(half)
        assert "missing: final exclusive seed 0 at 1,000,000 tokens; " in said

    def test_runs_that_were_not_planned(self):
        extra = record("standard", 8, 1e-3, BUDGETS[0])
        other = record("standard", 0, 8e-3, BUDGETS[0], "grid")
        assert self.departures([*records(plan()), extra, other]) == [
            "2 runs were not planned: final standard seed 8 lr 0.001 at 1,000,000 tokens; "
            "grid standard seed 0 lr 0.008 at 1,000,000 tokens"
        ]

    def test_a_seed_that_is_compared_chooses_no_rate(self):
        """However good it is at the highest rate."""
        best = {"seed": 0, "value": 0.0, "curve": ()}
        tried = [one for one in records(plan()) if (one.phase, one.lr, one.seed) == ("grid", 4e-3, 8)]
        added = [replace(one, **best) for one in tried]
        (said,) = self.departures([*records(plan()), *added])
        assert said.startswith("9 runs were not planned: grid exclusive seed 0 lr 0.004 at 1,000,000 tokens; ")
        assert counted(plan(), [*records(plan()), *added]) == records(plan())
        # Another seed that was added to the grid does.
        more = [replace(one, seed=10) for one in added]
        assert len(counted(plan(), [*records(plan()), *more])) == 2 * 3 * 4 * 3 + len(more)

    def test_another_rate_than_the_best(self):
        whole = records(plan())
        odd = [replace(one, lr=4e-3) if one.key == whole[-1].key else one for one in whole]
        assert (
            "1 final runs have another learning rate than the best of the grid: "
            "split_kv matched seed 7 at 20,000,000 tokens with 0.004 for 0.002" in self.departures(odd)
        )
        assert len(counted(plan(), odd)) == len(whole) - 1

    def test_an_optimum_at_the_edge(self):
        edge = plan(lrs=(1e-3, 2e-3, 4e-3, 8e-3))
        said = self.departures(records(edge), edge)
        assert said[0].startswith(
            "3 of the best learning rates at the edge of the grid, or level with it: "
            "standard 0.001 at 1,000,000 tokens;"
        )
        assert len(said) == 1

    def test_registered_too_late(self):
        (said,) = self.departures(records(plan()), date="2026-11-21T00:00:00+00:00")
        assert said.startswith(
            "144 runs began before the plan was registered, 2026-11-21 00:00 UTC: grid standard seed 8"
        )

    @pytest.mark.parametrize("name", ["date", "commit", "data"])
    def test_runs_that_do_not_say_where_they_come_from(self, name):
        without = {one: told for one, told in ENVIRONMENT.items() if one != name}
        (said,) = self.departures([replace(one, environment=without) for one in records(plan())])
        assert said.startswith(
            "144 runs do not say their date, commit or data: "
            f"grid standard seed 8 lr 0.0005 at 1,000,000 tokens lacks {name}; "
        )

    def test_a_date_that_is_none_and_a_commit_of_no_repository(self):
        odd = [replace(one, environment=ENVIRONMENT | {"date": "yesterday"}) for one in records(plan())]
        (said,) = self.departures(odd)
        assert said.startswith("144 runs do not say their date")
        installed = [replace(one, environment=ENVIRONMENT | {"commit": None}) for one in records(plan())]
        assert self.departures(installed) == []

    @pytest.mark.parametrize("budget", BUDGETS)
    @pytest.mark.parametrize("name", SAME_FOR_PAIRS)
    def test_pairs_that_were_not_made_alike(self, name, budget):
        odd = [
            replace(one, environment=ENVIRONMENT | {name: "another"})
            if (one.phase, one.arm, one.seed, one.budget) == ("final", "split_kv matched", 7, budget)
            else one
            for one in records(plan())
        ]
        usual = ENVIRONMENT.get(name)
        own = ["2 versions of user-defined arms made the runs: None; another"]
        assert self.departures(odd) == (own if name == "own_arms" else []) + [
            "2 differences in how primary pairs were made: "
            f"split_kv matched / standard seed 7 at {budget:,} tokens: {name} another / {usual}; "
            f"split_kv matched / exclusive seed 7 at {budget:,} tokens: {name} another / {usual}"
        ]

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"experiment": "other"}, "runs of another experiment, 'other', are among the records"),
            ({"metric": "bleu"}, "1 runs have another metric than loss: final split_kv matched seed 7 lr 0.002 at 20"),
            ({"tokens": 19_000_000}, "1 runs did not see the tokens of their budget: final split_kv matched seed 7"),
        ],
    )
    def test_other_departures(self, changes, said):
        whole = records(plan())
        assert any(said in one for one in self.departures([*whole[:-1], replace(whole[-1], **changes)]))
