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
        if query.dim() != 3 or memory.dim() != 3 or query.shape[0] != memory.shape[0]:
            raise ValueError(
                f"memory must have shape (B, S, width) with query's batch, got {tuple(memory.shape)} for a query of "
                f"{tuple(query.shape)}"
            )
        hidden = torch.tanh(self.query(query)[:, :, None] + self.memory(memory)[:, None])
        scores = self.score(hidden)[..., 0]
        if attn_mask is not None:
            if not isinstance(attn_mask, Tensor) or attn_mask.dtype != torch.bool:
                dtype = getattr(attn_mask, "dtype", type(attn_mask).__name__)
                raise ValueError(f"attn_mask must be a bool tensor (True = may attend), got {dtype}")
            sizes = zip(reversed(attn_mask.shape), reversed(scores.shape), strict=False)
            if attn_mask.dim() > 3 or any(size != 1 and size != whole for size, whole in sizes):
                raise ValueError(f"attn_mask must broadcast to {tuple(scores.shape)}, got {tuple(attn_mask.shape)}")
            scores = scores.masked_fill(~attn_mask, -math.inf)
            empty = ~attn_mask.any(-1, keepdim=True)
            weights = scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
        else:
            weights = scores.softmax(-1)
        return Attended(weights @ memory, weights)
