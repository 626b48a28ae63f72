"""`twofold predict`: what a run makes of a text, and for goals what would be done about it."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from twofold.cli.arguments import parse


@dataclass(frozen=True, kw_only=True)
class Predict:
    """Predict from a text, or from every line of standard input.

    For example: twofold predict runs/goals "turn the kitchen lights off at ten"
    """

    run: tyro.conf.Positional[Path]
    """The run's folder."""
    text: tyro.conf.Positional[list[str]] = field(default_factory=list)
    """What somebody says; without it, lines of standard input."""
    actions: Path | None = None
    """An actions.toml; the run's own unless given."""
    act: bool = False
    """Do what the goal asks for, as actions.toml says. Without this nothing is ever done."""
    json: bool = False
    """Print JSON, one object a line."""


def run(words: Sequence[str]) -> int:
    try:
        chosen = parse(Predict, words, "twofold predict")
    except SystemExit:  # --help
        return 0
    from twofold.tasks.runs import open_run

    opened = open_run(chosen.run)
    texts = [" ".join(chosen.text)] if chosen.text else (line.rstrip("\n") for line in sys.stdin)
    for text in texts:
        if not text.strip():
            continue
        prediction = opened.predict(text)
        if chosen.json:
            sys.stdout.write(json.dumps(prediction, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(opened.task.shown(prediction) + "\n")
        sys.stdout.flush()
    return 0
