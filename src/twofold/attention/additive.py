"""Additive (MLP) attention, the one that came before dot products: score = w . tanh(W_q q + W_m m).

Bahdanau, Cho & Bengio 2014; source 004. Always hands the weights back: the alignment is half of what it is for.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Attended(NamedTuple):
    context: Tensor  # (B, T, memory width)
    weights: Tensor  # (B, T, S), rows sum to 1, or to 0 where nothing may be seen


class AdditiveAttention(nn.Module):
    """Every query looks at every memory through a small network with `width` hidden units."""

    def __init__(self, query_width: int, memory_width: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, width, bias=False)
        self.memory = nn.Linear(memory_width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, query: Tensor, memory: Tensor, *, attn_mask: Tensor | None = None) -> Attended:
        """query (B, T, query width), memory (B, S, memory width); attn_mask bool, broadcastable to (B, T, S)."""
        hidden = torch.tanh(self.query(query)[:, :, None] + self.memory(memory)[:, None])
        scores = self.score(hidden)[..., 0]
        if attn_mask is not None:
            if attn_mask.dtype != torch.bool:
                raise ValueError(f"attn_mask must be bool (True = may attend), got {attn_mask.dtype}")
            scores = scores.masked_fill(~attn_mask, -math.inf)
            empty = ~attn_mask.any(-1, keepdim=True)
            weights = scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
        else:
            weights = scores.softmax(-1)
        return Attended(weights @ memory, weights)
