"""A verb's words as its dataclass. tyro reads the dataclass; a mistake becomes one line instead of tyro's box."""

import re
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import field, fields, is_dataclass, make_dataclass
from difflib import get_close_matches
from io import StringIO
from typing import Annotated, Any, TypeVar, get_type_hints

import tyro

from twofold.cli import output
from twofold_runtime.checked import shortened

Config = TypeVar("Config")
# Characters of an error in which no word is repeated that was too long.
LINE = 240


def parse(config: type[Config], words: Sequence[str], command: str, defaults: Config | None = None) -> Config:
    """The filled-in dataclass, with `defaults` for options that are not given.

    `--help` prints and exits with 0; anything that does not fit is a ValueError.
    """
    try:
        return _parsed(config, words, command, defaults)
    except ValueError as error:
        if len(str(error)) > LINE:
            # Once more, for an error that repeats no long word whole.
            _parsed(config, [shortened(word) for word in words], command, defaults)
        raise


def _parsed(config: type[Config], words: Sequence[str], command: str, defaults: Config | None) -> Config:
    complaint = StringIO()
    try:
        with redirect_stderr(complaint), output():
            return tyro.cli(config, args=list(words), prog=command, default=defaults)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
    sentence = _first_sentence(complaint.getvalue())
    if sentence.startswith("Unrecognized options: -"):
        sentence = _unknown_option(config, words) or sentence
    raise ValueError(f"{sentence} (see {command} --help)")


def _unknown_option(config: type[Any], words: Sequence[str]) -> str | None:
    """A sentence about the first word that is an option of another name, if there is one."""
    known = _options(config)
    for word in words:
        name = word.partition("=")[0]
        if re.match(r"--?[a-zA-Z]", name) and name not in known:
            letters = name.lstrip("-")
            begun = [option for option in known if option.startswith(f"--{letters}")]
            initials = [option for option in known if "".join(re.findall(r"-(\w)", option)) == letters]
            meant = (begun + initials + get_close_matches(name, known, cutoff=0.7))[:1]
            return f"there is no option {name}" + (f"; did you mean {meant[0]}?" if meant else "")
    return None


def _options(config: type[Any]) -> list[str]:
    """All options of a command, with those of the dataclasses in its own."""
    names = ["--help", "-h"]
    for one in fields(config):
        hint = get_type_hints(config)[one.name]
        option = one.name.replace("_", "-")
        names += _options(hint) if is_dataclass(hint) else [f"--{option}", f"--no-{option}"]
    return names


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
    # Of a value that its dataclass refuses, tyro says in which of the dataclasses that was.
    return re.sub(r"^Error parsing [\w.]+: ", "", " ".join(said))
