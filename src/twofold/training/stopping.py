"""Ctrl-C and SIGTERM: asked once, training ends at the next step with everything saved; asked again, at once."""

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Ctrl-C under torchrun comes twice, from the terminal and from torchrun: within so many seconds it is one wish.
ONE_WISH = 1.0


class Stopped(Exception):  # noqa: N818 (nothing went wrong)
    """A signal ended the training; what was done is in the newest checkpoint."""

    def __init__(self, number: int, folder: Path, step: int, saved: int) -> None:
        name = signal.Signals(number).name
        where = "nothing was saved" if saved == 0 else f"saved at step {saved}"
        super().__init__(f"{name} stopped {folder} after step {step}, {where}; go on with resume")
        self.signal, self.step, self.saved, self.folder = number, step, saved, folder

    @property
    def exit_code(self) -> int:
        """As shells count: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.signal


class Wish:
    """Which signal has asked for an end; 0 while none has."""

    def __init__(self) -> None:
        self.signal, self.since = 0, 0.0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.signal:
            self.signal, self.since = number, time.monotonic()
        elif time.monotonic() - self.since > ONE_WISH:
            raise KeyboardInterrupt


@contextmanager
def listening() -> Generator[Wish]:
    """Turn signals into a wish while inside. Python allows that in the main thread only; elsewhere nothing changes."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    before = {number: signal.signal(number, wish) for number in SIGNALS}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
