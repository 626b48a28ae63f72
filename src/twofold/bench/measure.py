"""Time and memory of functions on one device.

Rounds alternate between the contenders, so that a slow moment of the machine hits all of them; what is reported is a
ratio within one run.
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
    """ArithmeticError if `found` is off by more than `limit` roundings of its dtype: a wrong result is not timed."""
    error, allowed = ((found - expected).norm() / expected.norm()).item(), limit * torch.finfo(found.dtype).eps
    if not error <= allowed:
        raise ArithmeticError(f"{what} is off by {error:.2g} (limit {allowed:.2g}): no time is reported")


def times_ms(works: Mapping[str, Work], rounds: int, device: torch.device, warmup: int = 2) -> dict[str, list[float]]:
    """Milliseconds per round and work; a round runs every work.

    On a GPU each work is captured in a CUDA graph and its replays are timed: the device's time, without that of Python.
    """
    if device.type != "cuda":
        return _rounds(works, rounds, _cpu_ms, warmup)
    return _rounds({name: _captured(work, warmup) for name, work in works.items()}, rounds, _cuda_ms, warmup)


def eager_times_ms(works: Mapping[str, Work], rounds: int, warmup: int = 2) -> dict[str, list[float]]:
    """Wall time on a GPU of calls from Python, the launching of kernels included: what an uncompiled program sees."""
    return _rounds(works, rounds, _eager_cuda_ms, warmup)


def _rounds(
    works: Mapping[str, Work], rounds: int, clock: Callable[[Work], float], warmup: int
) -> dict[str, list[float]]:
    for work in works.values():
        for _ in range(warmup):
            work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(clock(work))
    return times


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
    """The peak of the memory that `work` allocates."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with _no_stderr(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    # Not public, but the only record of single allocations, including those inside kernels.
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
    """Redirect the process's stderr: torch's profiler writes a note there at every start and stop."""
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
    def run(times: int) -> float:
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(times):
            work()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) / times

    return _mean_over_2_ms(run)


def _eager_cuda_ms(work: Work) -> float:
    def run(times: int) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(times):
            work()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3 / times

    return _mean_over_2_ms(run)


def _mean_over_2_ms(run: Callable[[int], float]) -> float:
    """The mean over as many runs as take about two milliseconds, so that the clock's own cost does not count."""
    return run(max(1, int(2 / run(1))))
