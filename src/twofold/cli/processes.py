"""Further processes that a command starts: each is a command that anybody could type, and none goes on alone.

`twofold demo` trains its two models side by side, one thread each: matrices this small gain little from a second
thread. `twofold compare --at-once N` has N - 1 more of itself, which take runs that nobody has begun.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from twofold.cli import warn
from twofold.training.progress import Bar, Progress, Step
from twofold.training.stopping import listening

# Between two readings of how far the others are.
SECONDS = 0.25
# Marks a process that another one of the same comparison has started, with that one's id. Not for users, so not among
# the options.
BESIDE = "--beside="


class Pool:
    """Processes of twofold that end with this one."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[bytes]] = []

    def launch(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        *,
        errors: IO[str] | None = None,
        own_session: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start `twofold` with these words. Without a session of its own, Ctrl-C reaches it as well."""
        # -P: modules come from where they are installed, never from the working folder.
        command = [sys.executable, "-P", "-m", "twofold", *words]
        process = subprocess.Popen(  # noqa: S603
            command,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, **environment},
            start_new_session=own_session,
        )
        self.running.append(process)
        return process

    def end(self) -> None:
        """Ask those that still run to save and end, and wait until they have."""
        for process in self.running:
            if process.poll() is None:
                process.terminate()
        for process in self.running:
            process.wait()


@dataclass(frozen=True, slots=True)
class Training:
    """A run to be trained: `words` are those after `twofold train`, its folder among them."""

    name: str
    folder: Path
    words: Sequence[str]


def train_at_once(trainings: Sequence[Training], console: Any) -> int:
    """Train them side by side, each with a bar on `console` unless that is None.

    Returns the signal that stopped them, 0 if none did; a ValueError says what went wrong in one. Whatever ends it,
    none of them goes on alone: they are asked to save and end.
    """
    pool = Pool()
    with ExitStack() as stack:
        errors = [stack.enter_context(TemporaryFile("w+", encoding="utf-8")) for _ in trainings]
        stack.callback(pool.end)
        for training, file in zip(trainings, errors, strict=True):
            pool.launch(["train", *training.words], {"OMP_NUM_THREADS": "1"}, errors=file)
        followers = []
        if console is not None:
            bars = Bar.side_by_side([training.name for training in trainings], console)
            followers = [Follower(training.folder, bar) for training, bar in zip(trainings, bars, strict=True)]
            for bar in bars:
                stack.callback(bar.finished)
        with listening() as request:
            are_running = True
            while are_running and not request.signal:
                time.sleep(SECONDS)
                codes = [process.poll() for process in pool.running]
                are_running = None in codes and not any(codes)
                for follower in followers:
                    follower.follow()
        if request.signal:
            return request.signal
        for training, process, file in zip(trainings, pool.running, errors, strict=True):
            if process.poll():
                raise ValueError(f"{training.name}: {_last_line(file) or f'ended with {process.returncode}'}")
    return 0


class Follower:
    """Tells a progress what another process writes into its metrics.jsonl."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self.folder, self.progress, self.lines = folder, progress, 0

    def follow(self) -> None:
        """Whatever is new since the last call."""
        from twofold.training import read_metrics

        lines = read_metrics(self.folder)
        for line in lines[self.lines :]:
            numbers = {name: value for name, value in line.items() if name != "kind"}
            if line["kind"] == "step" and "total" in line:
                self.progress.started(line["total"], line["step"])
                self.progress.step(Step(**numbers))
            elif line["kind"] == "evaluation":
                self.progress.evaluated(numbers.pop("step"), numbers)
        self.lines = len(lines)


class Beside(Pool):
    """Further processes of a comparison: they take runs that nobody has begun, and write to the same standard error."""

    def __init__(self, words: Sequence[str], count: int) -> None:
        super().__init__()
        self.words, self.count = words, count

    def start(self) -> None:
        """All of them; once, however often it is called."""
        gpus = _gpus() if self.count else []
        for number in range(1, self.count + 1):
            environment = {"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]} if len(gpus) > 1 else {}
            # Ctrl-C is to reach the first process alone, which ends the others.
            self.launch(["compare", *self.words, f"{BESIDE}{os.getpid()}"], environment, own_session=True)
        self.count = 0

    def tell(self) -> None:
        """A line for each that has failed since the last call: one that was killed says nothing itself."""
        failed = [process for process in self.running if process.poll()]
        self.running = [process for process in self.running if process not in failed]
        for process in failed:
            warn(f"twofold: a process beside this one ended with {process.returncode}; its runs are left to others")


def parted(words: Sequence[str]) -> tuple[int | None, list[str]]:
    """The process that this one was started by, if it was, and the words without its mark."""
    marks = [word.removeprefix(BESIDE) for word in words if word.startswith(BESIDE)]
    return int(marks[0]) if marks else None, [word for word in words if not word.startswith(BESIDE)]


def _gpus() -> list[str]:
    """As CUDA_VISIBLE_DEVICES names them: what the user left visible is what there is."""
    import torch

    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[:count] if visible else [str(number) for number in range(count)]


def _last_line(file: IO[str]) -> str:
    file.seek(0)
    lines = file.read().split("\n")
    return next((line.removeprefix("twofold: ") for line in reversed(lines) if line.strip()), "")
