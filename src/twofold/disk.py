"""What libraries say of a disk, as the OSErrors that they stand for."""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


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
