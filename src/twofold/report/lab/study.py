"""A comparison's folder, read and judged: all that its report shows."""

from dataclasses import dataclass, replace
from pathlib import Path

from twofold.lab.analysis import Comparison, compared
from twofold.lab.learning_rates import RateCurve
from twofold.lab.pairs import end_runs
from twofold.lab.plan import Plan
from twofold.lab.records import FILE, Record, read_records
from twofold.lab.registration import Registration, counted, followed, grid_of, read_registration
from twofold.lab.stages import current_stage
from twofold.lab.verdict import Verdict, judged, overview

# Verdicts at the head of a page, at most.
FEW = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """What was planned, what was run, and what may be said of it."""

    registration: Registration
    plan: Plan
    """As it is judged: of an experiment with stages, at the one it has come to."""
    runs: int
    """How many there are, those that do not count included."""
    records: list[Record]
    """Those that count."""
    departures: list[str]
    notes: list[str]
    comparisons: list[Comparison]
    verdicts: list[Verdict]
    rates: list[RateCurve]

    @property
    def primary(self) -> list[tuple[Comparison, Verdict]]:
        """What the plan named, with what may be said of it."""
        both = zip(self.comparisons, self.verdicts, strict=True)
        return [(one, said) for one, said in both if (one.pairs.arm, one.pairs.against) in self.plan.primary]

    @property
    def headlines(self) -> list[Verdict]:
        """Of the primary comparisons; of all where the plan names none."""
        return [said for _, said in self.primary] or self.verdicts

    @property
    def told_first(self) -> list[Verdict]:
        """What a reader is told before all else: the headlines, or one sentence instead of many of them."""
        many = len(self.headlines) > FEW and not self.primary
        return [overview(self.plan, self.comparisons)] if many else self.headlines

    def place(self, arm: str) -> int:
        return self.plan.arms.index(arm)

    def is_in_focus(self, arm: str) -> bool:
        """Whether an arm is drawn with its band: those of the primary comparisons, or all of a few."""
        return len(self.plan.arms) <= 3 or any(arm in pair for pair in self.plan.primary)

    def ends(self, arm: str) -> list[Record]:
        """An arm's final runs at the largest budget that ended in a number, by seed."""
        found = end_runs(self.records, arm, self.plan.end)
        return [found[seed] for seed in sorted(found) if found[seed].value is not None]


def read_study(folder: Path) -> Study:
    """Read and judge a folder with a registration and records."""
    registration, notes = read_registration(folder), []
    whole = read_records(folder / FILE, notes.append)
    plan = current_stage(registration.plan, whole, registration.registered)
    records = counted(plan, whole)
    comparisons = compared(plan, whole, registration.registered)
    return Study(
        registration=registration,
        plan=plan,
        runs=len(whole),
        records=records,
        departures=followed(replace(registration, plan=plan), whole),
        notes=notes,
        comparisons=comparisons,
        verdicts=[judged(plan, comparison) for comparison in comparisons],
        rates=grid_of(plan, records),
    )
