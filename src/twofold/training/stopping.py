"""What ends a training before its last step.

Ctrl-C and SIGTERM: asked once, it ends at the next step with everything saved; asked again, at once. And numbers that
are not finite.
"""

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Ctrl-C under torchrun comes twice, from the terminal and from torchrun: within so many seconds it is one request.
ONE_REQUEST = 1.0


class Diverged(ArithmeticError):  # noqa: N818 (as the lab says of a run)
    """A loss, a gradient, a weight or a score is not finite."""


class Stopped(Exception):  # noqa: N818 (nothing went wrong)
    """A signal ended the work; `what` says which work it was and what is kept of it."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"{signal.Signals(number).name} stopped {what}")
        self.signal = number

    @property
    def exit_code(self) -> int:
        """As shells count: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.signal


class StopRequest:
    """Which signal has asked for an end; 0 while none has. A second one ends the work at once."""

    def __init__(self) -> None:
        self.signal, self.since = 0, 0.0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.signal:
            self.signal, self.since = number, time.monotonic()
        elif time.monotonic() - self.since > ONE_REQUEST:
            raise KeyboardInterrupt


@contextmanager
def listening() -> Generator[StopRequest]:
    """Turn signals into a request to stop while inside; a listener within a listener has the same one.

    Python allows that in the main thread only; elsewhere nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield StopRequest()
        return
    if isinstance(outer := signal.getsignal(signal.SIGINT), StopRequest):
        yield outer
        return
    request = StopRequest()
    before = {number: signal.signal(number, request) for number in SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
