"""`twofold bench decode`: tokens a second of generation, split against standard at equal parameters and caches."""

import statistics
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from twofold.attention.cache import KeyValueBuffer
from twofold.bench.decoder import Decoder, Sizes, caches_of, parameters
from twofold.bench.machine import where
from twofold.bench.measure import DTYPES, Work, ratio, times_ms
from twofold.bench.standard import fastest


def rows_of(
    sizes: Sizes, *, batch: int, context: int, kind: str, dtype: str, device: torch.device, rounds: int
) -> Iterator[dict[str, object]]:
    """One step after `context` tokens: both models over the same caches, by the fastest of torch's attentions."""
    torch.compiler.reset()
    tokens = torch.randint(sizes.vocabulary, (batch, 1), device=device)
    caches = caches_of(sizes, batch, context, DTYPES[dtype], device)
    models = {name: _decoder(sizes, name, dtype, device) for name in (kind, "standard")}
    _verify(models[kind], tokens, caches)
    with torch.no_grad():
        query = models["standard"].block(0).attention.project(models["standard"].embedding(tokens)).query
    kernel = fastest(False, query, caches[0].key, caches[0].value, backward=False)
    for name, model in models.items():
        _compile(name, model, tokens, caches, kernel)
    works: dict[str, Work] = {name: partial(_step, kernel, model, tokens, caches) for name, model in models.items()}
    times = times_ms(works, rounds, device)
    found = ratio(times["standard"], times[kind])
    speeds = {name: batch / statistics.median(times[name]) * 1e3 for name in times}
    yield {
        "bench": "decode",
        **where(device),
        "dtype": dtype,
        "kind": kind,
        "layers": sizes.layers,
        "B": batch,
        "H": sizes.heads,
        "Hkv": sizes.kv_heads,
        "D": sizes.head_width,
        "context": context,
        "parameters": parameters(models[kind]),
        "standard_parameters": parameters(models["standard"]),
        "standard_tokens_per_s": speeds["standard"],
        "standard_backend": kernel.name.lower(),
        "split_tokens_per_s": speeds[kind],
        "ratio": found.ratio,
        "spread": found.spread,
        "cache_bytes": sum(tensor.nbytes for cache in caches for tensor in (cache.key, cache.value)),
    }


def _decoder(sizes: Sizes, kind: str, dtype: str, device: torch.device) -> Decoder:
    torch.manual_seed(0)
    return Decoder(sizes, kind, device=device, dtype=DTYPES[dtype]).eval().requires_grad_(False)


def _step(kernel: SDPBackend, model: Decoder, tokens: Tensor, caches: list[KeyValueBuffer]) -> Tensor:
    with torch.no_grad(), sdpa_kernel(kernel):
        return model.next_token(tokens, caches)


def _compile(name: str, model: Decoder, tokens: Tensor, caches: list[KeyValueBuffer], kernel: SDPBackend) -> None:
    """And compare: the compiled step is the one that is timed."""
    with torch.no_grad(), sdpa_kernel(kernel):
        eager = model(tokens, caches)
        model.compile_parts()
        compiled = model(tokens, caches)
    error, limit = ((compiled - eager).norm() / eager.norm()).item(), 10 * torch.finfo(eager.dtype).eps
    if not error <= limit:
        raise ArithmeticError(f"compiled, {name} is off by {error:.2g} (limit {limit:.2g}): no time is reported")


def _verify(model: Decoder, tokens: Tensor, caches: list[KeyValueBuffer]) -> None:
    """A step by the cache, of the first layer, is a causal pass over the same keys and values."""
    block, cache = model.block(0), caches[0]
    with torch.no_grad():
        x = block.attention_norm(model.embedding(tokens))
        stepped, after = block.attention(x, cache)
        position = torch.tensor([cache.length], device=tokens.device)
        new = block.attention.project(x, position)
        key = torch.cat([cache.key[:, :, : cache.length], new.key], dim=2).double()
        value = torch.cat([cache.value[:, :, : cache.length], new.value], dim=2).double()
        own = (None if tensor is None else tensor.double() for tensor in (new.self_key, new.self_value))
        expected = block.attention.attend(new.query.double(), key, value, *own, enable_gqa=True, backend="reference")
        expected = block.attention.output(expected.transpose(1, 2).flatten(-2).to(x.dtype))
    error = ((stepped.double() - expected).norm() / expected.double().norm()).item()
    limit = 10 * torch.finfo(x.dtype).eps
    kept = torch.equal(after.key[:, :, cache.length], new.key[:, :, 0])
    if not error <= limit or not kept:
        raise ArithmeticError(
            f"a step is off by {error:.2g} (limit {limit:.2g}), cache kept: {kept}: no time is reported"
        )
