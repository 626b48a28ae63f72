"""`twofold predict`: what a run makes of a text, and for goals what would be done about it."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from twofold.cli import say, say_json, standard_input, warn
from twofold.cli.arguments import parse


@dataclass(frozen=True, kw_only=True)
class Predict:
    """Predict from one text, or from every line of standard input.

    For example: twofold predict runs/goals "turn the kitchen lights off at ten"

    Blank lines of standard input are passed over. The first line that cannot be read ends it, with exit code 2.
    """

    run: tyro.conf.Positional[Path]
    """The run's folder."""
    text: Annotated[tyro.conf.Positional[list[str]], tyro.conf.arg(metavar="[TEXT]")] = field(default_factory=list)
    """One text; for qa "question ||| text", for captioning an image file. Where texts are read, words are joined.
    Without it, lines of standard input."""
    actions: Path | None = None
    """An actions.toml; the run's own unless given."""
    act: bool = False
    """Do what the goal asks for, as actions.toml says. Without it nothing is ever done. Exit code 1: some failed."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute: a GPU if there is one."""
    json: bool = False
    """Print JSON, one object a line."""


def run(words: Sequence[str]) -> int:
    chosen = parse(Predict, words, "twofold predict")
    from twofold.tasks.runs import open_run
    from twofold_runtime.actions import Actions

    opened = open_run(chosen.run, device=chosen.device)
    if chosen.actions and opened.task.name != "goals":
        raise ValueError(f"actions follow from goals, and {chosen.run} is a run of {opened.task.name}")
    actions = Actions.read(chosen.actions) if chosen.actions else Actions.of_run(chosen.run)
    if chosen.act and actions is None:
        raise ValueError(f"--act needs to know what to do: {chosen.run} has no actions.toml; name one with --actions")
    if len(chosen.text) > 1 and any(" " in text.strip() for text in chosen.text):
        raise ValueError(f"text must be one, got {len(chosen.text)}: several go line by line through standard input")
    if actions is not None and (strange := sorted(set(actions.goals) - set(opened.task.reading["goals"]))):
        warn(f"twofold: {chosen.run} has no goal {', '.join(strange[:5])}, for which there are actions")
    texts: Any = [" ".join(chosen.text)] if chosen.text else _lines(standard_input())
    if chosen.text and not texts[0].strip():
        raise ValueError("text is empty")
    code = 0
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            prediction = dict(opened.predict(opened.task.codec.input_of_line(text)))
        except ValueError as error:
            if chosen.text:
                raise
            raise ValueError(f"line {number}: {error}") from error
        told = [] if actions is None else _acted(actions, prediction, chosen)
        if chosen.json:
            say_json(prediction)
        else:
            say("\n".join([opened.task.codec.shown(prediction), *told]))
        code = 1 if "failed" in prediction else code
    return code


def _lines(file: Iterable[str]) -> Iterator[str]:
    """Without what Windows puts at the start of a text and at the end of a line."""
    for number, line in enumerate(file):
        yield (line.removeprefix("\ufeff") if number == 0 else line).removesuffix("\n").removesuffix("\r")


def _acted(actions: Any, prediction: dict[str, Any], chosen: Predict) -> list[str]:
    """Put the action into the prediction and do it if asked; lines for people."""
    try:
        action = actions.plan(prediction)
    except ValueError as error:
        prediction["action"] = {"refused": str(error)}
        if chosen.act:
            prediction["failed"] = str(error)
        return [f"  no action: {error}"]
    prediction["action"] = None if action is None else action.as_json()
    if action is None:
        return ["  no action"] if chosen.act else []
    if not chosen.act:
        return [f"  would {action.described()}   (--act does it)"]
    sys.stdout.flush()
    try:
        # What a program prints must not come between lines of JSON.
        prediction["acted"] = actions.act(action, aside=chosen.json)
    except (OSError, ValueError) as error:
        prediction["failed"] = str(error)
        return [f"  could not {action.described()}: {error}"]
    return [f"  {action.described()}: {prediction['acted']}"]
