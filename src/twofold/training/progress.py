"""What a run tells while it goes, to nobody or to a bar on a terminal. Curves for other programs: `reporters`."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """How things stand after a step; loss and norm are means since the last one told, and one is the largest norm."""

    step: int
    epoch: float
    loss: float
    learning_rate: float
    gradient_norm: float
    largest_gradient_norm: float
    tokens: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Progress(Protocol):
    """Is told how training goes, in the main process only."""

    def started(self, total: int, done: int) -> None: ...

    def step(self, step: Step) -> None: ...

    def evaluated(self, step: int, numbers: Mapping[str, float]) -> None: ...

    def note(self, text: str) -> None: ...

    def finished(self) -> None: ...


class Silent:
    """Ignores what it is told."""

    def started(self, total: int, done: int) -> None:
        pass

    def step(self, step: Step) -> None:
        pass

    def evaluated(self, step: int, numbers: Mapping[str, float]) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def finished(self) -> None:
        pass


class Noted(Silent):
    """Keeps what there is to note, for whoever prints it in a form of their own."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class Bar:
    """A bar with loss, rate, tokens a second and the time left; where there is no terminal, a line now and then."""

    # Between two plain lines.
    SECONDS = 10.0

    def __init__(self, label: str = "training", console: Any = None) -> None:
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress
        except ModuleNotFoundError as error:
            raise ValueError("a progress bar needs rich: pip install '.[cli]' in Twofold's sources") from error
        self._console = Console(stderr=True) if console is None else console
        self._label, self._total, self._last_line = label, 0, -self.SECONDS
        self._before = (0, 0.0)
        self._rich: Any = None
        if self._console.is_terminal:
            self._rich = RichProgress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[told]}"),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._task = self._rich.add_task(label, total=None, told="")

    def started(self, total: int, done: int) -> None:
        self._total = total
        if self._rich is not None:
            self._rich.update(self._task, total=total, completed=done)
            self._rich.start()

    def step(self, step: Step) -> None:
        tokens, seconds = step.tokens - self._before[0], step.seconds - self._before[1]
        self._before = (step.tokens, step.seconds)
        speed = f"{tokens / seconds:,.0f} tokens/s" if seconds > 0 and tokens > 0 else ""
        told = f"loss {step.loss:.4f}  rate {step.learning_rate:.1e}  {speed}".rstrip()
        if self._rich is not None:
            self._rich.update(self._task, completed=step.step, told=told)
        elif time.monotonic() - self._last_line >= self.SECONDS or step.step == self._total:
            self._last_line = time.monotonic()
            self._say(f"step {step.step} of {self._total}  {told}")

    def evaluated(self, step: int, numbers: Mapping[str, float]) -> None:
        self._say(f"step {step}  " + "  ".join(f"{name} {value:.4g}" for name, value in numbers.items()))

    def note(self, text: str) -> None:
        self._say(text)

    def finished(self) -> None:
        if self._rich is not None:
            self._rich.stop()

    def _say(self, text: str) -> None:
        self._console.print(f"{self._label}: {text}", markup=False, highlight=False, soft_wrap=True)
