"""`twofold demo`: the main job from beginning to end, with split and with standard attention side by side."""

import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

import tyro

from twofold.cli import say, say_json, warn
from twofold.cli.arguments import parse
from twofold_runtime.folder import write_whole

# The arm in question first, its control second.
ARMS = ("split_kv", "standard")
UTTERANCES = (
    "turn the kitchen lights off at ten",
    "wake me up at half past six tomorrow",
    "could you play some jazz in the living room please",
    "text Maria that I am running late",
    "who was the first man on the moon",
)
REPORT = "report.html"


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Train split_kv and standard attention on the same goals with equal parameters, compare them, and use them.

    What is there already is used again, and what was stopped goes on. For example: twofold demo --seed 1 --out runs/one
    """

    out: Path = Path("runs/demo")
    """Where both runs and the report go."""
    data: Path | None = None
    """Goals of one's own to learn from (docs/data.md); the embedded home assistant unless given."""
    say: tyro.conf.UseAppendAction[list[str]] = field(default_factory=list)
    """An utterance to answer; may be given several times. Five of ours unless given."""
    epochs: float | None = None
    """Passes over the training data; what the task is usually given unless said."""
    seed: int = 0
    """Decides first weights, the order of the data and what dropout drops."""
    force: bool = False
    """Remove the runs that are there and train anew."""
    json: bool = False
    """Print JSON, and no progress."""


def run(words: Sequence[str]) -> int:
    chosen = parse(Demo, words, "twofold demo")
    from rich.console import Console

    began = time.monotonic()
    utterances = chosen.say or list(UTTERANCES)
    if not all(text.strip() for text in utterances):
        raise ValueError("--say must say something, got an empty text")
    console = None if chosen.json else Console(stderr=True)
    if stopped := _train(chosen, console):
        warn("twofold: stopped and saved; the same command goes on from there")
        return 128 + stopped

    import torch

    from twofold.machine import machine
    from twofold.report.goals_page import goals_page, verdict
    from twofold.report.goals_runs import compare
    from twofold_runtime.actions import Actions

    _say(console, "Reading the test split and writing the report")
    # As in training: more threads get into each other's way on a model so small.
    torch.set_num_threads(1)
    actions = Actions.of_run(chosen.out / ARMS[0])
    describe = None if actions is None else actions.described
    comparison = compare([chosen.out / arm for arm in ARMS], utterances, describe)
    following = _following(chosen)
    facts = machine(torch.device("cpu"))
    made = {name: facts[name] for name in ("date", "twofold", "commit", "torch", "python", "cpu", "cores")}
    report = chosen.out / REPORT
    # A report that is there says that both runs are.
    write_whole(report, goals_page(comparison, made, following))
    told = {**comparison.told(), "report": str(report), "seconds": round(time.monotonic() - began, 1)}
    if chosen.json:
        say_json(told)
        return 0
    _tell(told, verdict(comparison), following)
    return 0


def _train(chosen: Demo, console: Any) -> int:
    """See that both runs are there and finished. Returns the signal that came in between, or 0."""
    from twofold.cli.processes import Training, train_at_once
    from twofold.tasks.goals import Goals
    from twofold.training import Settings, is_finished
    from twofold.training.folder import check_folder

    usual = Goals.settings("tiny")
    epochs = usual["epochs"] if chosen.epochs is None else chosen.epochs
    settings = Settings(**usual | {"seed": chosen.seed, "epochs": epochs})
    folders = {arm: chosen.out / arm for arm in ARMS}
    _check_free(chosen.out, folders.values())
    # What cannot be read is found before anything that is there is touched.
    Goals.examples(chosen.data)
    if not chosen.force:
        for folder in folders.values():
            _check_same(folder, settings, chosen.data)
    report = chosen.out / REPORT
    if report.is_file() and not chosen.force and all(map(is_finished, folders.values())):
        _say(console, f"{' and '.join(ARMS)} are trained already, in {chosen.out}: used again (--force trains anew)")
        return 0
    trainings = []
    for arm, folder in folders.items():
        words = ["goals", "--json", "--out", str(folder), "--attention", arm]
        if chosen.force or not (folder / "metrics.jsonl").is_file():
            check_folder(folder, force=chosen.force)
            words += ["--force"] if chosen.force else []
        else:
            is_there = is_finished(folder)
            told = "is trained already" if is_there else "was stopped"
            then = "used again" if is_there else "it goes on from its last checkpoint"
            _say(console, f"{arm} {told}, in {folder}: {then}")
            words += ["--resume"]
        words += ["--epochs", str(settings.epochs), "--seed", str(settings.seed)]
        trainings.append(Training(arm, folder, words + (["--data", str(chosen.data)] if chosen.data else [])))
    # From here on it would be of other runs.
    report.unlink(missing_ok=True)
    what = "the embedded goals" if chosen.data is None else chosen.data
    _say(console, f"Training {' and '.join(ARMS)} on {what}, side by side, {settings.epochs:g} epochs each")
    return train_at_once(trainings, console)


def _check_free(out: Path, folders: Iterable[Path]) -> None:
    """Refuse what is no folder, and one whose report is not a demo's."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"out must be a folder, and is a file: {out}")
    if (out / REPORT).exists() and not any((folder / "run.json").is_file() for folder in folders):
        raise ValueError(
            f"{out / REPORT} is there without a demo's runs: remove it, or choose another folder with --out"
        )


def _check_same(folder: Path, settings: Any, data: Path | None) -> None:
    """Refuse a run that was trained otherwise."""
    from twofold.data.digest import digest_of
    from twofold.tasks.goals import Goals
    from twofold.training.run import check_same_data
    from twofold_runtime.folder import is_run, read_run

    if not is_run(folder):
        return
    training = read_run(folder).training
    digest = None if data is None else digest_of(data, Goals.examples(data))
    try:
        settings.check_same_run(training["settings"])
        check_same_data(training, None if data is None else str(data.resolve()), digest)
    except ValueError as error:
        raise ValueError(f"{folder} is another run ({error}): --force trains anew, --out keeps both") from None


def _tell(told: Mapping[str, Any], verdict: str, following: Sequence[str]) -> None:
    from rich.table import Table

    from twofold.cli.tables import show

    arms = told["arms"]
    table = Table(box=None, title_justify="left")
    table.add_column("")
    for arm in arms:
        table.add_column(arm, justify="right")
    for split in ("test", "dev"):
        for name in next(iter(arms.values()))[split]:
            scores = [arm[split][name] for arm in arms.values()]
            table.add_row(f"{split}: {name.replace('_', ' ')}", *(f"{score:.4g}" for score in scores))
    table.add_row("training, s", *(f"{arm['seconds']:.0f}" for arm in arms.values()))
    table.add_row("one prediction, ms", *(f"{arm['milliseconds']:.1f}" for arm in arms.values()))
    table.add_row("parameters", *(f"{arm['parameters']:,}" for arm in arms.values()))
    say("")
    show(table)
    say(f"\n{verdict}\n")
    for prediction in told["predictions"][ARMS[0]]:
        say(_answer(prediction))
    say(f"\nReport, to be opened in a browser: {told['report']}   ({told['seconds']:.0f} s in all)")
    say("\n".join(["Next:", *(f"  {line}" for line in following)]))


def _answer(prediction: Mapping[str, Any]) -> str:
    from twofold_runtime.goals import goal_shown

    slots = ", ".join(f"{slot['name']} = {slot['value']!r}" for slot in prediction["slots"])
    lines = [prediction["text"], f"  goal    {goal_shown(prediction)}"]
    if slots:
        lines.append(f"  slots   {slots}")
    if "action" in prediction:
        lines.append(f"  action  {prediction['action'] or 'none'}")
    return "\n".join(lines)


def _following(chosen: Demo) -> list[str]:
    """Commands to try next."""
    program, run, other = _program(), quote(str(chosen.out / ARMS[0])), chosen.seed + 1
    elsewhere = quote(f"{chosen.out}-seed-{other}")
    data = "" if chosen.data is None else f" --data {quote(str(chosen.data))}"
    return [
        f'{program} predict {run} "dim the lights in the bedroom to 30 percent"',
        f"{program} demo{data} --seed {other} --out {elsewhere}   # how much of it is luck?",
        f"{program} train goals{data} --size small --out runs/small   # a larger model",
        f"{program} train goals --data my/folder --out runs/mine   # your own utterances: docs/data.md",
    ]


def _program() -> str:
    """As it can be typed here: by name, or by path where it is not on the way."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "twofold" and shutil.which("twofold") is None else "twofold"


def _say(console: Any, text: str) -> None:
    if console is not None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)
