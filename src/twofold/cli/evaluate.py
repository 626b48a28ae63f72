"""`twofold evaluate`: a run's scores on a split."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from twofold.cli import say, say_json, warn
from twofold.cli.arguments import parse


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Score a run, or say whether it does better than another one.

    For example: twofold evaluate runs/goals --split dev

    With --against every score has its difference to the other run's on the same examples, a 95 % interval of it by the
    paired bootstrap, and a two-sided p. Where an example is either right or wrong, p is McNemar's, exact; else it is
    the bootstrap's: twice the share of resamples on the rarer side of zero. BLEU and chrF have sacreBLEU's own test
    besides. Of fewer than 10 examples no difference is found. For example:
    twofold evaluate runs/split --against runs/standard
    """

    run: tyro.conf.Positional[Path]
    """The run's folder."""
    data: Path | None = None
    """Files to score on; what the run was trained on unless given."""
    split: Literal["train", "dev", "test", "all"] = "test"
    """Which split; all is everything that the files hold."""
    against: Path | None = None
    """Another run of the same task, to compare with."""
    resamples: int = 10_000
    """How often --against draws the examples anew."""
    seed: int = 0
    """Seed of what --against draws."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute: a GPU if there is one."""
    json: bool = False
    """Print JSON."""


def run(words: Sequence[str]) -> int:
    chosen = parse(Evaluate, words, "twofold evaluate")
    if chosen.against is not None:
        from twofold.cli.evaluate_against import compare_runs

        return compare_runs(chosen, chosen.against)
    for name in ("resamples", "seed"):
        if getattr(chosen, name) != getattr(Evaluate, name):
            raise ValueError(f"{name} is for --against: one run is scored without chance")
    from twofold.tasks.runs import open_run

    opened = open_run(chosen.run, device=chosen.device)
    examples, notes = examples_for(chosen, opened)
    scores = opened.task.scores(opened.model, examples)
    if chosen.json:
        told = {"run": str(chosen.run), "split": chosen.split, "examples": len(examples), "scores": scores}
        notes = opened.task.notes() | notes
        say_json(told | ({"notes": notes} if notes else {}))
    else:
        from twofold.cli.tables import scores_table, show
        from twofold.data.files import counted

        there = counted(len(examples), "example")
        show(scores_table(scores, f"{opened.task.name}: {there} of {split_named(chosen.split)}"))
        for name, note in opened.task.notes().items():
            say(f"{name}: {note}")
    if chosen.data is None:
        try:
            opened.task.write_files(chosen.run)
        except OSError as error:
            warn(f"twofold: {chosen.run} stays as it was: {error.strerror}")
    return 0


def split_named(name: str) -> str:
    return "all splits" if name == "all" else f"the {name} split"


def parts_of(splits: Any, name: str) -> list[Any]:
    """The split of that name, or all there are."""
    from twofold.data.examples import SPLITS

    return [getattr(splits, one) for one in (SPLITS if name == "all" else (name,))]


def read_as_asked(chosen: Evaluate) -> AbstractContextManager[None]:
    """Within it, files that are all to be scored are not cut first: many cannot be."""
    from twofold.data.splits import all_as_test

    return all_as_test() if chosen.data is not None and chosen.split == "all" else nullcontext()


def examples_for(chosen: Evaluate, opened: Any) -> tuple[list[Any], dict[str, str]]:
    """What an opened run is to be scored on, and what to note of it."""
    from twofold.data.streaming import Streamed
    from twofold.tasks.registry import unknown_note

    with read_as_asked(chosen):
        splits = opened.examples(chosen.data)
    if chosen.data is None and opened.has_changed_data(splits):
        warn("twofold: the files are not what the run was trained on: they have changed since")
    parts = parts_of(splits, chosen.split)
    if any(isinstance(part, Streamed) for part in parts):
        raise ValueError(f"split must be dev or test where train is a stream, got {chosen.split}")
    examples = [example for part in parts for example in part]
    notes = {}
    if chosen.split in splits.cut:
        notes["split"] = f"{chosen.split} is cut from train, for the data has none (--split all scores all there is)"
        warn(f"twofold: {notes['split']}")
    if unknown := unknown_note(opened.task, examples):
        notes["labels"] = unknown
        warn(f"twofold: {unknown}")
    if not examples:
        raise ValueError(f"{chosen.data or 'what the run was trained on'} has no {chosen.split} split")
    return examples, notes
