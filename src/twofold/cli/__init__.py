"""The command `twofold`. Each verb is a file, imported when it is called; nothing here imports torch."""

import json
import math
import os
import re
import select
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from twofold.disk import naming
from twofold.extras import OF_LIBRARIES, library_of, not_installed
from twofold_runtime.checked import shortened, shown

VERBS = {
    "demo": "train split_kv and standard on embedded goals, and compare them",
    "train": "train a model for a task, from an embedded set or from files",
    "evaluate": "score a run on a split, alone or against another run",
    "data": "what is understood of a file, and the same in our format",
    "predict": "what a run makes of a text",
    "generate": "text from a run whose model writes",
    "compare": "a fair experiment: paired runs of several arms, and a report",
    "convert": "give a trained transformers model split attention",
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
        _check_process()
        code = _run(words)
        with output():
            pass
        return code
    except BaseException as error:
        if debug and not isinstance(error, SystemExit | KeyboardInterrupt | BrokenPipeError):
            raise
        return _ended_by(error)


def _ended_by(error: BaseException) -> int:
    """The exit code of a command that ended with an exception, and one line about it."""
    match error:
        case SystemExit():
            # Of --help.
            if error.code:
                raise error
            return 0
        case KeyboardInterrupt():
            return _fail("stopped", code=130)
        case BrokenPipeError() if _is_unread():
            return 1
        case ModuleNotFoundError() if (library := library_of(error)) in OF_LIBRARIES:
            return _fail(not_installed(library, OF_LIBRARIES[library]))
        case OSError() if error.filename and error.strerror:
            return _fail(f"{error.filename}: {error.strerror}")
        case ValueError() | OSError() | ArithmeticError():
            return _fail(str(error))
    # User errors are handled above; anything else is a bug or a corrupt file. A panic of a library written in Rust is
    # among it, and derives from BaseException alone.
    return _fail(f"{type(error).__name__}: {' '.join(str(error).split()):.300} (--debug shows where)", code=1)


def _check_process() -> None:
    """Refuse what later would fail without a name: a working folder that is gone, a closed standard output."""
    # A closed one of the three is opened to nowhere, or the next file would take its number, and whatever a library
    # says on standard error would be written into that.
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(number)
    if sys.stdout is None:
        raise ValueError("standard output is closed: say where it is to go, if only to /dev/null")
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise ValueError("the working folder is gone: change into one that is there") from error


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
        raise ValueError(f"unknown verb {shown(words[0])}; there are: {', '.join(VERBS)}")
    return import_module(f"twofold.cli.{words[0]}").run(words[1:])


def _is_unread() -> bool:
    """Whether what read the output has left, as `head` does. What is still to be written then goes nowhere."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    is_gone = any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    if is_gone:
        _abandon_output()
    return is_gone


def _abandon_output() -> None:
    """Send what is still to be written nowhere, or Python would fail once more with it at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def output() -> Generator[TextIO]:
    """Standard output, written at once. The system's errors do not name it; these do."""
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _abandon_output()
        raise naming(error, Path("standard output")) from error


def standard_input() -> TextIO:
    """What is piped in; a ValueError where it is closed."""
    if sys.stdin is None:
        raise ValueError("standard input is closed: give what is to be read as an argument, or pipe it in")
    return sys.stdin


def say(text: str, end: str = "\n") -> None:
    """To people."""
    with output() as file:
        file.write(printable(text) + end)


def say_json(told: Any) -> None:
    """To programs, a line. What is not finite is null, for JSON has no word for it."""
    with output() as file:
        file.write(json.dumps(_with_nulls(told), ensure_ascii=False, allow_nan=False) + "\n")


def _with_nulls(told: Any) -> Any:
    if isinstance(told, dict):
        return {name: _with_nulls(value) for name, value in told.items()}
    if isinstance(told, list | tuple):
        return [_with_nulls(value) for value in told]
    return None if isinstance(told, float) and not math.isfinite(told) else told


def warn(text: str) -> None:
    """To people, beside what a command was asked for. Where nobody can be told, nobody is."""
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(f"{printable(text)}\n")
            sys.stderr.flush()


def _fail(text: str, code: int = 2) -> int:
    """One line, whatever the error repeats of what it got."""
    line = re.sub(r"\S{300,}", lambda long: shortened(long[0], 300), " ".join(text.split()))
    warn(f"twofold: {shortened(line, LONGEST_ERROR)}")
    return code


def printable(text: str) -> str:
    """Without what would command a terminal: names and labels come from files that anybody may have written."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\ufffd", text)
