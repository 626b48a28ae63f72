"""`twofold train`: a task's model, from data to a run folder."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import tyro

from twofold.cli import say, say_json, warn
from twofold.cli.arguments import parse, value_of, with_choices
from twofold.tasks import TASKS
from twofold.tasks.options import ModelOptions
from twofold.training.settings import Settings
from twofold_runtime.checked import shown

USAGE = """usage: twofold train TASK [--data PATH] [--out RUN] [--size SIZE] ...

Train a task's model. Without --data it learns from a small set of its own.

tasks:
{tasks}

`twofold train TASK --help` explains the options. For example:

  twofold train goals                                     into runs/goals
  twofold train goals --data my/folder --size small       one's own train.jsonl
  twofold train lm --data hub:owner/texts --steps 5000    of the hub, streamed
  twofold train goals --resume                            go on after a stop"""


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a model for one task. Ctrl-C saves and ends; --resume goes on."""

    data: Path | None = None
    """File, folder or, where the task takes it, hub:NAME[:CONFIG] (docs/data.md); the embedded set unless given."""
    out: Path = Path("runs")
    """The run's folder."""
    resume: bool = False
    """Go on with the run in the folder, as it began."""
    force: bool = False
    """Remove the run that is in the folder, with all that lies beside it there, and begin anew."""
    json: bool = False
    """Print the outcome as JSON, and no progress."""
    model: Annotated[ModelOptions, tyro.conf.OmitArgPrefixes] = field(default_factory=ModelOptions)
    settings: Annotated[Settings, tyro.conf.OmitArgPrefixes] = field(default_factory=Settings)


def run(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        lines = "\n".join(f"  {name:<15} {what}" for name, what in TASKS.items())
        say(USAGE.format(tasks=lines))
        return 0 if words else 2
    if words[0] not in TASKS:
        raise ValueError(f"unknown task {shown(words[0])}; there are: {', '.join(TASKS)}")
    return _train(words[0], list(words[1:]))


def _train(task: str, words: list[str]) -> int:
    from twofold.training import Bar, Stopped, is_main_process, leave
    from twofold.training.progress import Noted
    from twofold.training.run import train_task

    given = usual(task, words)
    chosen = parse(type(given), words, f"twofold train {task}", given)
    progress = Noted() if chosen.json else Bar(task)
    try:
        trained = train_task(
            task,
            folder=chosen.out,
            options=chosen.model,
            settings=chosen.settings,
            choices=getattr(chosen, "choices", None),
            data=chosen.data,
            resume=chosen.resume,
            force=chosen.force,
            progress=progress,
        )
    except Stopped as stop:
        warn(f"twofold: {stop} (twofold train {task} --out {quote(str(chosen.out))} --resume)")
        leave(stop.exit_code)
        return stop.exit_code
    if is_main_process():
        _tell(task, chosen, trained, progress.notes if isinstance(progress, Noted) else [])
    leave(0)
    return 0


def usual(task: str, words: Sequence[str]) -> Train:
    """What holds where nothing is said: the task's own settings, or those of the run that is resumed."""
    from twofold.tasks.registry import task_class
    from twofold.training.run import usual_options

    form = with_choices(Train, task_class(task).Choices)
    out = Path(value_of(words, "--out") or f"runs/{task}")
    resume = "--resume" in words
    options = usual_options(task, out, resume=resume, size=value_of(words, "--size"))
    choices = {} if options.choices is None else {"choices": options.choices}
    return form(data=options.data, out=out, resume=resume, model=options.model, settings=options.settings, **choices)


def _tell(task: str, chosen: Any, trained: Any, notes: Sequence[str]) -> None:
    outcome = trained.outcome
    told = {
        "task": task,
        "run": str(chosen.out),
        "parameters": trained.parameters,
        "steps": outcome.steps,
        "best_step": outcome.best_step,
        "stopped_early": outcome.stopped_early,
        "seconds": round(outcome.seconds, 1),
        "dev": trained.scores,
    }
    if chosen.json:
        say_json(told | ({"notes": notes} if notes else {}))
        return
    from twofold.cli.tables import scores_table, show
    from twofold.data.files import counted
    from twofold.tasks.registry import task_class

    show(scores_table(trained.scores, f"{task}: dev split, after {outcome.steps} steps in {outcome.seconds:.0f} s"))
    kind = task_class(task)
    metric = (kind.kept_by or kind.metric).replace("_", " ")
    if outcome.best_step:
        say(f"best at step {outcome.best_step} of {outcome.steps}, by {metric}")
    if outcome.stopped_early and chosen.settings.patience is not None:
        evaluations = counted(chosen.settings.patience, "evaluation")
        say(f"stopped early, after {evaluations} on the dev split without a better {metric} (--patience)")
    out = quote(str(chosen.out))
    say(f"{chosen.out}: {trained.parameters:,} parameters. Next:")
    say(f'  twofold evaluate {out}\n  twofold predict {out} "..."')
