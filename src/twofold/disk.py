"""Files that are whole or not there, and what libraries say of a disk as the OSErrors that it stands for."""

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
    """A handle of the file, which is this process's alone until it is closed; None where another has it.

    The kernel lets go however the process ends: no lock outlives its holder.
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
    """The error with the name of the file that was to be written: the system names a temporary one, or none."""
    return OSError(error.errno, error.strerror, str(path))


def is_aside(path: Path) -> bool:
    """Whether it is what a killed writer left."""
    return re.fullmatch(r"\.[0-9a-f]{8}-.+", path.name) is not None


@contextmanager
def system_errors(path: Path | None = None) -> Generator[None]:
    """safetensors and tokenizers tell a full disk by exceptions of their own, the latter by `Exception` itself."""
    try:
        yield
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if isinstance(error, OSError) or number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), path and str(path)) from error
