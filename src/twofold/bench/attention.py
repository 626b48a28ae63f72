"""`twofold bench attention`: split against standard attention, forward and forward + backward.

The yardstick is the fastest plain attention of the machine on the same inputs. Before a backend is timed, its output
and gradients of one key/value head, over at most 4096 tokens, are compared with float64 in the same run. Tensors lie
(B, T, H, D) in memory, as projections make them.
"""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from twofold.bench.measure import DTYPES, Work, check_error, peak_bytes, ratio, times_ms
from twofold.bench.standard import attend, serving
from twofold.kernels.api import MODULES, Backend, choose, split_attention
from twofold.kernels.checks import Options, check
from twofold.machine import where


@dataclass(frozen=True, kw_only=True)
class Case:
    """One shape to measure."""

    batch: int
    heads: int
    kv_heads: int
    tokens: int
    head_width: int
    causal: bool
    kind: str
    dtype: str
    device: torch.device

    def inputs(self, *, are_read: bool = True) -> "Inputs":
        """What attention takes. Where nobody reads them, they are not written either: of long texts that takes long."""
        maker = torch.Generator(self.device).manual_seed(0)

        def draw(heads: int) -> Tensor:
            shape = (self.batch, self.tokens, heads, self.head_width)
            made = torch.empty(shape, device=self.device, dtype=DTYPES[self.dtype])
            return (made.normal_(generator=maker) if are_read else made).transpose(1, 2).requires_grad_()

        return Inputs(
            draw(self.heads),
            draw(self.kv_heads),
            draw(self.kv_heads),
            draw(self.kv_heads) if self.kind in ("split_key", "split_kv") else None,
            draw(self.kv_heads) if self.kind in ("split_value", "split_kv") else None,
        )

    def options(self) -> Options:
        return {"is_causal": self.causal, "enable_gqa": self.heads != self.kv_heads}


class Inputs(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor
    self_key: Tensor | None
    self_value: Tensor | None

    def each(self, change: Callable[[Tensor], Tensor]) -> "Inputs":
        own = [None if tensor is None else change(tensor) for tensor in self[3:]]
        return Inputs(change(self.query), change(self.key), change(self.value), *own)

    def present(self) -> list[Tensor]:
        return [tensor for tensor in self if tensor is not None]


def rows_of(case: Case, *, rounds: int, backends: list[str]) -> Iterator[dict[str, object]]:
    """A row for each pass and each backend that can serve."""
    inputs = case.inputs()
    grad = torch.randn_like(inputs.query)
    call = check(*inputs, **case.options())
    with torch.no_grad():
        forward_alone = choose(call).backend
    chosen = {"fwd": forward_alone, "fwd+bwd": choose(call).backend}
    named = dict.fromkeys([*chosen.values(), *map(Backend, backends)])
    ours = [backend for backend in named if MODULES[backend].why_not(call) is None]
    for backend in ours:
        _verify(case, backend)
    plain = inputs._replace(self_key=None, self_value=None)
    contenders: dict[str, tuple[Callable[..., Tensor], Inputs]] = {
        f"standard {kernel.name.lower()}": (partial(attend, kernel, case.causal), plain)
        for kernel in serving(case.causal, *plain[:3])
    }
    if not contenders:
        raise ValueError(f"no standard attention of torch serves {case}, so there is nothing to compare with")
    for backend in ours:
        contenders[backend] = (partial(split_attention, backend=backend, **case.options()), inputs)
    for passes, run in (("fwd", _forward), ("fwd+bwd", partial(_both, grad))):
        works: dict[str, Work] = {name: partial(run, call, tensors) for name, (call, tensors) in contenders.items()}
        times = times_ms(works, rounds, case.device)
        standard = min(
            (name for name in times if name.startswith("standard")),
            key=lambda name: statistics.median(times[name]),
        )
        for backend in ours:
            found = ratio(times[backend], times[standard])
            yield {
                "bench": "attention",
                **where(case.device),
                "dtype": case.dtype,
                "kind": case.kind,
                "B": case.batch,
                "H": case.heads,
                "Hkv": case.kv_heads,
                "T": case.tokens,
                "D": case.head_width,
                "causal": case.causal,
                "pass": passes,
                "standard_ms": statistics.median(times[standard]),
                "standard_backend": standard.removeprefix("standard "),
                "split_ms": statistics.median(times[backend]),
                "split_backend": str(backend),
                "chosen": backend == chosen[passes],
                "ratio": found.ratio,
                "spread": found.spread,
                "standard_peak_bytes": peak_bytes(works[standard], case.device),
                "peak_bytes": peak_bytes(works[backend], case.device),
            }


def explain(case: Case) -> str:
    """Which backend "auto" takes for this case, forward and backward, and why."""
    choice = choose(check(*case.inputs(are_read=False), **case.options()))
    return f"{choice.backend}: {choice.reason}"


def _forward(run: Callable[..., Tensor], tensors: Inputs) -> None:
    with torch.no_grad():
        run(*tensors)


def _both(grad: Tensor, run: Callable[..., Tensor], tensors: Inputs) -> None:
    torch.autograd.grad(run(*tensors), tensors.present(), grad)


def _verify(case: Case, backend: Backend) -> None:
    """One key/value head's output and gradients against float64; raises if they are off by more than rounding."""
    small = replace(case, batch=1, heads=case.heads // case.kv_heads, kv_heads=1, tokens=min(case.tokens, 4096))
    inputs = small.inputs()
    exact = inputs.each(lambda tensor: tensor.detach().double().requires_grad_())
    found_out = split_attention(*inputs, backend=backend, **small.options())
    exact_out = split_attention(*exact, backend="columns", **small.options())
    grad = torch.randn_like(found_out)
    found = torch.autograd.grad(found_out, inputs.present(), grad)
    expected = torch.autograd.grad(exact_out, exact.present(), grad.double())
    # Half precision rounds what is stored, so one rounding dominates; float32 adds up those of long sums.
    half = found_out.dtype in (torch.bfloat16, torch.float16)
    for one, other in zip((found_out, *found), (exact_out, *expected), strict=True):
        check_error(f"{case}: {backend}", one, other, 2 if half else 32)
