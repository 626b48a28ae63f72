"""What libraries written in Rust do where they have no error to give: they panic.

A panic reaches Python as an exception that derives from BaseException alone, so that no `except Exception` stops it,
and only after the library has written a report of its own, often of many lines, to standard error.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def panics_as_errors(what: str) -> Generator[None]:
    """Turn a panic inside into a ValueError that begins with `what`, without the library's report.

    For every thread, whatever is written to standard error meanwhile is lost: keep what is inside short.
    """
    with _standard_error_off():
        try:
            yield
        except BaseException as error:
            if not is_panic(error):
                raise
            raise ValueError(f"{what}: {error}") from error


def is_panic(error: BaseException) -> bool:
    # Each library has a class of its own, and none can be imported.
    return type(error).__name__ == "PanicException"


@contextmanager
def _standard_error_off() -> Generator[None]:
    """The file descriptor itself: Rust does not know Python's sys.stderr."""
    if sys.stderr is not None:
        sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        kept = os.dup(2)
    except OSError:
        # It is closed: there is nothing to turn off.
        os.close(nowhere)
        yield
        return
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        if sys.stderr is not None:
            sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
