"""Files that are whole or absent, locks, and errors of a disk as OSErrors that name the file."""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def flush(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        # Some file systems cannot flush folders.
        if not path.is_dir():
            raise
    finally:
        os.close(handle)


def taken(path: Path, *, wait: bool) -> int | None:
    """A handle that locks the file for this process until it is closed; None where another process has it.

    The kernel releases the lock however the process ends.
    """
    try:
        import fcntl
    except ImportError as error:
        raise OSError(f"{path} cannot be locked: runs and comparisons need Linux or macOS") from error
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return handle


def naming(error: OSError, path: Path) -> OSError:
    """The error with the name of the file that was to be written; the system names a temporary file, or none."""
    return OSError(error.errno, error.strerror, str(path))


def is_aside(path: Path) -> bool:
    """Whether it is what a killed `write_whole` left."""
    return re.fullmatch(r"\.[0-9a-f]{8}-.+", path.name) is not None


@contextmanager
def system_errors(path: Path | None = None) -> Generator[None]:
    """safetensors and tokenizers report a full disk by exceptions of their own; here they become OSErrors."""
    try:
        yield
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if isinstance(error, OSError) or number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), path and str(path)) from error
