"""Several `twofold train` at once, one thread each, and a bar for every one of them.

Two side by side, one thread each, beat two in turn with two threads: matrices this small gain little from a second
one. Each is the command that anybody could type; how far it is, its metrics.jsonl says.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from twofold.training import read_metrics
from twofold.training.stopping import listening

SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Training:
    """A run to be trained: words are those after `twofold train`, its folder among them."""

    name: str
    folder: Path
    words: Sequence[str]


def train_at_once(trainings: Sequence[Training], watch: "Watch | None") -> int:
    """Train them all. Returns the signal that stopped them, 0 if none did; a ValueError says what went wrong in one.

    Whatever ends it, none of them goes on alone: they are asked to save and end.
    """
    with ExitStack() as stack:
        complaints = [stack.enter_context(TemporaryFile("w+", encoding="utf-8")) for _ in trainings]
        processes: list[subprocess.Popen[bytes]] = []
        stack.callback(_end, processes)
        for training, file in zip(trainings, complaints, strict=True):
            processes.append(_started(training, file))
        if watch is not None:
            stack.callback(watch.close)
        with listening() as wish:
            while not wish.signal and None in (codes := [one.poll() for one in processes]) and not any(codes):
                if watch is not None:
                    watch.look()
                time.sleep(SECONDS)
            if watch is not None:
                watch.look()
        if wish.signal:
            return wish.signal
        for training, process, file in zip(trainings, processes, complaints, strict=True):
            if process.poll():
                raise ValueError(f"{training.name}: {_last_line(file) or f'ended with {process.returncode}'}")
    return 0


class Watch:
    """Bars on a terminal; elsewhere a line for every look at the dev split."""

    def __init__(self, trainings: Sequence[Training], epochs: float, metric: str, console: Any) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self._trainings, self._epochs, self._metric, self._console = trainings, epochs, metric, console
        self._looks = [0 for _ in trainings]
        self._rich: Any = None
        if console.is_terminal:
            told = TextColumn("{task.fields[told]}")
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), told, TimeRemainingColumn())
            self._rich = Progress(*columns, console=console)
            self._tasks = [self._rich.add_task(one.name, total=epochs, told="getting ready") for one in trainings]
            self._rich.start()

    def look(self) -> None:
        for place, training in enumerate(self._trainings):
            lines = read_metrics(training.folder)
            steps = [line for line in lines if line["kind"] == "step"]
            looks = [line for line in lines if line["kind"] == "evaluation"]
            if not steps:
                continue
            told = f"loss {steps[-1]['loss']:.3f}"
            if looks:
                told += f", {self._metric.replace('_', ' ')} on dev {looks[-1][self._metric]:.1f}"
            if self._rich is not None:
                self._rich.update(self._tasks[place], completed=min(steps[-1]["epoch"], self._epochs), told=told)
            elif len(looks) > self._looks[place]:
                self._looks[place] = len(looks)
                share = min(1.0, steps[-1]["epoch"] / self._epochs)
                self._console.print(f"{training.name:<12} {share:4.0%}  {told}", markup=False, highlight=False)

    def close(self) -> None:
        if self._rich is not None:
            self._rich.stop()


def _started(training: Training, complaints: IO[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "twofold", "train", *training.words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=complaints, env=environment)  # noqa: S603


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask those that still run to save and end. Ctrl-C has reached them already; asked twice at once is asked once."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in processes:
        process.wait()


def _last_line(file: IO[str]) -> str:
    file.seek(0)
    lines = file.read().split("\n")
    return next((line.removeprefix("twofold: ") for line in reversed(lines) if line.strip()), "")
