"""`twofold bench layer`: one compiled transformer layer, split against standard at equal parameters.

Standard rides on the attention of torch that is the fastest on the layer's own queries, keys and values. The rotary
turn comes from outside, as a model makes it once for all its layers.
"""

import statistics
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from twofold.attention.rotary import Rotary, Turn
from twofold.bench.decoder import Block, Sizes, parameters
from twofold.bench.machine import where
from twofold.bench.measure import DTYPES, Work, peak_bytes, ratio, times_ms
from twofold.bench.standard import fastest
from twofold.kernels.api import choose, split_attention
from twofold.kernels.checks import check


@dataclass(frozen=True, kw_only=True)
class LayerCase:
    batch: int
    sizes: Sizes
    tokens: int
    causal: bool
    kind: str
    dtype: str
    device: torch.device

    def block(self, kind: str) -> Block:
        torch.manual_seed(0)
        return Block(self.sizes, kind, device=self.device, dtype=DTYPES[self.dtype])

    def input(self) -> Tensor:
        maker = torch.Generator(self.device).manual_seed(0)
        shape = (self.batch, self.tokens, self.sizes.width)
        return torch.randn(shape, generator=maker, device=self.device, dtype=DTYPES[self.dtype]).requires_grad_()


def rows_of(case: LayerCase, *, rounds: int) -> Iterator[dict[str, object]]:
    """One row, forward + backward: what a layer costs in training."""
    torch.compiler.reset()
    _verify(case)
    split, standard, x = case.block(case.kind), case.block("standard"), case.input()
    grad, turn = (
        torch.randn_like(x),
        Rotary(width=case.sizes.head_width).at(torch.arange(case.tokens, device=x.device), x.dtype),
    )
    with torch.no_grad():
        made = standard.attention.project(x)
    kernel = fastest(case.causal, *made[:3], backward=True)
    contenders: dict[str, tuple[Callable[..., Tensor], Block]] = {
        "split": (_compiled(split), split),
        "standard": (partial(_under, kernel, _compiled(standard)), standard),
    }
    for name, (run, block) in contenders.items():
        _agree(name, run(x, positions=turn, is_causal=case.causal), block(x, positions=turn, is_causal=case.causal))
    works: dict[str, Work] = {
        name: partial(_both, grad, run, block, x, turn, case.causal) for name, (run, block) in contenders.items()
    }
    times = times_ms(works, rounds, case.device)
    found = ratio(times["split"], times["standard"])
    yield {
        "bench": "layer",
        **where(case.device),
        "dtype": case.dtype,
        "kind": case.kind,
        "B": case.batch,
        "H": case.sizes.heads,
        "Hkv": case.sizes.kv_heads,
        "T": case.tokens,
        "D": case.sizes.head_width,
        "causal": case.causal,
        "pass": "fwd+bwd",
        "feed_forward": case.sizes.feed_forward(case.kind),
        "standard_feed_forward": case.sizes.feed_forward("standard"),
        "parameters": parameters(split),
        "standard_parameters": parameters(standard),
        "standard_ms": statistics.median(times["standard"]),
        "standard_backend": kernel.name.lower(),
        "split_ms": statistics.median(times["split"]),
        "split_backend": _chosen(case, split, x),
        "chosen": True,
        "ratio": found.ratio,
        "spread": found.spread,
        "standard_peak_bytes": peak_bytes(works["standard"], case.device),
        "peak_bytes": peak_bytes(works["split"], case.device),
    }


def _compiled(block: Block) -> Callable[..., Tensor]:
    return torch.compile(block, fullgraph=True, dynamic=False)


def _under(kernel: SDPBackend, run: Callable[..., Tensor], x: Tensor, **options: object) -> Tensor:
    with sdpa_kernel(kernel):
        return run(x, **options)


def _both(grad: Tensor, run: Callable[..., Tensor], block: Block, x: Tensor, turn: Turn, causal: bool) -> None:
    torch.autograd.grad(run(x, positions=turn, is_causal=causal), [x, *block.parameters()], grad)


def _chosen(case: LayerCase, block: Block, x: Tensor) -> str:
    with torch.no_grad():
        made = block.attention.project(x)
    return choose(check(*made, is_causal=case.causal, enable_gqa=case.sizes.heads != case.sizes.kv_heads)).backend


def _agree(name: str, compiled: Tensor, eager: Tensor) -> None:
    """The compiled layer on the very tensors that are timed."""
    error, limit = ((compiled - eager).norm() / eager.norm()).item(), 4 * torch.finfo(eager.dtype).eps
    if not error <= limit:
        raise ArithmeticError(f"compiled, {name} is off by {error:.2g} (limit {limit:.2g}): no time is reported")


def _verify(case: LayerCase) -> None:
    """Output and input gradient of one sequence of at most 1024 tokens against float64; raises if they are off."""
    small = replace(case, batch=1, tokens=min(case.tokens, 1024))
    block, x = small.block(case.kind), small.input()
    exact_block, exact_x = deepcopy(block).double(), x.detach().double().requires_grad_()
    exact_block.attention.attend = partial(split_attention, backend="reference")
    grad = torch.randn_like(x)
    out, exact = block(x, is_causal=case.causal), exact_block(exact_x, is_causal=case.causal)
    found, expected = torch.autograd.grad(out, x, grad), torch.autograd.grad(exact, exact_x, grad.double())
    # A layer is a chain of some ten roundings.
    limit = 10 * torch.finfo(x.dtype).eps
    for a, b in ((out, exact), (found[0], expected[0])):
        error = ((a - b).norm() / b.norm()).item()
        if not error <= limit:
            raise ArithmeticError(f"the layer is off by {error:.2g} (limit {limit:.2g}) on {case}: no time is reported")
