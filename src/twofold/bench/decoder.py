"""A small decoder of the toolkit's own layers: what `layer`, `training` and `decode` are measured on.

Pre-RMSNorm, rotary positions, QK-norm with gain, a feed-forward of two matrices with a squared ReLU, tied embeddings.
The split kinds have a narrower feed-forward, so that every kind has the same number of parameters.
"""

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, relu

from twofold.attention.cache import KeyValueBuffer
from twofold.attention.rotary import Rotary
from twofold.attention.split import HeadNorm, Kind, SplitSelfAttention


class Sizes(NamedTuple):
    heads: int
    kv_heads: int
    head_width: int
    expansion: int = 4  # the standard feed-forward over the model width
    layers: int = 1
    vocabulary: int = 32_768

    @property
    def width(self) -> int:
        return self.heads * self.head_width

    def feed_forward(self, kind: str) -> int:
        """As wide as the parameters of the own projections leave it."""
        extra = Kind(kind).splits_key + Kind(kind).splits_value
        narrower, left_over = divmod(extra * self.kv_heads * self.head_width, 2)
        if left_over:
            raise ValueError(f"heads must be of even width for equal parameters, got {self.head_width}")
        return self.expansion * self.width - narrower


class Block(nn.Module):
    """One transformer layer: norm, projections, QK-norm, rotary, attention, output; norm, feed-forward."""

    def __init__(self, sizes: Sizes, kind: str, **made: Any) -> None:
        super().__init__()
        self.attention_norm = HeadNorm(sizes.width, eps=1e-6, **made)
        self.attention = SplitSelfAttention(
            sizes.width, sizes.heads, kv_heads=sizes.kv_heads, head_width=sizes.head_width, kind=kind, qk_norm=True,
            rotary=Rotary(width=sizes.head_width), **made,
        )  # fmt: skip
        self.feed_forward_norm = HeadNorm(sizes.width, eps=1e-6, **made)
        self.widen = nn.Linear(sizes.width, sizes.feed_forward(kind), bias=False, **made)
        self.narrow = nn.Linear(sizes.feed_forward(kind), sizes.width, bias=False, **made)

    def forward(self, x: Tensor, past: KeyValueBuffer | None = None, **options: Any) -> Tensor:
        """(B, T, C) from (B, T, C); `past` is written in place."""
        attended, _ = self.attention(self.attention_norm(x), past, **options)
        x = x + attended
        return x + self.narrow(relu(self.widen(self.feed_forward_norm(x))).square())


class Decoder(nn.Module):
    def __init__(self, sizes: Sizes, kind: str, **made: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.width, **made)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(sizes, kind, **made) for _ in range(sizes.layers))
        self.norm = HeadNorm(sizes.width, eps=1e-6, **made)
        self.rotary = Rotary(width=sizes.head_width)

    def block(self, number: int) -> Block:
        return cast("Block", self.blocks[number])

    def compile_parts(self) -> None:
        """Layer by layer: all layers share one compiled graph, so compiling takes seconds and not minutes."""
        for block in self.blocks:
            block.compile(fullgraph=True, dynamic=False)

    def forward(self, tokens: Tensor, caches: list[KeyValueBuffer] | None = None) -> Tensor:
        """Hidden states (B, T, C) of tokens (B, T)."""
        x, device = self.embedding(tokens), tokens.device
        dtype = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else x.dtype
        start = 0 if caches is None else caches[0].length
        # Once for all layers.
        turn = self.rotary.at(torch.arange(start, start + tokens.shape[1], device=device), dtype)
        for number, block in enumerate(self.blocks):
            past = None if caches is None else caches[number]
            x = block(x, past, positions=turn, is_causal=tokens.shape[1] > 1)
        return self.norm(x)

    def loss(self, tokens: Tensor) -> Tensor:
        """Mean cross-entropy of every next token."""
        scores = linear(self(tokens), self.embedding.weight)
        return cross_entropy(scores[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())

    def next_token(self, tokens: Tensor, caches: list[KeyValueBuffer]) -> Tensor:
        """The likeliest next token (B, 1) after one step of generation from tokens (B, 1)."""
        return linear(self(tokens, caches)[:, -1:], self.embedding.weight).argmax(-1)


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def caches_of(sizes: Sizes, batch: int, context: int, dtype: torch.dtype, device: torch.device) -> list[KeyValueBuffer]:
    """Filled with `context` tokens of noise, with room for one more."""
    made = []
    for _ in range(sizes.layers):
        shape = (batch, sizes.kv_heads, context + 1, sizes.head_width)
        key, value = (torch.randn(shape, dtype=dtype, device=device) for _ in range(2))
        made.append(KeyValueBuffer(key, value, context))
    return made
