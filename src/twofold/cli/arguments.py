"""A verb's words as its dataclass. tyro reads the dataclass; a mistake becomes one line instead of tyro's box."""

from collections.abc import Sequence
from contextlib import redirect_stderr
from io import StringIO
from typing import TypeVar

import tyro

Config = TypeVar("Config")


def parse(config: type[Config], words: Sequence[str], command: str, usual: Config | None = None) -> Config:
    """The filled-in dataclass, `usual` where nothing is said.

    `--help` prints and exits with 0; anything that does not fit is a ValueError.
    """
    complaint = StringIO()
    try:
        with redirect_stderr(complaint):
            return tyro.cli(config, args=list(words), prog=command, default=usual)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise ValueError(f"{_first_sentence(complaint.getvalue())} (see {command} --help)") from None


def _first_sentence(box: str) -> str:
    """What tyro writes under its title, up to the next rule; where there is no Unicode, rules are dashes."""
    said: list[str] = []
    for line in box.splitlines()[1:]:
        text = line.strip("│ ")
        if text.strip("─╰╯-"):
            said.append(text)
        elif said:
            break
    return " ".join(said)
