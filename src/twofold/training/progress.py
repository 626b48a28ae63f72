"""Progress of work that takes long: silent, or a bar on a terminal. Curves for other programs are in `reporters`.

A training reports its steps, and a comparison the tokens of all of its runs.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from twofold.extras import not_installed


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A training after a step; loss and norm are means since the last report, and one is the largest norm."""

    step: int
    total: int
    """Steps of the whole run."""
    epoch: float
    loss: float
    learning_rate: float
    gradient_norm: float
    largest_gradient_norm: float
    tokens: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Progress:
    """Called as work goes on, in the main process only. This one reports nothing; others override what they report."""

    def started(self, total: int, done: int) -> None:
        """How many steps there are in all, and how many are done: at the start, and whenever others did some."""

    def step(self, step: Step) -> None:
        """After a step, every log_steps."""

    def evaluated(self, step: int, numbers: Mapping[str, float]) -> None:
        """What the model scored on the dev split after a step."""

    def note(self, text: str) -> None:
        """Something that a user should know."""

    def finished(self) -> None:
        """Nothing more will be reported."""


class Noted(Progress):
    """Keeps the notes, for whoever prints them in another form."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class Bar(Progress):
    """A bar with loss, rate, tokens a second and the time left; where there is no terminal, a line now and then.

    Several bars may share a `display`. Where nothing can be written, work goes on.
    """

    # Between two plain lines.
    SECONDS = 10.0

    def __init__(
        self, label: str = "training", console: Any = None, *, unit: str = "step", display: Any = None
    ) -> None:
        self._console = _console() if console is None else console
        self._label, self._unit, self._total, self._last_line = label, unit, 0, -self.SECONDS
        self._before = (0, 0.0)
        self._first: tuple[int, float] | None = None
        self._display = display or (_display(self._console) if self._console.is_terminal else None)
        if self._display is not None:
            self._task = self._display.add_task(label, total=None, text="")

    @classmethod
    def side_by_side(cls, labels: Sequence[str], console: Any) -> list["Bar"]:
        display = _display(console) if console.is_terminal else None
        return [cls(label, console, display=display) for label in labels]

    def started(self, total: int, done: int) -> None:
        self._total, self._first = total, self._first or (done, time.monotonic())
        if self._display is not None:
            self._display.update(self._task, total=total, completed=done)
            self._display.start()
        elif done > self._first[0]:
            self._line(done, "")

    def step(self, step: Step) -> None:
        tokens, seconds = step.tokens - self._before[0], step.seconds - self._before[1]
        self._before = (step.tokens, step.seconds)
        speed = f"{tokens / seconds:,.0f} tokens/s" if seconds > 0 and tokens > 0 else ""
        text = f"  loss {step.loss:.4f}  rate {step.learning_rate:.1e}  {speed}".rstrip()
        if self._display is not None:
            self._display.update(self._task, completed=step.step, text=text.strip())
        else:
            self._line(step.step, text)

    def evaluated(self, step: int, numbers: Mapping[str, float]) -> None:
        self._say(f"{self._unit} {step}  " + "  ".join(f"{name} {value:.4g}" for name, value in numbers.items()))

    def note(self, text: str) -> None:
        self._say(text)

    def finished(self) -> None:
        if self._display is not None:
            self._display.stop()

    def _line(self, done: int, text: str) -> None:
        """A plain line, not too often."""
        now = time.monotonic()
        if now - self._last_line >= self.SECONDS or done == self._total:
            self._last_line = now
            self._say(f"{self._unit} {done:,} of {self._total:,}{text}{self._left(done, now)}")

    def _left(self, done: int, now: float) -> str:
        """The time that the rest takes if it goes on like this."""
        first, since = self._first or (done, now)
        if not first < done < self._total:
            return ""
        return f"  about {span((now - since) / (done - first) * (self._total - done))} left"

    def _say(self, text: str) -> None:
        # Standard error may be full, or its reader gone: that is no reason to end a training.
        with suppress(OSError):
            self._console.print(f"{self._label}: {text}", markup=False, highlight=False, soft_wrap=True)


def span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _console() -> Any:
    try:
        from rich.console import Console
    except ModuleNotFoundError as error:
        raise ValueError(f"{not_installed('rich', 'cli')}: a progress bar needs it") from error

    class Unread(Console):
        """rich would end the process when who read its output leaves."""

        def on_broken_pipe(self) -> None:
            self.quiet = True

    return Unread(stderr=True)


def _display(console: Any) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    text = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[text]}")
    return RichProgress(*text, TimeRemainingColumn(), console=console)
