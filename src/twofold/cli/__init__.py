"""The command `twofold`. Each verb is a file, imported when it is called; nothing here imports torch."""

import json
import math
import os
import re
import select
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from twofold.extras import OF_LIBRARIES, library_of, not_installed

VERBS = {
    "demo": "train split_kv and standard on embedded goals, and compare them",
    "train": "train a model for a task, from an embedded set or from files",
    "evaluate": "score a run on a split, alone or against another run",
    "predict": "what a run makes of a text",
    "generate": "text from a run whose model writes",
    "compare": "a fair experiment: paired runs of several arms, and a report",
    "bench": "measure split against standard attention on this machine",
}
COMPLETION = "--print-completion"
LONGEST_ERROR = 1000

HELP = """usage: twofold VERB ...

Split key/value self-attention: one key and value for oneself, another for
everyone else.

verbs:
{verbs}

options:
  -h, --help     show this and exit
  --version      show the version and exit
  --print-completion SHELL
                 print what makes bash, zsh or fish complete this command
  --debug        show where an error comes from

`twofold VERB --help` explains a verb."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except ModuleNotFoundError as error:
        library = library_of(error)
        if library not in OF_LIBRARIES:
            raise
        return _fail(not_installed(library, OF_LIBRARIES[library]))
    except (ValueError, OSError, ArithmeticError) as error:
        if isinstance(error, BrokenPipeError) and _is_unread():
            return 1
        if debug:
            raise
        return _fail(" ".join(str(error).split()))
    except Exception as error:
        # Somebody's mistake is above; this is ours, or a file that no version of ours wrote.
        if debug:
            raise
        return _fail(f"{type(error).__name__}: {' '.join(str(error).split()):.300} (--debug shows where)", code=1)
    except SystemExit as end:
        # Of --help.
        if end.code:
            raise
        return 0
    except KeyboardInterrupt:
        return _fail("stopped", code=130)


def _run(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        verbs = "\n".join(f"  {verb:<12} {what}" for verb, what in VERBS.items())
        say(HELP.format(verbs=verbs))
        return 0 if words else 2
    if words[0] == "--version":
        from twofold import __version__

        say(f"twofold {__version__}")
        return 0
    if words[0] == COMPLETION:
        say(import_module("twofold.cli.completion").script(words[1:]))
        return 0
    if words[0] not in VERBS:
        raise ValueError(f"unknown verb {words[0]!r}; there are: {', '.join(VERBS)}")
    return import_module(f"twofold.cli.{words[0]}").run(words[1:])


def _is_unread() -> bool:
    """Whether what read the output has left, as `head` does. What is still to be written then goes nowhere."""
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)
    is_gone = any(event & (select.POLLERR | select.POLLHUP) for _, event in output.poll(0))
    if is_gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return is_gone


def say(text: str, end: str = "\n") -> None:
    """To people, at once."""
    sys.stdout.write(printable(text) + end)
    sys.stdout.flush()


def say_json(told: Any) -> None:
    """To programs, a line at once. What is not finite is null, for JSON has no word for it."""
    sys.stdout.write(json.dumps(_with_nulls(told), ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def _with_nulls(told: Any) -> Any:
    if isinstance(told, dict):
        return {name: _with_nulls(value) for name, value in told.items()}
    if isinstance(told, list | tuple):
        return [_with_nulls(value) for value in told]
    return None if isinstance(told, float) and not math.isfinite(told) else told


def warn(text: str) -> None:
    """The same, beside what a command was asked for."""
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


def _fail(text: str, code: int = 2) -> int:
    # An option or a file may hold any number of characters, and not every error knows.
    warn(f"twofold: {text if len(text) <= LONGEST_ERROR else f'{text[: LONGEST_ERROR - 3]}...'}")
    return code


def printable(text: str) -> str:
    """Without what would command a terminal: names and labels come from files that anybody may have written."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\ufffd", text)
