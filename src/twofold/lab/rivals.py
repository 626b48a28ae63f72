"""What else could give the gain: other ways to treat a token's own place, as parts that replace a layer's attention.

Each is one small class over the seams of `SelfAttention`: `mapped` (linear maps of the input), `project` (what the
kernels are given), `joined` (what becomes of the heads' outputs) and `start` (its own parameters' first values). All
go through the function of split attention, with every cache. `arms` says where each idea comes from.

What works on the heads' outputs does so after they are merged: a gradient that came back to the kernels in another
layout than theirs is one that cuDNN gets silently wrong (`kernels.library`).
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import initialization as init

from twofold.attention.heads import merged, side_by_side
from twofold.attention.rotary import RotaryTable
from twofold.attention.split import Projected
from twofold.models.layers import SelfAttention

# An own score that no other score comes near: the weight that it gets is 0 in every dtype.
FAR_BELOW = -1.0e4
# Queries with a smaller square have no direction to speak of.
SMALLEST_SQUARE = 1.0e-6


class Tied(SelfAttention):
    """Split attention, its kernels included, whose own keys and values are those for everyone else: a control."""

    def project(self, x: Tensor, positions: Tensor | RotaryTable | None = None) -> Projected:
        new = super().project(x, positions)
        return new._replace(self_key=new.key, self_value=new.value)


class SelfBias(SelfAttention):
    """A learned number a head, added to every token's score with itself. It starts at 0."""

    def __init__(self, config: Any, layer_idx: int, *, is_causal: bool) -> None:
        super().__init__(config, layer_idx, is_causal=is_causal)
        _check_ungrouped(self, "a self bias")
        self.self_bias = nn.Parameter(torch.zeros(self.heads))

    def start(self) -> None:
        init.zeros_(self.self_bias)

    def project(self, x: Tensor, positions: Tensor | RotaryTable | None = None) -> Projected:
        new = super().project(x, positions)
        shift = scoring(new.query, self.self_bias[:, None, None])
        return new._replace(self_key=(new.key.to(shift.dtype) + shift).to(new.key.dtype))


class SelfStart(SelfBias):
    """A self bias that starts where `Aligned` puts the own score under QK-norm: the start of a split without a split.

    There k + q, of independent vectors of one length, lies at 45 degrees to q: sqrt(D) cos 45.
    """

    def start(self) -> None:
        init.constant_(self.self_bias, (self.head_width / 2) ** 0.5)


class MaskedDiagonal(SelfAttention):
    """No token sees itself. One that has nobody else gets 0, though a map of weights shows it looking at itself."""

    def __init__(self, config: Any, layer_idx: int, *, is_causal: bool) -> None:
        super().__init__(config, layer_idx, is_causal=is_causal)
        _check_ungrouped(self, "a masked diagonal")

    def project(self, x: Tensor, positions: Tensor | RotaryTable | None = None) -> Projected:
        new = super().project(x, positions)
        nowhere = scoring(new.query.detach(), FAR_BELOW).to(new.key.dtype)
        return new._replace(self_key=nowhere, self_value=torch.zeros_like(new.value))


class Exclusive(SelfAttention):
    """Every head's output loses its component along the token's own value vector: y - (y . v) v / |v|^2."""

    def joined(self, out: Tensor, new: Projected, x: Tensor) -> Tensor:
        del x
        # Grouped queries share a value. In float32 or better: what is left may be small beside what is taken.
        found = _exact(merged(out)).unflatten(-1, (self.kv_heads, -1, self.head_width))  # (B, T, Hkv, groups, D)
        value = _exact(new.value).transpose(1, 2)[:, :, :, None]
        share = (found * value).sum(-1, keepdim=True) / value.square().sum(-1, keepdim=True).clamp(min=1e-12)
        return self.output((found - share * value).flatten(-3).to(out.dtype))


class Gated(SelfAttention):
    """A sigmoid of a linear map of the layer's input scales every feature of the heads' outputs."""

    def __init__(self, config: Any, layer_idx: int, *, is_causal: bool) -> None:
        super().__init__(config, layer_idx, is_causal=is_causal)
        self.gate = nn.Linear(config.hidden_size, self.heads * self.head_width, bias=config.attention_bias)

    def joined(self, out: Tensor, new: Projected, x: Tensor) -> Tensor:
        del new
        return self.output(merged(out) * self.gate(x).sigmoid())


class LowRank(SelfAttention):
    """Own keys and values by W' = W + B A with A of `rank` rows. B starts at 0, and so the layer as standard."""

    rank: ClassVar[int]

    def __init__(self, config: Any, layer_idx: int, *, is_causal: bool) -> None:
        super().__init__(config, layer_idx, is_causal=is_causal)
        width, rows = config.hidden_size, self.kv_heads * self.head_width
        self.key_down, self.value_down = (nn.Linear(width, self.rank, bias=False) for _ in range(2))
        self.key_up, self.value_up = (nn.Linear(self.rank, rows, bias=False) for _ in range(2))

    def start(self) -> None:
        init.zeros_(self.key_up.weight)
        init.zeros_(self.value_up.weight)

    def mapped(self, x: Tensor) -> list[Any]:
        query, key, value, *_ = super().mapped(x)
        of_key, of_value = side_by_side(x, self.key_down, self.value_down)
        return [query, key, value, key + self.key_up(of_key), value + self.value_up(of_value)]


class LowRank8(LowRank):
    rank = 8


class LowRank32(LowRank):
    rank = 32


class LinearPath(SelfAttention):
    """Standard attention plus a linear map of each token by itself, which starts at 0: the layer starts as standard."""

    def __init__(self, config: Any, layer_idx: int, *, is_causal: bool) -> None:
        super().__init__(config, layer_idx, is_causal=is_causal)
        self.path = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def start(self) -> None:
        init.zeros_(self.path.weight)

    def joined(self, out: Tensor, new: Projected, x: Tensor) -> Tensor:
        return super().joined(out, new, x) + self.path(x)


def scoring(query: Tensor, score: Tensor | float) -> Tensor:
    """The vector along each query (B, H, T, D) whose scaled product with it is `score`: as part of an own key, a bias.

    Rounded like a key it errs by a rounding of the score, whatever the query's length, and its gradient cancels what
    the kernels give the query for it. Only a query shorter than 0.001 gets less; one that is 0 scores 0 with any key.
    """
    exact = _exact(query)
    square = exact.square().sum(-1, keepdim=True).clamp(min=SMALLEST_SQUARE)
    return exact * (score * query.shape[-1] ** 0.5 / square)


def _exact(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _check_ungrouped(layer: SelfAttention, what: str) -> None:
    """An own key that depends on the query cannot be shared by a group of them."""
    if layer.heads != layer.kv_heads:
        raise ValueError(
            f"num_key_value_heads must be num_attention_heads ({layer.heads}) with {what}, got {layer.kv_heads}"
        )
