"""`twofold compare`: the fair experiment. Paired runs of several arms, and a report that says what may be said."""

import os
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, get_args, get_type_hints

import tyro

from twofold.cli import say, say_json, warn
from twofold.cli.arguments import parse, value_of, with_choices
from twofold.cli.claims import claims_of
from twofold.cli.pooled_effect import pool
from twofold.cli.processes import Beside, parted
from twofold.lab.arm_table import TABLE
from twofold.lab.run_options import RunOptions
from twofold.tasks import TASKS
from twofold.tasks.options import ModelOptions
from twofold.training.settings import Settings
from twofold_runtime.checked import shown

USAGE = """usage: twofold compare TASK [--arms NAME ...] [--seeds N] [--lrs RATE ...] ...
       twofold compare --register plan.toml --out DIR
       twofold compare --report DIR
       twofold compare --pool DIR DIR ...
       twofold compare --claims DIR DIR ...

Train several arms on one task with the same seeds, data and first weights, and
say which did better, and how sure that is. Learning rates are chosen by a grid.
Called again, it goes on where it was.

tasks: {tasks}
arms:  {arms}
       NAME:raw keeps the feed-forward's width, instead of equal parameters.

`twofold compare TASK --help` explains the options. For example:

  twofold compare goals                                 standard and split_kv
  twofold compare lm --arms standard gated --layers 4 --width 256
  twofold compare --register plan.toml --out lab/one    fix a plan beforehand,
  twofold compare lm --out lab/one --data my/texts      then run it
  twofold compare --report lab/one                      what its runs say so far
  twofold compare --pool lab/one lab/two                what several say"""

# Options that say where, and not what to compare.
WHERE = ("--out", "--data", "--at-once", "--json", "--no-json", "--arms-from")
# Options of training that a comparison has a name of its own for.
INSTEAD = {"learning_rate": "--lrs", "seed": "--seeds", "steps": "--tokens", "attention": "--arms", "init": "--arms"}
# More are almost certainly a typo.
MOST_AT_ONCE, MOST_SEEDS = 256, 10_000
SIZES = get_args(get_type_hints(ModelOptions)["size"])


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Compare arms on a task. Ctrl-C ends it; called again, it goes on. A folder that has a plan follows that."""

    arms: tuple[str, ...] = ("standard", "split_kv")
    """Which; the first is what all others are compared with."""
    arms_from: Path | None = None
    """A Python file with arms of your own, which is run (docs/arms.md)."""
    seeds: int = 3
    """Pairs of runs. Below 8 no p is printed."""
    lrs: tuple[float, ...] = ()
    """The grid of learning rates; half, once and twice the task's own unless given."""
    tokens: tuple[int, ...] = ()
    """Budgets, each with runs and a schedule of its own; what --epochs come to unless given."""
    metric: str | None = None
    """What is compared, on the dev split; the task's own unless given."""
    data: Path | None = None
    """Files to learn from (docs/data.md); the embedded set unless given."""
    out: Path = Path("lab")
    """The comparison's folder."""
    register: Path | None = None
    """A plan.toml to fix in the folder, before the first run."""
    report: Path | None = None
    """A comparison's folder: write its report of the runs that are there, and start none."""
    pool: tuple[Path, ...] | None = None
    """Folders of comparisons of the same two arms: the mean of their effects, in standard deviations (docs/lab.md)."""
    claims: tuple[Path, ...] | None = None
    """Folders of comparisons: p of all their claims, adjusted for being so many (docs/lab.md)."""
    at_once: int = 1
    """Runs at the same time, each in a process of its own; several GPUs are shared out."""
    json: bool = False
    """Print JSON, and no progress."""
    runs: Annotated[RunOptions, tyro.conf.OmitArgPrefixes] = field(default_factory=RunOptions)
    model: Annotated[ModelOptions, tyro.conf.OmitArgPrefixes] = field(default_factory=ModelOptions)
    settings: Annotated[Settings, tyro.conf.OmitArgPrefixes] = field(default_factory=Settings)


def run(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        tasks, arms = ("\n       ".join(wrap(" ".join(names), 72)) for names in (TASKS, TABLE))
        say(USAGE.format(tasks=tasks, arms=arms))
        return 0 if words else 2
    parent, words = parted(words)
    task = None if words[0].startswith("-") else words[0]
    if task is not None and task not in TASKS:
        raise ValueError(f"unknown task {shown(task)}; there are: {', '.join(TASKS)}")
    usual = usual_options(task, words)
    chosen = parse(type(usual), words[0 if task is None else 1 :], f"twofold compare {task or ''}".strip(), usual)
    if chosen.pool is not None:
        _check_alone("--pool", words)
        return pool(chosen.pool, as_json=chosen.json)
    if chosen.claims is not None:
        _check_alone("--claims", words)
        return claims_of(chosen.claims, as_json=chosen.json)
    if chosen.report is not None:
        _check_alone("--report", words)
        return _told(chosen.report, as_json=chosen.json)
    loaded = _loaded(chosen.arms_from)
    if chosen.out.exists() and not chosen.out.is_dir():
        raise ValueError(f"{chosen.out} must be a folder, and is a file")
    if chosen.data is not None and chosen.out.resolve().is_relative_to(chosen.data.resolve()):
        raise ValueError(f"{chosen.out} must not lie in {chosen.data}: the data would not stay what they are")
    if chosen.register is not None:
        return _register(task, chosen, words)
    if task is None:
        raise ValueError("say which task to compare on, or name a plan with --register (see twofold compare --help)")
    for name, most in (("at_once", MOST_AT_ONCE), ("seeds", MOST_SEEDS)):
        if not 1 <= getattr(chosen, name) <= most:
            raise ValueError(f"{name} must be from 1 to {most}, got {getattr(chosen, name)}")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("processes of a comparison share its folder and nothing else: start them without torchrun")
    return _compare(task, chosen, usual, words, loaded, parent)


def usual_options(task: str | None, words: Sequence[str]) -> Compare:
    """What holds where nothing is said: the task's own settings, without dropout, which hides what arms differ in."""
    if task is None:
        return Compare()
    from twofold.tasks.registry import task_class

    kind, size = task_class(task), value_of(words, "--size")
    model = ModelOptions(size=size if size in SIZES else "tiny", dropout=0.0)  # type: ignore[arg-type]
    return with_choices(Compare, kind.Choices)(model=model, settings=Settings(**kind.settings(model.size)))


def _loaded(file: Path | None) -> list[str]:
    if file is None:
        return []
    from twofold.lab.arms_from_file import load_arms

    return load_arms(file)


def _register(task: str | None, chosen: Compare, words: Sequence[str]) -> int:
    from twofold.lab.arms import arm_named
    from twofold.lab.options import check_metric, options_of
    from twofold.lab.plan import read_plan
    from twofold.lab.registration import register

    if said := _said(words):
        raise ValueError(f"a plan says all that is compared: leave out {', '.join(said)}, or --register")
    plan = read_plan(chosen.register)  # type: ignore[arg-type]
    if plan.task not in TASKS:
        raise ValueError(f"{chosen.register}: task must be one of {', '.join(TASKS)}, got {plan.task!r}")
    if task not in (None, plan.task):
        raise ValueError(f"{chosen.register} is a plan for {plan.task}, not for {task}")
    try:
        options_of(plan.task, plan.size)
        check_metric(plan.task, plan.metric, plan.lower_is_better)
        for name in plan.arms:
            arm_named(name)
    except ValueError as error:
        raise ValueError(f"{chosen.register}: {error}") from error
    _check_free(chosen.out)
    fixed, finals = register(plan, chosen.out), len(plan.arms) * len(plan.seeds) * len(plan.budgets)
    if chosen.json:
        say_json({"registered": fixed.registered.isoformat(), "sha256": fixed.sha256})
        return 0
    say(
        f"{chosen.out}/registration.json: registered {fixed.registered:%Y-%m-%d %H:%M} UTC, sha256 {fixed.sha256}\n"
        f"  {len(plan.grid())} runs of the grid, then {finals} to compare\n"
        f"Next: {_again(plan.task, chosen)}"
    )
    return 0


def _check_free(out: Path) -> None:
    """Refuse a folder whose report is no comparison's: it would be written over."""
    from twofold.lab.registration import FILE
    from twofold.report.lab.page import REPORTS

    if not (out / FILE).exists() and (foreign := [name for name in REPORTS if (out / name).exists()]):
        raise ValueError(f"{out / foreign[0]} is there and of no comparison: choose another folder with --out")


def _compare(
    task: str, chosen: Compare, usual: Compare, words: list[str], loaded: Collection[str], parent: int | None
) -> int:
    import torch

    from twofold.lab.records import FILE as RECORDS
    from twofold.lab.records import read_records
    from twofold.lab.registration import FILE, another_way, read_registration, register
    from twofold.lab.runner import check_same, work
    from twofold.lab.trial import Laboratory
    from twofold.tasks.registry import cut_note
    from twofold.training import Bar, Stopped
    from twofold.training.progress import Progress

    _check_free(chosen.out)
    is_fixed = (chosen.out / FILE).exists()
    plan = read_registration(chosen.out).plan if is_fixed else None
    if plan is not None and plan.task != task:
        raise ValueError(f"{chosen.out} has a comparison on {plan.task}, not on {task}")
    prepared = None
    if plan is None or _said(words):
        asked, prepared = _plan(task, chosen, usual)
        wider = asked if plan is None else plan.widened_like(asked)
        if wider is None:
            raise ValueError(
                f"{chosen.out} has a plan of its own: leave out what it says, or {another_way(chosen.out)}"
            )
        plan = wider
    if chosen.at_once > 1 and (own := _unknown_elsewhere(plan.arms, loaded)):
        raise ValueError(
            f"--at-once starts processes that do not know the arm {own[0]!r}: name its file with --arms-from"
        )
    # More threads than cores would wait for each other.
    torch.set_num_threads(max(1, torch.get_num_threads() // chosen.at_once))
    done = read_records(chosen.out / RECORDS)
    runs = len(plan.grid()) + len(plan.arms) * len(plan.seeds) * len(plan.budgets) - len(done)
    progress = Progress() if parent or chosen.json else Bar("compare", unit="tokens")
    beside = Beside(words, 0 if parent else max(0, min(chosen.at_once, runs) - 1))
    try:
        # What has begun was found in order then, so that the others need not wait until it is looked through again.
        if done:
            beside.start()
        lab = Laboratory(plan, chosen.data, chosen.at_once, prepared)
        register(plan, chosen.out)
        check_same(lab, done, chosen.out)
        beside.start()
        if lab.splits.cut and not parent:
            warn(f"twofold: {cut_note(lab.splits)}")
        work(lab, chosen.out, progress, lambda key: _check_parent(parent) if parent else beside.tell())
    except Stopped as stop:
        if not parent:
            warn(f"twofold: stopped; what is finished is kept ({_again(task, chosen)} goes on)")
        return stop.exit_code
    finally:
        progress.finished()
        beside.tell()
        beside.end()
    return 0 if parent else _told(chosen.out, as_json=chosen.json)


def _check_parent(parent: int) -> None:
    """Begin nothing once the process that started this one is gone."""
    if os.getppid() != parent:
        raise SystemExit(1)


def _unknown_elsewhere(arms: Sequence[str], loaded: Collection[str]) -> list[str]:
    """Arms that a script made known in this process alone."""
    from twofold.lab.arms import arm_named
    from twofold.lab.arms_from_file import is_own

    return [arm.name for arm, _ in map(arm_named, arms) if is_own(arm) and arm.name not in loaded]


def _told(folder: Path, *, as_json: bool) -> int:
    """Write the report, and say its first sentence and what departs from the plan."""
    from twofold.report.lab.page import write_report
    from twofold.report.lab.study import read_study

    study = read_study(folder)
    written = write_report(folder, study)
    if as_json:
        told = {"out": str(folder), "runs": study.runs, "verdicts": [one.sentence for one in study.headlines]}
        told["departures"] = study.departures
        say_json(told)
        return 0
    for verdict in study.told_first:
        say(verdict.sentence)
    # A look around was planned by nobody.
    what = "note" if study.plan.exploratory else "not as planned"
    for departure in study.departures:
        say(f"  {what}: {departure}")
    say(f"{written[0]}: {study.runs} {'run' if study.runs == 1 else 'runs'}")
    return 0


def _again(task: str, chosen: Compare) -> str:
    """The command that goes on with the folder's plan."""
    own = [] if chosen.arms_from is None else ["--arms-from", str(chosen.arms_from)]
    data = [] if chosen.data is None else ["--data", str(chosen.data)]
    at_once = [] if chosen.at_once == 1 else ["--at-once", str(chosen.at_once)]
    return shlex.join(["twofold", "compare", task, "--out", str(chosen.out), *own, *data, *at_once])


def _check_alone(name: str, words: Sequence[str]) -> None:
    """Of what is there already, nothing else can be asked."""
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    others = [*(words[:1] if words[0] in TASKS else []), *(set(options) - {name, "--json", "--no-json"})]
    if others:
        raise ValueError(f"{name} takes runs that are there: leave out {', '.join(sorted(others))}")


def _said(words: Sequence[str]) -> list[str]:
    """The options in a command that say what to compare, rather than only where."""
    names = [word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--")]
    return [name for name in names if name not in (*WHERE, "--register")]


def _plan(task: str, chosen: Compare, usual: Compare) -> tuple[Any, Any]:
    """What the words of the command come to, a look around, because nobody can tell when it was planned; and the data
    where they had to be read for that."""
    from twofold.lab.options import options_of
    from twofold.lab.plan import Plan
    from twofold.lab.trial import prepare
    from twofold.tasks.registry import task_class

    size = _size(chosen, usual)
    options, kind, prepared = options_of(task, size), task_class(task), None
    budgets, metric = chosen.tokens, chosen.metric or kind.metric
    if not budgets:
        prepared = prepare(task, options, chosen.data)
        budgets = (max(1, round(chosen.settings.epochs * prepared.tokens)),)
    plan = Plan(
        experiment=_word(chosen.out) or "compare",
        question=f"Which of {', '.join(chosen.arms)} does better on {task}?",
        hypothesis="none: a look around",
        task=task,
        data="the embedded set" if chosen.data is None else _word(chosen.data),
        metric=metric,
        lower_is_better=metric in kind.lower,
        arms=chosen.arms,
        baseline=chosen.arms[0] if chosen.arms else "",
        primary=(),
        seeds=tuple(range(chosen.seeds)),
        lrs=chosen.lrs or tuple(round(options.settings.learning_rate * share, 10) for share in (0.5, 1.0, 2.0)),
        budgets=budgets,
        analysis="paired differences over seeds",
        stop_rule="when all runs are done",
        exploratory=True,
        size=size,
    )
    return plan, prepared


def _size(chosen: Any, usual: Any) -> dict[str, Any]:
    """The plan's `size`: what of the options is not as usual. Raises for one that the comparison sets itself."""
    from twofold.lab.options import SET_BY_PLAN, Options

    asked, default = (
        Options(model=one.model, settings=one.settings, choices=getattr(one, "choices", None), runs=one.runs)
        for one in (chosen, usual)
    )
    # A size is named even though the options follow from it.
    size = asked.departures(replace(default, model=replace(default.model, size="tiny")))
    # How long runs are is among the budgets.
    size.pop("epochs", None)
    if wrong := [name for name in size if name in SET_BY_PLAN]:
        advice = f"use {INSTEAD[wrong[0]]}" if wrong[0] in INSTEAD else "leave it out"
        raise ValueError(f"{wrong[0]} is set by the comparison itself, got {size[wrong[0]]}: {advice}")
    return size


def _word(path: Path) -> str:
    """A file's name, whatever bytes it has."""
    return os.fsencode(path.name).decode(errors="replace")
