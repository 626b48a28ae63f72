"""The processes beside a comparison's own: each is the same command, and takes runs that nobody has begun.

Where one fails, the others go on with what there is to do, and the user is told.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

from twofold.cli import warn

# Marks the command of such a process, which starts none of its own, with the id of the first one. Not for users, so
# not among the options.
BESIDE = "--beside="


class Beside:
    """Further processes of a comparison, which write their errors to the same stderr."""

    def __init__(self, words: Sequence[str], count: int) -> None:
        self.words, self.count = words, count
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """All of them; once, however often it is called."""
        self.running += [_started(self.words, number) for number in range(1, self.count + 1)]
        self.count = 0

    def tell(self) -> None:
        """A line for each that has failed since the last call: one that was killed says nothing itself."""
        failed = [one for one in self.running if one.poll()]
        self.running = [one for one in self.running if one not in failed]
        for one in failed:
            warn(f"twofold: a process beside this one ended with {one.returncode}; its runs are left to others")

    def end(self) -> None:
        """None goes on alone."""
        for one in self.running:
            if one.poll() is None:
                one.terminate()
        for one in self.running:
            one.wait()


def parted(words: Sequence[str]) -> tuple[int | None, list[str]]:
    """The process that the command's stands beside, if any, and the rest of the words."""
    marks = [word.removeprefix(BESIDE) for word in words if word.startswith(BESIDE)]
    return int(marks[0]) if marks else None, [word for word in words if not word.startswith(BESIDE)]


def _started(words: Sequence[str], number: int) -> subprocess.Popen[bytes]:
    environment = dict(os.environ)
    if len(gpus := _gpus()) > 1:
        environment["CUDA_VISIBLE_DEVICES"] = gpus[number % len(gpus)]
    command = [sys.executable, "-m", "twofold", "compare", *words, f"{BESIDE}{os.getpid()}"]
    # A session of its own: Ctrl-C reaches the first process alone, which ends the others.
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, start_new_session=True)  # noqa: S603


def _gpus() -> list[str]:
    """As CUDA_VISIBLE_DEVICES names them: what the user left visible is what there is."""
    import torch

    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[:count] if visible else [str(number) for number in range(count)]
