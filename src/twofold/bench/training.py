"""`twofold bench training`: tokens per second of a small decoder, split against standard at equal parameters.

Both are compiled layer by layer, in mixed precision, with torch's fused AdamW. On a GPU a whole step is captured in a
CUDA graph, so that the device's time is compared without that of Python. Or neither is compiled and the wall time of
steps is taken, as most users train at first.
"""

import statistics
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from twofold.bench.measure import DTYPES, eager_times_ms, peak_bytes, ratio, times_ms
from twofold.bench.models import decoder, parameters
from twofold.bench.standard import fastest, only
from twofold.machine import where
from twofold.models.configs import DecoderConfig
from twofold.models.decoder import DecoderForCausalLM

LEARNING_RATE = 3e-4

Step = Callable[[], Tensor]  # one step of training, and its loss


def rows_of(
    config: DecoderConfig,
    *,
    batch: int,
    tokens: int,
    kind: str,
    dtype: str,
    device: torch.device,
    rounds: int,
    eager: bool = False,
) -> Iterator[dict[str, object]]:
    torch.compiler.reset()
    data = torch.randint(
        config.vocab_size, (batch, tokens), device=device, generator=torch.Generator(device).manual_seed(0)
    )
    make = decoder if eager else _compiled
    models = {"split": make(config, kind, device), "standard": make(config, "standard", device)}
    kernel = _fastest(models["standard"], data, dtype)
    works: dict[str, Step] = {
        "split": _training(models["split"], data, dtype),
        "standard": _training(models["standard"], data, dtype, kernel),
    }
    _verify(works)
    times = eager_times_ms(works, rounds) if eager and device.type == "cuda" else times_ms(works, rounds, device)
    # A ratio of tokens per second, so standard's time is the numerator.
    against = ratio(times["standard"], times["split"])
    speeds = {name: batch * tokens / statistics.median(times[name]) * 1e3 for name in times}
    yield {
        "bench": "training",
        **where(device),
        "dtype": dtype,
        "kind": kind,
        "layers": config.num_hidden_layers,
        "B": batch,
        "H": config.num_attention_heads,
        "Hkv": config.num_key_value_heads,
        "T": tokens,
        "D": config.head_dim,
        "causal": True,
        "eager": eager,
        "parameters": parameters(models["split"]),
        "standard_parameters": parameters(models["standard"]),
        "standard_tokens_per_s": speeds["standard"],
        "standard_backend": kernel.name.lower(),
        "split_tokens_per_s": speeds["split"],
        "ratio": against.ratio,
        "spread": against.spread,
        "standard_peak_bytes": peak_bytes(works["standard"], device),
        "peak_bytes": peak_bytes(works["split"], device),
    }


def _fastest(model: DecoderForCausalLM, data: Tensor, dtype: str) -> SDPBackend:
    with torch.no_grad(), torch.autocast(data.device.type, DTYPES[dtype], enabled=dtype != "float32"):
        projected = model.model.layers[0].self_attn.project(model.get_input_embeddings()(data))
    return fastest(True, *(tensor.to(DTYPES[dtype]) for tensor in projected[:3]), backward=True)


def _compiled(config: DecoderConfig, kind: str, device: torch.device) -> DecoderForCausalLM:
    """Compiled layer by layer: all layers share one graph, so it takes seconds and not minutes."""
    model = decoder(config, kind, device)
    for layer in model.model.layers:
        layer.compile(fullgraph=True, dynamic=False)
    return model


def _training(model: DecoderForCausalLM, data: Tensor, dtype: str, kernel: SDPBackend | None = None) -> Step:
    on_gpu = data.device.type == "cuda"
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True, capturable=on_gpu)

    def step() -> Tensor:
        with only(kernel):
            optimiser.zero_grad(set_to_none=True)
            # Autocast's cache of casts cannot be used under CUDA graph capture.
            with torch.autocast(data.device.type, DTYPES[dtype], enabled=dtype != "float32", cache_enabled=False):
                loss = model(data, labels=data, use_cache=False).loss
            loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def _verify(works: dict[str, Step]) -> None:
    """Raise unless three steps on one batch lower each contender's loss."""
    for name, step in works.items():
        losses = [float(step()) for _ in range(4)]
        if not losses[-1] < losses[0]:
            raise ArithmeticError(f"{name} does not learn: losses {losses}: no time is reported")
