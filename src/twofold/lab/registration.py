"""A plan that was fixed before the first run, with its hash and date; and how the runs kept to it.

The hash covers the plan alone. That it was registered when the file says is vouched for by whoever commits the file
before the first run, not by the file.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twofold.disk import flush
from twofold.lab.learning_rates import RateCurve, rate_curves, rate_for
from twofold.lab.pairs import end_runs
from twofold.lab.plan import Plan
from twofold.lab.records import FILE as RECORDS
from twofold.lab.records import Key, Record, locked
from twofold.machine import version_of
from twofold_runtime.folder import write_whole

FILE = "registration.json"
PACKAGES = ("twofold", "torch", "transformers", "numpy", "scipy")
# Of a record's environment: what paired runs must share to have been made alike.
SAME_FOR_PAIRS = (
    "gpu", "cpu", "threads", "runs_at_once", "python", "torch", "triton", "transformers", "numpy", "cudnn",
    "cudnn_frontend", "choices", "code", "own_arms", "commit", "twofold", "data",
)  # fmt: skip
# And what every run must tell, without which nobody can check it.
TOLD = ("date", "commit", "data")
# Of a run that is missing and whose rate no grid says yet.
NO_RATE = 0.0
# How many of a kind of departure are named one by one; how far tokens may be off their budget, and sizes apart.
NAMED, SLACK = 3, 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Registration:
    """What registration.json holds."""

    plan: Plan
    sha256: str
    registered: datetime
    versions: Mapping[str, str | None]


def register(plan: Plan, folder: Path) -> Registration:
    """Fix a plan in a folder that has no runs yet, durably. The same plan again changes nothing.

    A plan is refused that could not answer its question, and so is another one than the folder has, unless it is the
    same look around with more seeds.
    """
    path = folder / FILE
    if not path.exists():
        if reason := plan.why_not():
            raise ValueError(f"plan {plan.experiment!r} cannot be registered: {reason}")
        # Two processes may begin at once, and the first one's date counts.
        with locked(folder / f".{FILE}.lock"):
            if not path.exists():
                _write(plan, folder)
    found = read_registration(folder)
    if found.plan != plan and found.plan.widened_like(plan) == plan:
        with locked(folder / f".{FILE}.lock"):
            _write(plan, folder, found.registered)
        found = read_registration(folder)
    if found.plan != plan:
        raise ValueError(f"{path} has another plan, registered {found.registered:%Y-%m-%d}: {another_way(folder)}")
    return found


def _write(plan: Plan, folder: Path, registered: datetime | None = None) -> None:
    """registered: when a look around that is widened was."""
    path = folder / FILE
    if registered is None and _has_runs(folder):
        raise ValueError(f"{folder / RECORDS} has runs already: a plan is registered before the first one")
    told = {
        "plan": plan.as_json(),
        "sha256": _hash(plan.as_json()),
        "registered": (registered or datetime.now(UTC)).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}},
    }
    write_whole(path, json.dumps(told, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
    flush(folder)


def another_way(folder: Path) -> str:
    """What somebody may do who wants another plan than a folder has."""
    return "choose another folder" if _has_runs(folder) else "choose another folder, or remove this one: it has no runs"


def _has_runs(folder: Path) -> bool:
    records = folder / RECORDS
    return records.exists() and records.stat().st_size > 0


def read_registration(folder: Path) -> Registration:
    """What was registered in a folder; an error where it was changed since."""
    path = folder / FILE
    if not path.is_file():
        raise ValueError(f"{folder} has no {FILE}: nothing was registered there")
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        plan, registered = Plan.from_json(told["plan"]), datetime.fromisoformat(told["registered"])
        found = Registration(plan=plan, sha256=told["sha256"], registered=registered, versions=told["versions"])
        # Of what the file says: a field that plans have only had since then changes nothing.
        is_as_registered = found.sha256 == _hash(told["plan"])
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: is no registration ({error})") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if found.registered.tzinfo is None:
        raise ValueError(f"{path}: registered must be a date with its time zone, got {told['registered']!r}")
    if not is_as_registered:
        raise ValueError(f"{path}: its plan was changed after it was registered, the hash is another")
    return found


def followed(registration: Registration, records: Sequence[Record]) -> list[str]:
    """Every departure of the runs from the plan, a line each; none if it was followed."""
    plan = registration.plan
    ours = [record for record in records if record.experiment == plan.experiment]
    curves = grid_of(plan, ours)
    whole = _whole_grids(plan, ours)
    # The best rate of a grid that is half done may not be that in the end.
    best = {
        (arm, budget): rate_for(curves, arm, budget) if arm in whole else None
        for arm in plan.arms
        for budget in plan.budgets
    }
    # Where the grid says no rate yet, a final run of any is as good.
    tried = {(one.arm, one.seed, one.budget): one.lr for one in ours if one.phase == "final"}
    keys = {record.key for record in ours}
    asked, lost = set(plan.grid()), hopeless(plan, ours)
    for arm, budget in (one for one in best if one not in lost):
        for seed in plan.seeds:
            lr = best[arm, budget] or tried.get((arm, seed, budget), NO_RATE)
            asked.add(Key(plan.experiment, "final", arm, seed, lr, budget))
    names = {name: 0 for record in records if (name := record.experiment) != plan.experiment}
    return [
        *(f"runs of another experiment, {name!r}, are among the records" for name in names),
        *_listed(f"of {len(asked)} runs are missing", (_run(key) for key in sorted(asked - keys))),
        *_listed(
            "of the arms diverged at every rate of the grid", (f"{arm} at {budget:,} tokens" for arm, budget in lost)
        ),
        *_listed("runs were not planned", (_run(key) for key in sorted(keys - asked))),
        *_wrong_rates(ours, best),
        *_listed(
            "of the best learning rates at the edge of the grid, or level with it",
            (
                f"{one.arm} {one.best:g} at {one.budget:,} tokens"
                for one in curves
                if one.arm in whole and one.best is not None and not one.is_interior
            ),
        ),
        *_listed(
            f"runs have another metric than {plan.metric}",
            (f"{_run(one.key)} has {one.metric}" for one in ours if one.metric != plan.metric),
        ),
        *_listed(
            "runs did not see the tokens of their budget",
            (f"{_run(one.key)} saw {one.tokens:,}" for one in ours if is_off_budget(one)),
        ),
        *_silent(ours),
        *_listed(
            f"runs began before the plan was registered, {registration.registered:%Y-%m-%d %H:%M} UTC",
            began_early(ours, registration.registered),
        ),
        *_listed("versions of user-defined arms made the runs", versions_of_own_arms(ours)),
        *_unlike(plan, counted(plan, ours)),
    ]


def hopeless(plan: Plan, records: Sequence[Record]) -> list[tuple[str, int]]:
    """Arms and budgets for which a whole grid says no rate: every one diverged, and they are not compared."""
    curves = grid_of(plan, records)
    return [
        (arm, budget)
        for arm in _whole_grids(plan, records)
        for budget in plan.budgets
        if rate_for(curves, arm, budget) is None
    ]


def _whole_grids(plan: Plan, records: Sequence[Record]) -> list[str]:
    """Arms of which the grid lacks no run."""
    lacking = {key.arm for key in set(plan.grid()) - {record.key for record in records}}
    return [arm for arm in plan.arms if arm not in lacking]


def grid_of(plan: Plan, records: Sequence[Record]) -> list[RateCurve]:
    """What a plan's grid says of rates, runs that were added to it included."""
    runs = [one for one in records if one.experiment == plan.experiment and _chooses(plan, one)]
    return rate_curves(runs, lower_is_better=plan.lower_is_better)


def _chooses(plan: Plan, record: Record) -> bool:
    """Whether a run may say which rate is best: no seed that is compared does, unless the plan says so."""
    return record.phase == "grid" and (record.seed not in plan.seeds or record.seed in plan.grid_seeds)


def is_off_budget(record: Record) -> bool:
    """Whether a run saw other tokens than its budget; one that diverged ended where it did."""
    return record.value is not None and is_off(record.tokens, record.budget)


def is_off(tokens: int, budget: int) -> bool:
    return abs(tokens - budget) > SLACK * budget


def is_larger(parameters: int, rival: int) -> bool:
    """By more than what is left when a feed-forward is fitted: then size, and not the arm, may be what is seen."""
    return parameters > (1 + SLACK) * rival


def unlike(records: Sequence[Record], arm: str, against: str, budgets: Sequence[int]) -> list[str]:
    """Pairs of two arms whose runs were made on different machines, by different code or on different data."""
    found = []
    for budget in budgets:
        ours, theirs = end_runs(records, arm, budget), end_runs(records, against, budget)
        for seed in sorted(ours.keys() & theirs.keys()):
            here, there = ours[seed].environment, theirs[seed].environment
            pair = f"{arm} / {against} seed {seed} at {budget:,} tokens"
            found += [f"{pair}: {difference}" for difference in made_otherwise(here, there)]
    return found


def made_otherwise(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """In what two environments differ that paired runs must share."""
    # Of runs that say what their code was, the commit says nothing more: others may have changed no code.
    told = here.get("code") is not None and there.get("code") is not None
    names = [name for name in SAME_FOR_PAIRS if not (told and name == "commit")]
    return [f"{name} {here.get(name)} / {there.get(name)}" for name in names if here.get(name) != there.get(name)]


def counted(plan: Plan, records: Sequence[Record]) -> list[Record]:
    """The records that the plan asked for, and a grid that was widened: what comparisons are made of.

    Seeds that were added, and final runs with another rate than the best of the grid, are left out.
    """
    ours = [record for record in records if record.experiment == plan.experiment and record.metric == plan.metric]
    curves = grid_of(plan, ours)
    return [
        one
        for one in ours
        if _chooses(plan, one)
        or (
            one.phase == "final"
            and one.arm in plan.arms
            and one.seed in plan.seeds
            and one.budget in plan.budgets
            and rate_for(curves, one.arm, one.budget) in (None, one.lr)
        )
    ]


def _wrong_rates(records: Sequence[Record], best: Mapping[tuple[str, int], float | None]) -> list[str]:
    wrong = (
        f"{one.arm} seed {one.seed} at {one.budget:,} tokens with {one.lr:g} for {best[one.arm, one.budget]:g}"
        for one in records
        if one.phase == "final" and best.get((one.arm, one.budget)) not in (None, one.lr)
    )
    return _listed("final runs have another learning rate than the best of the grid", wrong)


def _silent(records: Sequence[Record]) -> list[str]:
    """Runs that leave out when they began, by which code, or on what. A commit may be null: outside a repository."""
    lacks = {
        one.key: [name for name in TOLD if name not in one.environment or (name == "date" and _began(one) is None)]
        for one in records
    }
    return _listed(
        f"runs do not say their {', '.join(TOLD[:-1])} or {TOLD[-1]}",
        (f"{_run(key)} lacks {', '.join(names)}" for key, names in lacks.items() if names),
    )


def versions_of_own_arms(records: Sequence[Record]) -> list[str]:
    """Hashes of user-defined arms, where runs have several."""
    found = sorted({str(one.environment.get("own_arms")) for one in records})
    return found if len(found) > 1 else []


def began_early(records: Sequence[Record], registered: datetime | None) -> list[str]:
    """Runs that began before a plan was registered, by the date in their environment."""
    return [
        f"{_run(one.key)} began {began:%Y-%m-%d %H:%M}"
        for one in records
        if registered is not None and (began := _began(one)) is not None and began < registered
    ]


def undated(records: Sequence[Record], registered: datetime | None) -> list[str]:
    """Runs of which nobody can tell whether they began before a plan was registered."""
    return [_run(one.key) for one in records if registered is not None and _began(one) is None]


def _began(record: Record) -> datetime | None:
    date = record.environment.get("date")
    try:
        began = datetime.fromisoformat(date) if isinstance(date, str) else None
    except ValueError:
        began = None
    if began is None:
        return None
    return began if began.tzinfo else began.replace(tzinfo=UTC)


def _unlike(plan: Plan, records: Sequence[Record]) -> list[str]:
    found = (line for arm, against in plan.primary for line in unlike(records, arm, against, plan.budgets))
    return _listed("differences in how primary pairs were made", found)


def _listed(what: str, ones: Iterable[str]) -> list[str]:
    found = list(ones)
    if not found:
        return []
    return [f"{len(found)} {what}: {listed(found)}"]


def listed(ones: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(ones) - NAMED} more" if len(ones) > NAMED else ""
    return f"{'; '.join(ones[:NAMED])}{more}"


def _run(key: Key) -> str:
    rate = "" if key.lr == NO_RATE else f" lr {key.lr:g}"
    return f"{key.phase} {key.arm} seed {key.seed}{rate} at {key.budget:,} tokens"


def _hash(plan: Mapping[str, Any]) -> str:
    """Of the plan as JSON in one form: sorted, no spaces."""
    told = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(told.encode()).hexdigest()
