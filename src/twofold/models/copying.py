"""Words of the source, copied: how an encoder-decoder writes names that no table of tokens ever learned.

A pointer-generator: the next token comes from the vocabulary or from the source, and a gate says how likely each of the
two is. What comes out are log-probabilities, which serve wherever logits do.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad
from transformers.modeling_outputs import BaseModelOutput


@dataclass
class SourceOutput(BaseModelOutput):
    """An encoder's output that still knows what was read, for decoders that only ever see this of the source."""

    source_ids: Tensor | None = None  # (B, S)


class CopyHead(nn.Module):
    """Mixes the vocabulary's distribution with one over the tokens of the source."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.hidden_size
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.follow = nn.Linear(width, 1), nn.Linear(width, 1)
        self.scale = width**-0.5

    def forward(
        self,
        x: Tensor,
        logits: Tensor,
        source: Tensor,
        source_ids: Tensor,
        source_mask: Tensor | None = None,
        last_ids: Tensor | None = None,
    ) -> Tensor:
        """Log-probabilities of next tokens, (B, T, vocabulary).

        Args:
            x: (B, T, C), the decoder's last states.
            logits: (B, T, vocabulary), what it would say by itself.
            source: (B, S, C), the encoder's states.
            source_ids: (B, S), the tokens that those stand for.
            source_mask: (B, S), 0 where there is padding.
            last_ids: (B, T), what the decoder has just read. Where the source has that token, the one after it is
                where copying would go on, which `follow` learns to favour.
        """
        scores = self.query(x) @ self.key(source).mT * self.scale
        if last_ids is not None:
            goes_on = last_ids[..., None] == pad(source_ids, (1, -1), value=-1)[:, None]
            scores = scores + self.follow(x) * goes_on
        # Sums of probabilities are too coarse in half precision, and so are their logarithms.
        exact = torch.promote_types(scores.dtype, torch.float32)
        scores, gate = scores.to(exact), self.gate(x).to(exact)
        if source_mask is not None:
            scores = scores.masked_fill(source_mask[:, None] == 0, torch.finfo(exact).min)
        places = source_ids[:, None].expand_as(scores)
        copied = torch.zeros_like(logits, dtype=exact).scatter_add(-1, places, scores.softmax(-1))
        # The vocabulary's side stays in logarithms, so that a token too unlikely to have a probability has a gradient.
        own = logits.to(exact).log_softmax(-1) + logsigmoid(-gate)
        return torch.logaddexp(own, copied.clamp(min=torch.finfo(exact).tiny).log() + logsigmoid(gate))
