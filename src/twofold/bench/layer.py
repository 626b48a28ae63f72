"""`twofold bench layer`: one compiled transformer layer, split against standard at equal parameters.

Standard uses the kernel of torch that is the fastest on the layer's own queries, keys and values. The rotary table is
an argument, as a model computes it once for all its layers.
"""

import statistics
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from twofold.attention.rotary import RotaryTable
from twofold.bench.measure import DTYPES, Work, check_error, peak_bytes, ratio, times_ms
from twofold.bench.models import parameters
from twofold.bench.standard import fastest, only
from twofold.kernels.api import choose, split_attention
from twofold.kernels.checks import check
from twofold.machine import where
from twofold.models.configs import DecoderConfig
from twofold.models.layers import Layer
from twofold.models.matching import matched
from twofold.models.rope import rotary_of


@dataclass(frozen=True, kw_only=True)
class LayerCase:
    batch: int
    config: DecoderConfig  # of the standard model
    tokens: int
    causal: bool
    kind: str
    dtype: str
    device: torch.device

    def layer(self, kind: str) -> Layer:
        torch.manual_seed(0)
        with self.device:
            return Layer(matched(self.config, kind), 0, is_causal=self.causal).to(DTYPES[self.dtype])

    def rotary_table(self, dtype: torch.dtype) -> RotaryTable:
        return rotary_of(self.config).at(torch.arange(self.tokens, device=self.device), dtype)

    def input(self) -> Tensor:
        generator = torch.Generator(self.device).manual_seed(0)
        shape = (self.batch, self.tokens, self.config.hidden_size)
        return torch.randn(shape, generator=generator, device=self.device, dtype=DTYPES[self.dtype]).requires_grad_()


def rows_of(case: LayerCase, *, rounds: int) -> Iterator[dict[str, object]]:
    """One row, forward + backward: what a layer costs in training."""
    torch.compiler.reset()
    _verify(case)
    split, standard, x = case.layer(case.kind), case.layer("standard"), case.input()
    grad, rotary_table = torch.randn_like(x), case.rotary_table(x.dtype)
    with torch.no_grad():
        projected = standard.self_attn.project(x)
    kernel = fastest(case.causal, *projected[:3], backward=True)
    contenders: dict[str, tuple[Callable[..., Tensor], Layer]] = {
        "split": (_compiled(split), split),
        "standard": (partial(_under, kernel, _compiled(standard)), standard),
    }
    for name, (run, layer) in contenders.items():
        # On the tensors that are timed.
        check_error(f"compiled, {name}", run(x, rotary_table), layer(x, rotary_table), 4)
    works: dict[str, Work] = {
        name: partial(_both, grad, run, layer, x, rotary_table) for name, (run, layer) in contenders.items()
    }
    times = times_ms(works, rounds, case.device)
    against = ratio(times["split"], times["standard"])
    yield {
        "bench": "layer",
        **where(case.device),
        "dtype": case.dtype,
        "kind": case.kind,
        "B": case.batch,
        "H": case.config.num_attention_heads,
        "Hkv": case.config.num_key_value_heads,
        "T": case.tokens,
        "D": case.config.head_dim,
        "causal": case.causal,
        "pass": "fwd+bwd",
        "feed_forward": matched(case.config, case.kind).intermediate_size,
        "standard_feed_forward": case.config.intermediate_size,
        "parameters": parameters(split),
        "standard_parameters": parameters(standard),
        "standard_ms": statistics.median(times["standard"]),
        "standard_backend": kernel.name.lower(),
        "split_ms": statistics.median(times["split"]),
        "split_backend": _chosen(case, split, x),
        "chosen": True,
        "ratio": against.ratio,
        "spread": against.spread,
        "standard_peak_bytes": peak_bytes(works["standard"], case.device),
        "peak_bytes": peak_bytes(works["split"], case.device),
    }


def _compiled(layer: Layer) -> Callable[..., Tensor]:
    return torch.compile(layer, fullgraph=True, dynamic=False)


def _under(kernel: SDPBackend, run: Callable[..., Tensor], x: Tensor, rotary_table: RotaryTable) -> Tensor:
    with only(kernel):
        return run(x, rotary_table)


def _both(grad: Tensor, run: Callable[..., Tensor], layer: Layer, x: Tensor, rotary_table: RotaryTable) -> None:
    torch.autograd.grad(run(x, rotary_table), [x, *layer.parameters()], grad)


def _chosen(case: LayerCase, layer: Layer, x: Tensor) -> str:
    with torch.no_grad():
        projected = layer.self_attn.project(x)
    is_grouped = projected.query.shape[1] != projected.key.shape[1]
    return choose(check(*projected, is_causal=case.causal, enable_gqa=is_grouped)).backend


def _verify(case: LayerCase) -> None:
    """Compare output and input gradient of one sequence of at most 1024 tokens with float64; raise if they are off."""
    small = replace(case, batch=1, tokens=min(case.tokens, 1024))
    layer, x = small.layer(case.kind), small.input()
    exact_layer, exact_x = deepcopy(layer).double(), x.detach().double().requires_grad_()
    exact_layer.self_attn.attend = partial(split_attention, backend="reference")
    grad = torch.randn_like(x)
    out, exact = layer(x, small.rotary_table(x.dtype)), exact_layer(exact_x, small.rotary_table(torch.float64))
    found, expected = torch.autograd.grad(out, x, grad), torch.autograd.grad(exact, exact_x, grad.double())
    # A layer is a chain of some ten roundings.
    for actual, truth in ((out, exact), (found[0], expected[0])):
        check_error(f"{case}: the layer", actual, truth, 10)
