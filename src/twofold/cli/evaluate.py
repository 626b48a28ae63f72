"""`twofold evaluate`: a run's scores on a split."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from twofold.cli.arguments import parse


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Score a run. For example: twofold evaluate runs/goals --split dev"""

    run: tyro.conf.Positional[Path]
    """The run's folder."""
    data: Path | None = None
    """Files to score on; what the run was trained on unless given."""
    split: Literal["train", "dev", "test"] = "test"
    """Which split."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute: a GPU if there is one."""
    json: bool = False
    """Print JSON."""


def run(words: Sequence[str]) -> int:
    try:
        chosen = parse(Evaluate, words, "twofold evaluate")
    except SystemExit:  # --help
        return 0
    from twofold.data.streaming import Streamed
    from twofold.tasks.runs import open_run

    opened = open_run(chosen.run, device=chosen.device)
    splits = opened.examples(chosen.data)
    examples = getattr(splits, chosen.split)
    if chosen.split in splits.cut:
        sys.stderr.write(f"twofold: {chosen.split} is cut from train, for the data has none\n")
    if not examples:
        raise ValueError(f"{chosen.data or 'what the run was trained on'} has no {chosen.split} split")
    if isinstance(examples, Streamed):
        raise ValueError(f"split must be dev or test where train is a stream, got {chosen.split}")
    scores = opened.task.scores(opened.model, examples)
    if chosen.data is None:
        opened.task.write_files(chosen.run)
    if chosen.json:
        told = {"run": str(chosen.run), "split": chosen.split, "examples": len(examples), "scores": scores}
        told |= {"notes": notes} if (notes := opened.task.notes()) else {}
        sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
    else:
        from twofold.cli.tables import scores_table, show

        show(scores_table(scores, f"{opened.task.name}: {len(examples)} examples of the {chosen.split} split"))
        for name, note in opened.task.notes().items():
            sys.stdout.write(f"{name}: {note}\n")
    return 0
