"""All runs of a plan, one after the other: the grid first, then, at the rates it chose, those that are compared.

Any number of processes may work on one folder at once, on one machine or on several that share it. A run is claimed by
a lock, which is gone with its process however that ends; what is finished is a line of records.jsonl. So a comparison
that was stopped, or killed, goes on when it is called again, and loses at most the run in progress.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twofold.disk import taken
from twofold.lab.learning_rates import curve_for, rate_for
from twofold.lab.plan import Plan
from twofold.lab.records import FILE as RECORDS
from twofold.lab.records import Key, Record, RecordFile, append
from twofold.lab.registration import counted, grid_of, made_otherwise
from twofold.lab.stages import current_stage
from twofold.lab.trial import Laboratory
from twofold.training.progress import Progress
from twofold.training.stopping import Stopped, listening

# Where runs are trained and claimed, inside the comparison's folder.
RUNS, CLAIMS = ".runs", ".claims"
# Between two looks at whether others have finished.
WAIT = 1.0


Note = Callable[[str], None]


def work(
    lab: Laboratory, folder: Path, progress: Progress, before_each: Callable[[Key], None] = lambda key: None
) -> list[Record]:
    """Do runs of the plan until all are done, by this process or another. Returns all records.

    `progress` is told how many tokens of all runs are done, and of every run; `before_each` is called before it begins.
    Raises Stopped after Ctrl-C or SIGTERM; the run that it came in is lost, unless it was at its end.
    """
    told: set[str] = set()

    def note(text: str) -> None:
        if text not in told:
            told.add(text)
            progress.note(text)

    file = RecordFile(folder / RECORDS)
    with listening() as request:
        while True:
            if request.signal:
                raise Stopped(request.signal, f"{folder}; what is finished is kept")
            records = file.read(note)
            check_same(lab, records, folder)
            left = remaining(lab.plan, records, note)
            if not left:
                return records
            if not _did_one(lab, folder, file, left, progress, before_each):
                time.sleep(WAIT)


def _did_one(
    lab: Laboratory,
    folder: Path,
    file: RecordFile,
    left: Sequence[Key],
    progress: Progress,
    before_each: Callable[[Key], None],
) -> bool:
    """Do the first of these runs that is for this process to do; False where others are at them.

    Raises where nobody is, and none of them would pair with what was made already.
    """
    refused, others_work = [], False
    for key in left:
        with _claimed(folder, key, lab) as is_mine:
            # Somebody may have finished it since the records were read, or begun with other data.
            newest = file.read() if is_mine else []
            check_same(lab, newest, folder)
            if not is_mine or key in {record.key for record in newest}:
                others_work = True
                continue
            if why := _unlike_its_pair(lab, folder, key, left, newest):
                refused.append(f"{key.arm} seed {key.seed} ({', '.join(why)}, now / then)")
                continue
            before_each(key)
            progress.started(*_tokens(lab.plan, left))
            run = f"{key.phase} {key.arm}, rate {key.lr:g}, seed {key.seed}, {key.budget:,} tokens"
            progress.note(f"{run} ({len(left)} of the {key.phase} to go)")
            record = lab.run(key, folder / RUNS / _name(key))
            append(folder / RECORDS, record)
            value = "diverged" if record.value is None else f"{record.value:.4f}"
            progress.note(f"  {record.metric} {value}")
            return True
    if refused and not others_work:
        raise ValueError(
            f"{folder}: the runs that are left pair with some that were made otherwise, and could not be judged: "
            f"{refused[0]}; go on as those were made"
        )
    return False


def _tokens(plan: Plan, left: Sequence[Key]) -> tuple[int, int]:
    """Of all runs, and of those that are done; while the grid is made, what is compared is all to come."""
    compared = sum(plan.budgets) * len(plan.seeds) * len(plan.arms)
    total = sum(key.budget for key in plan.grid()) + compared
    rest = sum(key.budget for key in left) + (compared if left[0].phase == "grid" else 0)
    return total, total - rest


def _unlike_its_pair(
    lab: Laboratory, folder: Path, key: Key, left: Sequence[Key], records: Sequence[Record]
) -> list[str]:
    """In what this process differs from those that did, or are doing, other runs of a pair that claims something."""
    beside = _beside(lab.plan, key)
    made = [one.environment for one in counted(lab.plan, records) if _is_of(one.key, key, beside)]
    # Whoever is at a run of the pair has written into its claim what it is made by.
    claims = [folder / CLAIMS / f"{_name(one)}.lock" for one in left if one != key and _is_of(one, key, beside)]
    made += [_claimant(path) for path in claims if _is_held(path)]
    return next((why for one in made if (why := made_otherwise(lab.environment(), one))), [])


def _beside(plan: Plan, key: Key) -> set[str]:
    """Arms that a run is compared with, directly or by way of another, where something is claimed of them."""
    found = {key.arm} if key.phase == "final" and not plan.exploratory else set()
    for _ in plan.primary:
        found |= {arm for pair in plan.primary if found & set(pair) for arm in pair}
    return found - {key.arm}


def _is_of(one: Key, key: Key, beside: set[str]) -> bool:
    return one.arm in beside and (one.phase, one.seed, one.budget) == (key.phase, key.seed, key.budget)


def _claimant(path: Path) -> dict[str, Any]:
    """What a claim says of its holder; nothing while that is being written."""
    try:
        return json.loads(path.read_text())
    except ValueError:
        return {}


def _is_held(path: Path) -> bool:
    if not path.exists():
        return False
    if (handle := taken(path, wait=False)) is None:
        return True
    os.close(handle)
    return False


def check_same(lab: Laboratory, records: Sequence[Record], folder: Path) -> None:
    """Raises where runs were trained on other data, or by other versions of user-defined arms, than this process has:
    nothing could be said of both together."""
    for record in records:
        if (found := record.environment.get("data")) != lab.data:
            told = found or "they do not say which"
            raise ValueError(f"{folder} has runs on other data ({told}), got {lab.data}: give data as it was")
        if (made := record.environment.get("own_arms")) != lab.own_arms:
            raise ValueError(
                f"{folder} has runs of another version of your own arms ({made}), got {lab.own_arms}: "
                "give their file as it was, or choose another folder"
            )


def remaining(plan: Plan, records: Sequence[Record], note: Note = lambda text: None) -> list[Key]:
    """Runs that are to be done now: what the grid lacks or, once it is whole, what is to be compared."""
    done = {record.key for record in records}
    if grid := [key for key in plan.grid() if key not in done]:
        return grid
    curves = grid_of(plan, records)
    rates = {}
    for arm in plan.arms:
        for budget in plan.budgets:
            rate = rate_for(curves, arm, budget)
            if rate is None:
                note(f"{arm} diverged at every rate of the grid and is not compared at {budget:,} tokens")
            else:
                rates[arm, budget] = rate
    claimed = {arm for pair in plan.primary for arm in pair} if not plan.exploratory else set()
    for arm in plan.arms:
        curve = curve_for(curves, arm, plan.end) if arm in claimed else None
        if curve is not None and curve.best is not None and not curve.is_interior:
            note(
                f"the best rate of {arm}, {curve.best:g}, is at the edge of the grid, or level with it: "
                "no comparison with it will be judged"
            )
    for stage in range(plan.last_stage + 1):
        staged = plan.at_stage(stage)
        if left := [key for key in staged.finals(rates) if key not in done]:
            return left
        if current_stage(plan, records) == staged:
            return []
    return []


@contextmanager
def _claimed(folder: Path, key: Key, lab: Laboratory) -> Generator[bool]:
    """Whether this process alone has the run now. The claim says what it would be made by, for others of its pair."""
    (folder / CLAIMS).mkdir(parents=True, exist_ok=True)
    handle = taken(folder / CLAIMS / f"{_name(key)}.lock", wait=False)
    try:
        if handle is not None:
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(lab.environment()).encode(), 0)
        yield handle is not None
    finally:
        if handle is not None:
            os.close(handle)


def _name(key: Key) -> str:
    """A file's name: readable, and another for every run."""
    digest = hashlib.sha256(repr(tuple(key)).encode(errors="surrogateescape")).hexdigest()[:16]
    return f"{key.phase}-{re.sub('[^a-z0-9_]', '-', key.arm)[:40]}-{key.seed}-{digest}"
