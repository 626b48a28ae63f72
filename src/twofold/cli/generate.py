"""`twofold generate`: text from a run whose model writes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro

from twofold.cli import say, say_json
from twofold.cli.arguments import parse
from twofold_runtime.decoding import Decoding


@dataclass(frozen=True, kw_only=True)
class Generate:
    """Write text: how a prompt goes on, its translation, its summary.

    For example: twofold generate runs/lm --prompt "One morning" --temperature 0.8 --seed 3
    """

    run: tyro.conf.Positional[Path]
    """The run's folder."""
    prompt: str
    """What to go on with, or to answer."""
    stream: bool = False
    """Print every piece as soon as it is written."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute: a GPU if there is one."""
    json: bool = False
    """Print JSON."""
    decoding: Annotated[Decoding, tyro.conf.OmitArgPrefixes] = field(default_factory=Decoding)


def run(words: Sequence[str]) -> int:
    chosen = parse(Generate, words, "twofold generate")
    if chosen.stream and chosen.json:
        raise ValueError("stream is for people and json for programs: give one of --stream and --json")
    if chosen.stream and chosen.decoding.beams > 1:
        raise ValueError(f"stream must be off for {chosen.decoding.beams} beams: only the end tells which was the best")
    from twofold.tasks.runs import open_run

    opened = open_run(chosen.run, device=chosen.device)
    streamed = partial(say, end="") if chosen.stream else None
    text = opened.write(chosen.prompt, chosen.decoding, streamed)
    if chosen.json:
        told = {"prompt": chosen.prompt, "text": text, "decoding": asdict(chosen.decoding)}
        say_json(told)
    else:
        say("" if chosen.stream else text)
    return 0
