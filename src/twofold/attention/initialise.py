"""How the weights for oneself start, relative to those for everyone else.

Each class is one way; its call sets the weights of a layer's projections in place. All of them start from ordinary
draws U(-s, s), s = 1 / sqrt(width), which is torch's own default for a linear layer.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn


class Projections(Protocol):
    """The part of a split self-attention layer that an initialisation sees."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    self_key: nn.Linear | None
    self_value: nn.Linear | None
    heads: int
    kv_heads: int


class Init(Protocol):
    def __call__(self, layer: Projections) -> None: ...


@dataclass(frozen=True)
class Copy:
    """The own weights are those for the others: the layer starts as standard attention, exactly."""

    def __call__(self, layer: Projections) -> None:
        for own, other in ((layer.self_key, layer.key), (layer.self_value, layer.value)):
            if own is not None:
                _assign(own, other.weight, other.bias)


@dataclass(frozen=True)
class Independent:
    """The own weights are separate ordinary draws: torch has made them so already."""

    def __call__(self, layer: Projections) -> None:
        del layer


@dataclass(frozen=True)
class Patent:
    """As published (000, paragraph 0060): own keys from U(-s + e, s + e), other keys from U(-s - e, s - e).

    It does nothing after a LayerNorm, whose outputs sum to 0, and has a random sign after an RMSNorm; `Aligned` does
    what the text wants. Values are separate ordinary draws.
    """

    epsilon: float | None = None
    """The shift e; None: s / 2."""

    def __call__(self, layer: Projections) -> None:
        if layer.self_key is None:
            return
        bound = 1 / math.sqrt(layer.key.in_features)
        shift = bound / 2 if self.epsilon is None else self.epsilon
        if shift < 0:
            raise ValueError(f"epsilon must be at least 0, got {self.epsilon}")
        nn.init.uniform_(layer.self_key.weight, -bound + shift, bound + shift)
        nn.init.uniform_(layer.key.weight, -bound - shift, bound - shift)


@dataclass(frozen=True)
class Aligned:
    """W_K' = W_K + strength * W_Q: every token starts by scoring itself higher, by about strength * |q|^2 * scale.

    With grouped queries W_Q is the mean over the query heads that share the key head, and the gain that much smaller:
    a query meets only its own share of the mean. Where keys are normed, as by QK-norm, it is bounded however large
    `strength` is: scale * |q| * |k| over sqrt(2) for 1. Values as in `Copy`.
    """

    strength: float = 1.0

    def __call__(self, layer: Projections) -> None:
        Copy()(layer)
        if layer.self_key is None:
            return
        with torch.no_grad():
            layer.self_key.weight.add_(self._mean(layer.query.weight, layer), alpha=self.strength)
            if layer.self_key.bias is not None:
                layer.self_key.bias.add_(self._mean(layer.query.bias, layer), alpha=self.strength)

    def _mean(self, of_query: torch.Tensor, layer: Projections) -> torch.Tensor:
        """Rows of the query projection, averaged over the heads of a group."""
        grouped = of_query.unflatten(0, (layer.kv_heads, layer.heads // layer.kv_heads, -1))
        return grouped.mean(1).flatten(0, 1)


BY_NAME: dict[str, Init] = {
    "copy": Copy(),
    "patent": Patent(),
    "aligned": Aligned(),
    "independent": Independent(),
}


def init_of(chosen: str | Init) -> Init:
    if callable(chosen) and not isinstance(chosen, type):
        return chosen
    if not isinstance(chosen, str) or chosen not in BY_NAME:
        raise ValueError(f"init must be one of {', '.join(BY_NAME)} or an initialiser, got {chosen!r}")
    return BY_NAME[chosen]


def _assign(layer: nn.Linear, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
