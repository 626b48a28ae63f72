"""Cross-attention: queries from one sequence, keys and values from another. No diagonal, so nothing to split."""

from typing import Unpack

from torch import Tensor, nn

from twofold.attention.cache import KeyValues
from twofold.attention.heads import check_dropout, check_heads, check_input, merged, split
from twofold.kernels.api import split_attention
from twofold.kernels.checks import Options


class CrossAttention(nn.Module):
    """Multi-head attention from x (B, T, width) to a context (B, S, context_width)."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        context_width: int | None = None,
        kv_heads: int | None = None,
        head_width: int | None = None,
        bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_width = check_heads(width, heads, kv_heads, head_width)
        self.dropout = check_dropout(dropout)
        context_width = width if context_width is None else context_width
        self.query = nn.Linear(width, self.heads * self.head_width, bias=bias)
        self.key = nn.Linear(context_width, self.kv_heads * self.head_width, bias=bias)
        self.value = nn.Linear(context_width, self.kv_heads * self.head_width, bias=bias)
        self.output = nn.Linear(self.heads * self.head_width, width, bias=bias)

    def keys_and_values(self, context: Tensor) -> KeyValues:
        """What `forward` needs of the context: project it once, use it at every step of generation."""
        check_input("context", context, self.key)
        return KeyValues(split(self.key(context), self.head_width), split(self.value(context), self.head_width))

    def forward(self, x: Tensor, context: Tensor | KeyValues, **options: Unpack[Options]) -> Tensor:
        """(B, T, width). Options as in `split_attention`; attn_mask broadcasts to (B, heads, T, S)."""
        check_input("x", x, self.query)
        seen = context if isinstance(context, KeyValues) else self.keys_and_values(context)
        options.setdefault("dropout_p", self.dropout if self.training else 0.0)
        options.setdefault("enable_gqa", self.heads != self.kv_heads)
        out = split_attention(split(self.query(x), self.head_width), seen.key, seen.value, **options)
        return self.output(merged(out))
