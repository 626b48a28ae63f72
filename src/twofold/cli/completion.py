"""`twofold --print-completion SHELL`: a script by which a shell completes verbs, tasks and options.

Each verb parses its own words, so that none imports what it does not need. Only here tyro gets all verbs as one command
and writes the script; completing then starts no process.
"""

from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import field, make_dataclass
from functools import reduce
from importlib import import_module
from io import StringIO
from operator import or_
from typing import Annotated, Any

import tyro

from twofold.cli import VERBS
from twofold.cli.bench import BENCHES
from twofold.cli.train import usual
from twofold.tasks import TASKS

SHELLS = ("bash", "zsh", "fish")


def script(words: Sequence[str]) -> str:
    """For the shell that these words name."""
    if len(words) != 1 or words[0] not in SHELLS:
        raise ValueError(f"--print-completion must be followed by one of {', '.join(SHELLS)}, got {' '.join(words)!r}")
    written = StringIO()
    try:
        with redirect_stdout(written):
            tyro.cli(
                _one_of({verb: _form(verb) for verb in VERBS}),
                args=["--tyro-write-completion", words[0], "-"],
                prog="twofold",
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
            )
    except SystemExit as stop:
        # With code 0 the script is written; with another, standard error says why it is not.
        if stop.code:
            raise ValueError(f"tyro cannot write completions for {words[0]}") from None
    return written.getvalue()


def _form(verb: str) -> Any:
    """What a verb's words are read into: a class of its name, or one for each of the words that may follow it."""
    match verb:
        case "train":
            return _followed_by({task: type(usual(task, ())) for task in TASKS})
        case "bench":
            return _followed_by({what: _class_in(f"twofold.cli.bench.{what}") for what in BENCHES})
    return _class_in(f"twofold.cli.{verb}")


def _class_in(module: str) -> type[Any]:
    return getattr(import_module(module), module.rpartition(".")[2].capitalize())


def _followed_by(forms: dict[str, Any]) -> type[Any]:
    return make_dataclass("Followed", [("what", _one_of(forms), field())])


def _one_of(forms: dict[str, Any]) -> Any:
    return reduce(or_, (Annotated[form, tyro.conf.subcommand(name=name)] for name, form in forms.items()))
