"""`twofold bench decode`: tokens per second of generation, split against standard at equal parameters and caches.

Each contender is a whole compiled step of the model over the same transformers cache. Standard runs twice: as any model
here runs over a static cache, and by torch's fastest attention over a cache that happens to be full, so that it needs
no mask. The faster of the two is the yardstick.
"""

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend
from transformers.cache_utils import Cache, StaticCache, StaticLayer

from twofold.bench.measure import DTYPES, Work, check_error, ratio, times_ms
from twofold.bench.models import decoder, parameters
from twofold.bench.standard import fastest, only
from twofold.kernels.api import split_attention
from twofold.machine import where
from twofold.models.configs import DecoderConfig
from twofold.models.decoder import DecoderForCausalLM
from twofold.models.rope import rotary_of


class FullLayer(StaticLayer):
    """A static layer's memory with all but the last slot filled; the length is a Python int."""

    def __init__(self, like: Any) -> None:
        super().__init__(max_cache_len=like.max_cache_len)
        self.keys: Any = like.keys
        self.values: Any = like.values
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        self.keys[:, :, -1:], self.values[:, :, -1:] = key_states, value_states
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self.max_cache_len - 1


def rows_of(
    config: DecoderConfig, *, batch: int, context: int, kind: str, dtype: str, device: torch.device, rounds: int
) -> Iterator[dict[str, object]]:
    """One step after `context` tokens."""
    torch.compiler.reset()
    tokens = torch.randint(config.vocab_size, (batch, 1), device=device)
    cache = _filled(config, batch, context, DTYPES[dtype], device)
    layers: list[Any] = cache.layers
    full = Cache(layers=[FullLayer(layer) for layer in layers])
    split, standard = (_decoder(config, name, dtype, device) for name in (kind, "standard"))
    _verify(split, tokens, cache)
    with torch.no_grad():
        query = standard.model.layers[0].self_attn.project(standard.get_input_embeddings()(tokens)).query
    kernel = fastest(False, query, layers[0].keys, layers[0].values, backward=False)
    by_torch = kernel.name.lower()
    works: dict[str, Work] = {
        kind: _compiled(kind, split, tokens, cache),
        "static_cache": _compiled("standard", standard, tokens, cache),
        by_torch: _compiled(by_torch, standard, tokens, full, kernel),
    }
    times = times_ms(works, rounds, device)
    yardstick = min(("static_cache", by_torch), key=lambda name: statistics.median(times[name]))
    against = ratio(times[yardstick], times[kind])
    speeds = {name: batch / statistics.median(times[name]) * 1e3 for name in times}
    yield {
        "bench": "decode",
        **where(device),
        "dtype": dtype,
        "kind": kind,
        "layers": config.num_hidden_layers,
        "B": batch,
        "H": config.num_attention_heads,
        "Hkv": config.num_key_value_heads,
        "D": config.head_dim,
        "context": context,
        "parameters": parameters(split),
        "standard_parameters": parameters(standard),
        "standard_tokens_per_s": speeds[yardstick],
        "standard_backend": yardstick,
        "split_tokens_per_s": speeds[kind],
        "ratio": against.ratio,
        "spread": against.spread,
        "cache_bytes": sum(tensor.nbytes for layer in layers for tensor in (layer.keys, layer.values)),
    }


def _decoder(config: DecoderConfig, kind: str, dtype: str, device: torch.device) -> DecoderForCausalLM:
    return decoder(config, kind, device, DTYPES[dtype]).eval().requires_grad_(False)


def _filled(config: Any, batch: int, context: int, dtype: torch.dtype, device: torch.device) -> StaticCache:
    """A cache with `context` random tokens and room for one more."""
    cache = StaticCache(config=config, max_cache_len=context + 1)
    shape = (batch, config.num_key_value_heads, context, config.head_dim)
    for number in range(config.num_hidden_layers):
        key, value = (torch.randn(shape, dtype=dtype, device=device) for _ in range(2))
        cache.update(key, value, number)
    return cache


def _step(model: DecoderForCausalLM, tokens: Tensor, cache: Cache) -> tuple[Tensor, Tensor]:
    """Logits and the likeliest next token (B, 1). The cache's length is set back, so that every step is the same."""
    logits = model(tokens, past_key_values=cache, use_cache=True).logits
    for number in range(len(cache.layers)):
        _forget(cache, number)
    return logits, logits.argmax(-1)


def _forget(cache: Cache, number: int) -> None:
    """Set a layer's length back by one. A static layer returns the tensor it counts in; a full one does not count."""
    length: Any = cache.get_seq_length(number)
    if isinstance(length, Tensor):
        length.sub_(1)


def _compiled(
    name: str, model: DecoderForCausalLM, tokens: Tensor, cache: Cache, kernel: SDPBackend | None = None
) -> Work:
    """The compiled step, after a check against the eager one."""
    compiled = torch.compile(_step, fullgraph=True, dynamic=False)

    def run(step: Callable[..., tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        with torch.no_grad(), only(kernel):
            return step(model, tokens, cache)

    eager = run(_step)[0]
    check_error(f"compiled, {name}", run(compiled)[0], eager, 10)
    return partial(run, compiled)


def _verify(model: DecoderForCausalLM, tokens: Tensor, cache: StaticCache) -> None:
    """Compare a step of the first layer over the cache with attention in float64 over the same keys and values."""
    layer, length = model.model.layers[0], int(cache.get_seq_length())
    kept: Any = cache.layers[0]
    with torch.no_grad():
        x = layer.attention_norm(model.get_input_embeddings()(tokens))
        rotary_table = rotary_of(model.config).at(torch.tensor([length], device=x.device), x.dtype)
        new = layer.self_attn.project(x, rotary_table)
        stepped, _ = layer.self_attn(x, rotary_table, None, cache)
        _forget(cache, 0)
        own = (None if tensor is None else tensor.double() for tensor in (new.self_key, new.self_value))
        key, value = kept.keys.double(), kept.values.double()
        expected = split_attention(new.query.double(), key, value, *own, enable_gqa=True, backend="reference")
        expected = layer.self_attn.output(expected.transpose(1, 2).flatten(-2).to(x.dtype))
    check_error("a step", stepped, expected.double(), 10)
    if not torch.equal(kept.keys[:, :, length], new.key[:, :, 0]):
        raise ArithmeticError("a step does not keep its key in the cache: no time is reported")
