"""`twofold compare`: the fair experiment. Paired runs of several arms, and a report that says what may be said."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twofold.cli.arguments import parse
from twofold.tasks import TASKS

USAGE = """usage: twofold compare TASK [--arms NAME ...] [--seeds N] [--lrs RATE ...] [--tokens N ...] [--out DIR] ...
       twofold compare --register plan.toml --out DIR

Train several arms on one task with the same seeds, data and first weights, and say which did better, and how sure
that is. Learning rates are chosen by a grid. Called again, it goes on where it was.

tasks: {tasks}
arms:  {arms}
       NAME:raw keeps an arm's feed-forward as wide as the standard one's, instead of equal parameters.

`twofold compare TASK --help` explains the options. For example:

  twofold compare goals                                          standard against split_kv, three seeds
  twofold compare lm --arms standard split_kv gated --seeds 5 --options layers=4 width=256
  twofold compare --register plan.toml --out lab/one             fix a plan before its runs,
  twofold compare lm --out lab/one --data my/texts               then run it"""

# Those of twofold.lab.arms, which imports torch.
NAMES = [
    "standard",
    "wide",
    "tied",
    "split_key",
    "split_value",
    "split_kv",
    "split_kv_patent",
    "split_kv_aligned",
    "split_kv_independent",
    "self_bias",
    "masked_diagonal",
    "exclusive",
    "gated",
    "low_rank_8",
    "low_rank_32",
    "linear_path",
]


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Compare arms on a task. Ctrl-C ends it; called again, it goes on. What is in the folder's plan is not asked."""

    arms: tuple[str, ...] = ("standard", "split_kv")
    """Which; the first is what all others are compared with."""
    seeds: int = 3
    """Pairs of runs. Below 8 no p is printed."""
    lrs: tuple[float, ...] = ()
    """The grid of learning rates; half, once and twice the task's own unless given."""
    tokens: tuple[int, ...] = ()
    """Budgets, each with runs and a schedule of its own; what the task's own epochs come to unless given."""
    metric: str | None = None
    """What is compared, on the dev split; the task's own unless given."""
    options: tuple[str, ...] = ()
    """Of model and training, for all arms alike, as NAME=VALUE: those of `twofold train TASK`, besides looks=N looks at
    the dev split in a run, and test=true to read the test split at the end of runs that are compared. Dropout is 0."""
    data: Path | None = None
    """Files to learn from (docs/data.md); the embedded set unless given."""
    out: Path = Path("lab")
    """The comparison's folder."""
    register: Path | None = None
    """A plan.toml to fix in the folder, before the first run."""
    at_once: int = 1
    """Runs at the same time, each in a process of its own; several GPUs are shared out."""
    json: bool = False
    """Print JSON, and no progress."""


def run(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        arms = "\n       ".join(" ".join(NAMES[start : start + 8]) for start in range(0, len(NAMES), 8))
        sys.stdout.write(USAGE.format(tasks=" ".join(TASKS), arms=arms) + "\n")
        return 0 if words else 2
    task = None if words[0].startswith("-") else words[0]
    if task is not None and task not in TASKS:
        raise ValueError(f"unknown task {task!r}; there are: {', '.join(TASKS)}")
    try:
        chosen = parse(Compare, words[0 if task is None else 1 :], f"twofold compare {task or ''}".strip())
    except SystemExit:  # --help
        return 0
    if chosen.register is not None:
        return _register(chosen)
    if task is None:
        raise ValueError("say which task to compare on, or name a plan with --register (see twofold compare --help)")
    if chosen.at_once < 1:
        raise ValueError(f"at_once must be at least 1, got {chosen.at_once}")
    return _compare(task, chosen, list(words))


def _register(chosen: Compare) -> int:
    from twofold.lab.options import arm_of, options_of
    from twofold.lab.plan import read_plan
    from twofold.lab.registration import register

    plan = read_plan(chosen.register)  # type: ignore[arg-type]
    if plan.task not in TASKS:
        raise ValueError(f"{chosen.register}: task must be one of {', '.join(TASKS)}, got {plan.task!r}")
    try:
        options_of(plan)
        for name in plan.arms:
            arm_of(name)
    except ValueError as error:
        raise ValueError(f"{chosen.register}: {error}") from error
    fixed, finals = register(plan, chosen.out), len(plan.arms) * len(plan.seeds) * len(plan.budgets)
    if chosen.json:
        sys.stdout.write(json.dumps({"registered": fixed.registered.isoformat(), "sha256": fixed.sha256}) + "\n")
        return 0
    sys.stdout.write(
        f"{chosen.out}/registration.json: registered {fixed.registered:%Y-%m-%d %H:%M} UTC, sha256 {fixed.sha256}\n"
        f"  {len(plan.grid())} runs of the grid, then {finals} to compare\n"
        f"Next: twofold compare {plan.task} --out {chosen.out}\n"
    )
    return 0


def _compare(task: str, chosen: Compare, words: list[str]) -> int:
    from twofold.lab.compare import work
    from twofold.lab.registration import FILE, read_registration, register
    from twofold.lab.trial import Laboratory
    from twofold.report.lab.page import write_report
    from twofold.report.lab.study import read_study
    from twofold.training import Stopped

    is_fixed = (chosen.out / FILE).exists()
    plan = read_registration(chosen.out).plan if is_fixed else None
    if plan is not None and plan.task != task:
        raise ValueError(f"{chosen.out} has a comparison on {plan.task}, not on {task}")
    if plan is None or _says_what(words):
        asked = _plan(task, chosen)
        if plan is not None and asked != plan:
            raise ValueError(f"{chosen.out} has a plan of its own: leave out what it says, or choose another folder")
        plan = asked
    lab = Laboratory(plan, chosen.data, chosen.at_once)
    register(plan, chosen.out)
    watcher = _Quiet() if chosen.json else _Lines(plan)
    others = [_another(words, number) for number in range(1, chosen.at_once)]
    try:
        records = work(lab, chosen.out, watcher)
    except Stopped as stop:
        sys.stderr.write(
            f"twofold: stopped; what is finished is kept (twofold compare {task} --out {chosen.out} goes on)\n"
        )
        return stop.exit_code
    finally:
        for other in others:
            if other.poll() is None:
                other.terminate()
            other.wait()
    written = write_report(chosen.out)
    study = read_study(chosen.out)
    if chosen.json:
        told = {"out": str(chosen.out), "runs": len(records), "verdicts": [one.sentence for one in study.headlines]}
        sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
        return 0
    for verdict in study.headlines:
        sys.stdout.write(f"{verdict.sentence}\n")
    sys.stdout.write(f"{written[0]}: {len(records)} runs\n")
    return 0


def _says_what(words: Sequence[str]) -> bool:
    """Whether the command says what to compare, rather than only where."""
    names = ("--arms", "--seeds", "--lrs", "--tokens", "--metric", "--options")
    return any(word.partition("=")[0] in names for word in words)


def _plan(task: str, chosen: Compare) -> Any:
    """What the words of the command come to: a look around, because nobody can tell when it was planned."""
    from twofold.lab.plan import Plan
    from twofold.tasks.runs import task_class
    from twofold.training.settings import Settings

    size = dict(_option(word) for word in chosen.options)
    kind = task_class(task)
    usual = Settings(**kind.settings(str(size.get("size", "tiny"))))
    metric = chosen.metric or kind.metric
    return Plan(
        experiment=chosen.out.name or "compare",
        question=f"Which of {', '.join(chosen.arms)} does better on {task}?",
        hypothesis="none: a look around",
        task=task,
        data="the embedded set" if chosen.data is None else chosen.data.name,
        metric=metric,
        lower_is_better=metric in LOWER,
        arms=chosen.arms,
        baseline=chosen.arms[0] if chosen.arms else "",
        primary=(),
        seeds=tuple(range(chosen.seeds)),
        lrs=chosen.lrs or tuple(round(usual.learning_rate * share, 10) for share in (0.5, 1.0, 2.0)),
        budgets=chosen.tokens or (_usual_tokens(task, chosen, usual, size),),
        analysis="paired differences over seeds",
        stop_rule="when all runs are done",
        exploratory=True,
        size=size,
    )


# Scores of our tasks of which less is better.
LOWER = ("perplexity", "nats_per_token", "nats_per_character", "bits_per_character", "calibration_error")


def _usual_tokens(task: str, chosen: Compare, usual: Any, size: dict[str, Any]) -> int:
    """What the task's own number of epochs comes to."""
    from twofold.lab.options import choices_of
    from twofold.tasks.runs import chosen as choices_for
    from twofold.tasks.runs import examples_of, task_class

    kind = task_class(task)
    given = choices_for(kind, choices_of(kind, size))
    train = examples_of(kind, chosen.data, given.get("choices")).train
    made = kind.prepared(train, **given)
    return max(1, round(usual.epochs * sum(map(made.tokens_of, made.rows(train)))))


def _option(word: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise ValueError(f"options must be NAME=VALUE, got {word!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _another(words: Sequence[str], number: int) -> subprocess.Popen[bytes]:
    """The same command in another process, on the next GPU where there are several: it takes what is left to do."""
    import torch

    told = [*_without(words, "--at-once"), "--json"]
    environment = dict(os.environ)
    if (count := torch.cuda.device_count()) > 1:
        environment["CUDA_VISIBLE_DEVICES"] = str(number % count)
    command = [sys.executable, "-m", "twofold", "compare", *told]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)  # noqa: S603


def _without(words: Sequence[str], name: str) -> list[str]:
    kept, skip = [], False
    for word in words:
        if not skip and word != name and not word.startswith(f"{name}="):
            kept.append(word)
        skip = word == name
    return kept


class _Quiet:
    def begins(self, key: Any, left: int) -> None: ...

    def ended(self, record: Any, left: int) -> None: ...

    def note(self, text: str) -> None: ...


@dataclass
class _Lines:
    """A line for every run, with the time that the rest of its phase takes if it goes on like this."""

    plan: Any
    began: float = field(default_factory=time.monotonic)
    done: int = 0

    def begins(self, key: Any, left: int) -> None:
        told = f"{key.phase} {key.arm}, rate {key.lr:g}, seed {key.seed}, {key.budget:,} tokens"
        self._say(f"{told} ({left} to go)")

    def ended(self, record: Any, left: int) -> None:
        self.done += 1
        value = "diverged" if record.value is None else f"{record.value:.4f}"
        rest = (time.monotonic() - self.began) / self.done * left
        self._say(f"  {record.metric} {value}; about {_span(rest)} left of the {record.phase} runs")

    def note(self, text: str) -> None:
        self._say(text)

    def _say(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
