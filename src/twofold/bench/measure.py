"""Time and memory of functions on one device.

Contenders are run in turn, not one after the other, so that a slow moment of the machine hits all of them; what is
reported is a ratio within one run.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

Work = Callable[[], object]

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


class Ratio(NamedTuple):
    ratio: float  # median over rounds of ours / theirs
    spread: float  # distance between the quartiles of that ratio


def check_error(what: str, found: Tensor, expected: Tensor, limit: float) -> None:
    """Raise if a result is off by more than rounding: what is wrong has no time. `limit` is in roundings of `found`."""
    error, allowed = ((found - expected).norm() / expected.norm()).item(), limit * torch.finfo(found.dtype).eps
    if not error <= allowed:
        raise ArithmeticError(f"{what} is off by {error:.2g} (limit {allowed:.2g}): no time is reported")


def times_ms(works: Mapping[str, Work], rounds: int, device: torch.device, warmup: int = 2) -> dict[str, list[float]]:
    """Milliseconds of every round of every work; one round runs each of them once.

    On a GPU a work is captured in a CUDA graph and its replays are timed: what the device needs, without the time in
    which Python launches kernels.
    """
    if device.type == "cuda":
        works = {name: _captured(work, warmup) for name, work in works.items()}
    clock = _cuda_ms if device.type == "cuda" else _cpu_ms
    for work in works.values():
        for _ in range(warmup):
            work()
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            found[name].append(clock(work))
    return found


def _captured(work: Work, warmup: int) -> Work:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(max(warmup, 2)):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def ratio(ours: list[float], theirs: list[float]) -> Ratio:
    rounds = [a / b for a, b in zip(ours, theirs, strict=True)]
    if len(rounds) < 2:
        return Ratio(rounds[0], 0.0)
    low, middle, high = statistics.quantiles(rounds, n=4, method="inclusive")
    return Ratio(middle, high - low)


def peak_bytes(work: Work, device: torch.device) -> int:
    """The most memory that `work` held at once beyond what was held before it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with _no_stderr(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    # Not public, but the only place where torch tells single allocations, those inside its kernels included.
    kineto = getattr(profiler.profiler, "kineto_results", None)
    if kineto is None:
        raise RuntimeError("torch's profiler recorded nothing, so memory cannot be measured")
    events = kineto.events()
    moves = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    held = peak = 0
    for _, size in moves:
        held += size
        peak = max(peak, held)
    return peak


@contextmanager
def _no_stderr() -> Generator[None, None, None]:
    """torch's profiler writes a note to the process's stderr at every start and stop; nothing in Python silences it."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _cpu_ms(work: Work) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def _cuda_ms(work: Work) -> float:
    """The mean over as many runs as fill about two milliseconds, so that the clock's own cost does not count."""

    def run(times: int) -> float:
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(times):
            work()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) / times

    return run(max(1, int(2 / run(1))))
