"""`twofold bench attention`: split against standard attention, forward and forward + backward.

The yardstick is the fastest standard attention of the machine on the same inputs; FlexAttention is a rival. Before
anything is timed, its output and gradients for one key/value head and at most 4096 tokens are compared with float64.
Tensors are (B, T, H, D) in memory, as projections return them.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from twofold.bench import flex
from twofold.bench.measure import DTYPES, Work, check_error, eager_times_ms, peak_bytes, ratio, times_ms
from twofold.bench.standard import attend as attend_by
from twofold.bench.standard import serving
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
        """The arguments of attention. are_read=False leaves them uninitialised, which saves time for long texts."""
        generator = torch.Generator(self.device).manual_seed(0)

        def draw(heads: int) -> Tensor:
            shape = (self.batch, self.tokens, heads, self.head_width)
            tensor = torch.empty(shape, device=self.device, dtype=DTYPES[self.dtype])
            return (tensor.normal_(generator=generator) if are_read else tensor).transpose(1, 2).requires_grad_()

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


Attend = Callable[..., Tensor]  # of query, key, value, self_key and self_value


def rows_of(
    case: Case, *, rounds: int, backends: Sequence[str], left_out: Callable[[str], object] = lambda _: None
) -> Iterator[dict[str, object]]:
    """A row for each pass and each of `backends` that serves, and for those that `auto` chooses.

    left_out: is given the reason if FlexAttention, "flex" among the backends, cannot be measured.
    """
    inputs = case.inputs()
    grad = torch.randn_like(inputs.query)
    call = check(*inputs, **case.options())
    with torch.no_grad():
        forward_alone = choose(call).backend
    chosen = {"fwd": forward_alone, "fwd+bwd": choose(call).backend}
    names = dict.fromkeys([*chosen.values(), *(Backend(name) for name in backends if name != flex.NAME)])
    ours: dict[str, Attend] = {
        name: partial(split_attention, backend=name, **case.options())
        for name in names
        if MODULES[name].why_not(call) is None
    }
    for name, attend in ours.items():
        _verify(case, name, attend)
    if flex.NAME in backends:
        try:
            ours[flex.NAME] = _flex(case, inputs, grad)
        except ValueError as error:
            left_out(f"flex left out: {error}")
    standard = inputs._replace(self_key=None, self_value=None)
    contenders: dict[str, tuple[Attend, Inputs]] = {
        f"standard {kernel.name.lower()}": (partial(attend_by, kernel, case.causal), standard)
        for kernel in serving(case.causal, *standard[:3])
    }
    if not contenders:
        raise ValueError(f"no standard attention of torch serves {case}, so there is nothing to compare with")
    contenders |= {name: (attend, inputs) for name, attend in ours.items()}
    for passes, run in (("fwd", _forward), ("fwd+bwd", partial(_both, grad))):
        works: dict[str, Work] = {name: partial(run, attend, tensors) for name, (attend, tensors) in contenders.items()}
        times = times_ms(works, rounds, case.device)
        # On a CPU both are the same.
        eager = eager_times_ms(works, rounds) if case.device.type == "cuda" else times
        yardstick, eager_yardstick = _fastest_standard(times), _fastest_standard(eager)
        for name in ours:
            against, in_eager = ratio(times[name], times[yardstick]), ratio(eager[name], eager[eager_yardstick])
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
                "standard_ms": statistics.median(times[yardstick]),
                "standard_backend": yardstick.removeprefix("standard "),
                "split_ms": statistics.median(times[name]),
                "split_backend": str(name),
                "chosen": name == chosen[passes],
                "ratio": against.ratio,
                "spread": against.spread,
                "standard_eager_ms": statistics.median(eager[eager_yardstick]),
                "split_eager_ms": statistics.median(eager[name]),
                "eager_ratio": in_eager.ratio,
                "eager_spread": in_eager.spread,
                "standard_peak_bytes": peak_bytes(works[yardstick], case.device),
                "peak_bytes": peak_bytes(works[name], case.device),
            }


def explain(case: Case) -> str:
    """Which backend "auto" takes for this case, with gradients, and why."""
    choice = choose(check(*case.inputs(are_read=False), **case.options()))
    return f"{choice.backend}: {choice.reason}"


def _fastest_standard(times: dict[str, list[float]]) -> str:
    names = (name for name in times if name.startswith("standard"))
    return min(names, key=lambda name: statistics.median(times[name]))


def _flex(case: Case, inputs: Inputs, grad: Tensor) -> Attend:
    """FlexAttention compiled for these inputs, after its check; ValueError where it cannot run or is wrong."""
    if obstacle := flex.why_not(case.device, case.dtype):
        raise ValueError(obstacle)
    try:
        torch.compiler.reset()
        _verify(case, flex.NAME, flex.compiled(_small(case).tokens, case.causal, case.device))
        torch.compiler.reset()
        attend = flex.compiled(case.tokens, case.causal, case.device)
        _forward(attend, inputs)
        _both(grad, attend, inputs)
    except (RuntimeError, ArithmeticError) as error:  # torch's compiler fails with a RuntimeError
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(f"at T={case.tokens}: {reason:.200}") from None
    return attend


def _forward(run: Attend, tensors: Inputs) -> None:
    with torch.no_grad():
        run(*tensors)


def _both(grad: Tensor, run: Attend, tensors: Inputs) -> None:
    torch.autograd.grad(run(*tensors), tensors.present(), grad)


def _small(case: Case) -> Case:
    """One key/value head and at most 4096 tokens of a case."""
    return replace(case, batch=1, heads=case.heads // case.kv_heads, kv_heads=1, tokens=min(case.tokens, 4096))


def _verify(case: Case, name: str, attend: Attend) -> None:
    """Compare output and gradients of the small case with float64; ArithmeticError if off by more than rounding."""
    small = _small(case)
    inputs = small.inputs()
    exact = inputs.each(lambda tensor: tensor.detach().double().requires_grad_())
    found_out = attend(*inputs)
    exact_out = split_attention(*exact, backend="columns", **small.options())
    grad = torch.randn_like(found_out)
    found = torch.autograd.grad(found_out, inputs.present(), grad)
    expected = torch.autograd.grad(exact_out, exact.present(), grad.double())
    # In half precision the rounding of the result dominates; float32 accumulates those of long sums.
    half = found_out.dtype in (torch.bfloat16, torch.float16)
    for actual, truth in zip((found_out, *found), (exact_out, *expected), strict=True):
        check_error(f"{case}: {name}", actual, truth, 2 if half else 32)
