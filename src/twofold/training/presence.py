"""Whether a run's folder is still the one in which training began: anybody may remove, empty or move it meanwhile."""

import errno
import os
from pathlib import Path

from twofold.training.folder import CHECKPOINTS, LOCK


class Presence:
    """Of a folder whose lock this process holds. The lock's file tells it from another folder of that name."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock = folder, folder / CHECKPOINTS / LOCK
        self.began = self.lock.stat()

    @property
    def is_there(self) -> bool:
        try:
            return os.path.samestat(self.began, self.lock.stat())
        except OSError:
            return False

    def check(self) -> None:
        """Raise an OSError that names the folder where it is gone: what is written now would be a part of a run."""
        if not self.is_there:
            what = "the run's folder was removed, emptied or moved while it trained"
            raise OSError(errno.ENOENT, what, str(self.folder))
