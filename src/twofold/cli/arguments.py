"""A verb's words as its dataclass. tyro reads the dataclass; a mistake becomes one line instead of tyro's box."""

from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import field, make_dataclass
from io import StringIO
from typing import Annotated, Any, TypeVar

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


def with_choices(config: type[Config], choices: type[Any] | None) -> type[Config]:
    """The options of a verb with those of one task, whose dataclass is `choices`, as a field of that name."""
    if choices is None:
        return config
    more = ("choices", Annotated[choices, tyro.conf.OmitArgPrefixes], field(default_factory=choices))
    text = {"__doc__": config.__doc__}
    return make_dataclass(config.__name__, [more], bases=(config,), namespace=text, frozen=True, kw_only=True)


def value_of(words: Sequence[str], name: str) -> str | None:
    """The value of an option before tyro reads them all: what follows it, or what is joined to it by =."""
    for place, word in enumerate(words):
        if word == name and place + 1 < len(words):
            return words[place + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


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
