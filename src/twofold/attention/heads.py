"""From model width to heads and back."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.modules import module as modules

from twofold.kernels import autocast
from twofold.kernels.products import products, serves

# Tokens from which all projections are one product, over weights that are laid side by side first. By its bytes that
# laying costs as much as multiplying some 300 tokens; it saves launches and sums of the input's gradients, and makes a
# layer and its training faster (LOG.md, "A layer at equal parameters").
SIDE_BY_SIDE_FROM = 2048


def check_heads(width: int, heads: int, kv_heads: int | None, head_width: int | None) -> tuple[int, int, int]:
    """heads, kv_heads and head_width with their defaults filled in, or a ValueError."""
    for name, number in (("width", width), ("heads", heads), ("kv_heads", kv_heads), ("head_width", head_width)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}")
    if head_width is None:
        if width % heads:
            raise ValueError(f"heads must divide width {width} unless head_width is given, got {heads}")
        head_width = width // heads
    kv_heads = heads if kv_heads is None else kv_heads
    if heads % kv_heads:
        raise ValueError(f"kv_heads must divide heads {heads}, got {kv_heads}")
    return heads, kv_heads, head_width


def check_dropout(dropout: float) -> float:
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
        raise ValueError(f"dropout must be a number from 0 to 1, got {dropout!r}")
    return dropout


def check_input(name: str, x: Tensor, layer: nn.Module) -> None:
    """x must be what the layer's projection takes: (B, T, width), in its dtype unless autocast casts it.

    What came in a projection's place, quantised or an adapter, knows by itself what it takes.
    """
    if not isinstance(x, Tensor):
        raise ValueError(f"{name} must be a torch.Tensor, got {type(x).__name__}")
    width = layer.in_features if type(layer) is nn.Linear else x.shape[-1]
    if x.dim() != 3 or x.shape[-1] != width:
        raise ValueError(f"{name} must have shape (B, T, {width}), got {tuple(x.shape)}")
    if type(layer) is nn.Linear and x.dtype != layer.weight.dtype and not autocast.is_on(x.device.type):
        raise ValueError(f"{name} must have the layer's dtype {layer.weight.dtype}, got {x.dtype}")


def side_by_side(x: Tensor, *projections: nn.Linear | None) -> list[Any]:
    """What each projection makes of x (B, T, C), None for None: in one product where that is faster.

    That is in training, of many tokens (at inference a cache of keys and values would hold the whole product alive),
    and in a step of generation on a GPU.
    """
    present = [projection for projection in projections if projection is not None]
    # First of all: what is not plain may have no weight, or one that is computed each time somebody looks.
    plain = all(is_plain(projection, nn.Linear) for projection in present)
    weights: list[Tensor] = [projection.weight for projection in present] if plain else []
    biases: list[Tensor] = [projection.bias for projection in present if projection.bias is not None] if plain else []
    together = plain and len(biases) in (0, len(present))
    if together and serves(x, weights, biases):
        outputs = products(x, weights, biases)
    elif together and torch.is_grad_enabled() and x.shape[0] * x.shape[1] >= SIDE_BY_SIDE_FROM:
        weight, bias = torch.cat(weights), torch.cat(biases) if biases else None
        outputs = linear(x, weight, bias).split([projection.out_features for projection in present], dim=-1)
    else:
        outputs = [projection(x) for projection in present]
    following = iter(outputs)
    return [None if projection is None else next(following) for projection in projections]


def is_plain(module: nn.Module, *kinds: type[nn.Module]) -> bool:
    """One of these kinds and nothing more: no adapter, no quantised or sharded weight, nobody listening."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    everywhere = (modules._global_forward_hooks, modules._global_forward_pre_hooks, modules._global_backward_hooks)
    if type(module) not in kinds or "forward" in vars(module) or any(hooks) or any(everywhere):
        return False
    return all(type(parameter) is nn.Parameter for parameter in module._parameters.values() if parameter is not None)


def split(x: Tensor, head_width: int) -> Tensor:
    """(B, T, heads * D) -> (B, heads, T, D), a view. By D, so that a part of the heads serves as well."""
    return x.unflatten(-1, (-1, head_width)).transpose(1, 2)


def merged(x: Tensor) -> Tensor:
    """(B, H, T, D) -> (B, T, H * D)."""
    return x.transpose(1, 2).flatten(-2)
