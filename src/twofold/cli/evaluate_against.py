"""`twofold evaluate RUN --against OTHER`: whether a run does better than another on the same examples."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twofold.cli import say, say_json, warn
from twofold.cli.evaluate import Evaluate, examples_for, parts_of, read_as_asked, split_named
from twofold.data.files import counted

if TYPE_CHECKING:
    from twofold.lab.bootstrap import Difference

LUCK = "one pair of runs says nothing of luck in training, which other seeds would show: ask twofold compare for that"
SENTENCES = {
    "better": "By {metric} A does better than B, by more than chance among such examples would give.",
    "worse": "By {metric} B does better than A, by more than chance among such examples would give.",
    "no difference found": "By {metric} no difference was found.",
}
TOO_FEW = "By {metric} no difference could be found: {drawn} cannot tell, and it takes at least {least}."


def compare_runs(chosen: Evaluate, other: Path) -> int:
    from twofold.lab.bootstrap import CONFIDENCE, check_resampling, comparable, compared
    from twofold.tasks.runs import open_run

    check_resampling(chosen.resamples, chosen.seed)
    _check_alike(chosen, other)
    opened = open_run(chosen.run, device=chosen.device)
    task, (examples, notes) = opened.task, examples_for(chosen, opened)
    ours = task.tallies(opened.model, examples)
    # Memory need not hold two models.
    del opened
    rival = open_run(other, device=chosen.device)
    theirs = rival.task.tallies(rival.model, examples)
    names, left_out = comparable(ours, theirs)
    if not names:
        raise ValueError(_why_none(task.name, left_out))
    found = {name: compared(ours[name], theirs[name], resamples=chosen.resamples, seed=chosen.seed) for name in names}
    metric = task.metric if task.metric in names else names[0]
    told = {
        "run": str(chosen.run),
        "against": str(other),
        "task": task.name,
        "split": chosen.split,
        "examples": len(examples),
        "resamples": chosen.resamples,
        "seed": chosen.seed,
        "confidence": CONFIDENCE,
        "scores": {name: _plain(one) for name, one in found.items()},
        "left_out": left_out,
        "metric": metric,
        "verdict": _verdict(found[metric], metric in task.lower),
    }
    if chosen.json:
        say_json(told | ({"notes": notes} if notes else {}))
    else:
        _show(told, found[metric].is_too_few)
    warn(f"twofold: {LUCK}")
    return 0


def _check_alike(chosen: Evaluate, other: Path) -> None:
    """Raises where the two are one run, of two tasks, or would be scored on other examples."""
    from twofold.tasks.registry import examples_of, task_class
    from twofold_runtime.folder import read_run

    if chosen.run.resolve() == other.resolve():
        raise ValueError(f"against must be another run than {chosen.run}, got the same")
    records = read_run(chosen.run), read_run(other)
    task, other_task = (record.task for record in records)
    if task != other_task:
        raise ValueError(f"both must be runs of one task: {chosen.run} is of {task}, and {other} of {other_task}")
    ours, theirs = (record.training for record in records)
    if chosen.data is None and ours["data"] != theirs["data"]:
        sources = [training["data"] or "the embedded set" for training in (ours, theirs)]
        raise ValueError(
            f"{chosen.run} was trained on {sources[0]}, and {other} on {sources[1]}: "
            "say with --data what both are to be scored on"
        )
    states = {training["digest"] for training in (ours, theirs)} - {None}
    if chosen.data is None and len(states) > 1:
        warn(f"twofold: {chosen.run} and {other} were trained on different states of {ours['data']}")
    # The same files may be read otherwise: for translation, from another language.
    if ours["choices"] != theirs["choices"]:
        kind, data = task_class(task), chosen.data or (Path(ours["data"]) if ours["data"] else None)
        with read_as_asked(chosen):
            one, two = (
                parts_of(examples_of(kind, data, training["choices"]), chosen.split) for training in (ours, theirs)
            )
        if one != two:
            raise ValueError(
                f"{chosen.run} and {other} read the {chosen.split} split of {data or 'the embedded set'} otherwise, "
                f"by their choices: {ours['choices']} and {theirs['choices']}"
            )


def _why_none(task: str, left_out: Sequence[str]) -> str:
    if not left_out:
        return f"runs of {task} cannot be compared so: none of its scores is made of sums over examples"
    return (
        f"these runs have no score that means the same in both: {', '.join(left_out)} need the same tokens "
        "(nats per character do not, but models of words have none)"
    )


def _verdict(found: "Difference", lower_is_better: bool) -> str:
    if not found.is_found:
        return "no difference found"
    return "better" if (found.difference.mean < 0) == lower_is_better else "worse"


def _plain(found: "Difference") -> dict[str, Any]:
    """For JSON, which has no infinity: null where an interval has no end."""
    low, high = (end if math.isfinite(end) else None for end in (found.difference.low, found.difference.high))
    told: dict[str, Any] = {
        "run": found.ours,
        "against": found.theirs,
        "difference": found.difference.mean,
        "low": low,
        "high": high,
        "p": found.p,
        "test": found.test,
        "drawn": found.difference.count,
    }
    if found.alone is not None:
        told |= {"only_run_right": found.alone[0], "only_against_right": found.alone[1]}
    if found.sacrebleu is not None:
        told["sacrebleu"] = {"p": found.sacrebleu.p, "signature": found.sacrebleu.signature}
    return told


def _show(told: Mapping[str, Any], is_too_few: bool) -> None:
    from rich.table import Table

    from twofold.cli.tables import show
    from twofold.lab.bootstrap import LEAST_DRAWN

    # Narrow, so that a line of 80 characters holds a row.
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    table.add_column("score")
    for name in ("A", "B", "A - B", f"{told['confidence']:.0%} interval", "p"):
        table.add_column(name, justify="right")
    table.add_column("test")
    for name, one in told["scores"].items():
        digits = 2 if max(abs(one["run"]), abs(one["against"])) >= 10 else 4
        ends = ("endless" if end is None else f"{end:+.{digits}f}" for end in (one["low"], one["high"]))
        table.add_row(
            name.replace("_", " "),
            *(f"{one[which]:.{digits}f}" for which in ("run", "against")),
            f"{one['difference']:+.{digits}f}",
            " to ".join(ends),
            _shown_p(one["p"]),
            one["test"],
        )
    say(f"{told['task']}: {counted(told['examples'], 'example')} of {split_named(told['split'])}{_pieces(told)}")
    say(f"A: {told['run']}\nB: {told['against']}")
    show(table)
    for name, one in told["scores"].items():
        if "only_run_right" in one:
            alone = f"only A right {one['only_run_right']}, only B {one['only_against_right']}"
            say(f"{name.replace('_', ' ')}: {alone}")
        if own := one.get("sacrebleu"):
            say(
                f"{name}: sacreBLEU's own paired bootstrap, which looks at one side: p {_shown_p(own['p'])}, "
                f"{own['signature']}"
            )
    if told["left_out"]:
        say(f"left out, for it does not mean the same in both: {', '.join(told['left_out'])}")
    sentence = TOO_FEW if is_too_few else SENTENCES[told["verdict"]]
    say(sentence.format(metric=told["metric"].replace("_", " "), drawn=_drawn(told), least=LEAST_DRAWN))


def _pieces(told: Mapping[str, Any]) -> str:
    return f", in {drawn}" if "piece" in (drawn := _drawn(told)) else ""


def _drawn(told: Mapping[str, Any]) -> str:
    """What is drawn. That is not always examples: a language model's one long text is cut up."""
    drawn = told["scores"][told["metric"]]["drawn"]
    return counted(drawn, "example" if drawn == told["examples"] else "piece")


def _shown_p(p: float) -> str:
    return f"{p:.4f}" if p >= 1e-4 else "<0.0001"
