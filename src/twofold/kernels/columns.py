"""Split attention as one ordinary attention over 2T columns: [k ; k'] and [v ; v'].

The first S columns are allowed off the diagonal only, the last T on it only. Any framework can run that, and
torch.export makes one graph with dynamic sizes of it; it costs twice the columns. Without self_key and self_value
nothing is appended and this is torch's own scaled_dot_product_attention.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from twofold.kernels import library, masks
from twofold.kernels.checks import Call

# Up to this many tokens the mask of plain self-attention is cached: building it takes longer than using it.
KEPT = 64


def why_not(call: Call) -> str | None:
    if call.softcap is not None:
        return "softcap is not part of scaled_dot_product_attention"
    return None


def forward(call: Call) -> Tensor:
    if call.has_empty_side:
        # Library kernels may crash on empty tensors. The output is empty or 0, and so is every gradient.
        inputs = [tensor for tensor in call[:5] if tensor is not None]
        zero = torch.stack([(tensor * 0.0).sum() for tensor in inputs]).sum()
        return zero.expand(*call.query.shape[:3], call.value.shape[-1])
    if not call.is_split and not call.is_masked:
        return _library(call, call.key, call.value)
    if not call.is_split and call.is_plain_causal:
        return _library(call, call.key, call.value, is_causal=True)
    key, value, mask = call.key, call.value, call.attn_mask
    if call.is_split:
        self_key, self_value = call.own_pair()
        key, value = torch.cat([key, self_key], dim=2), torch.cat([value, self_value], dim=2)
        if _may_keep(call) and call.is_plain and call.queries <= KEPT:
            return _library(call, key, value, _plain_mask(call.queries, call.is_causal, call.query.dtype))
        may, mask = _masks_with_own_columns(call)
    else:
        may = masks.allowed_by(call)
    if mask is None:
        return _library(call, key, value, may)
    # A row that may see nothing is 0/0 in some library kernels: let it see everything, then set its output to 0.
    empty = ~may.any(-1, keepdim=True)
    may = may | empty
    if mask.dtype != torch.bool:
        mask = mask.to(library.lse_dtype(call.query.dtype))
        may = masks.bias(may, mask - masks.row_shift(may, mask), mask.dtype).masked_fill(empty, 0.0)
        if call.query.device.type != "cpu":
            # Only the CPU's kernel adds a float32 mask to half-precision scores.
            may = may.to(call.query.dtype)
    return _library(call, key, value, may).masked_fill(empty, 0.0)


def _may_keep(call: Call) -> bool:
    """Whether the mask may be cached. Not on a GPU: what is allocated while a CUDA graph is recorded belongs to it."""
    return call.query.device.type == "cpu" and call.is_eager


@lru_cache(maxsize=4 * KEPT)
def _plain_mask(tokens: int, is_causal: bool, dtype: torch.dtype) -> Tensor:
    """The additive mask of plain self-attention over the columns [others ; own]."""
    every, device = slice(0, tokens), torch.device("cpu")
    # A tensor created in inference mode could not be used in training later.
    with torch.inference_mode(False):
        others = masks.allowed(every, every, 0, device=device, is_causal=is_causal, without_own=True)
        own = torch.eye(tokens, dtype=torch.bool, device=device)[None, None]
        return masks.bias(torch.cat([others, own], dim=-1), None, dtype)


def _masks_with_own_columns(call: Call) -> tuple[Tensor, Tensor | None]:
    """Who may see whom, and attn_mask, each with T more columns that only the diagonal opens, for the own slots."""
    may = masks.allowed_by(call, without_own=True)
    diagonal = torch.eye(call.queries, dtype=torch.bool, device=may.device)[None, None]
    if call.attn_mask is None:
        return _beside(may, diagonal, call), None
    own = masks.own_entries(call.attn_mask, call.keys - call.queries, call.queries)[..., None]
    diagonal = diagonal & (own if own.dtype == torch.bool else own != -math.inf)
    return _beside(may, diagonal, call), _beside(call.attn_mask, own, call)


def _beside(others: Tensor, own: Tensor, call: Call) -> Tensor:
    leading = torch.broadcast_shapes(others.shape[:3], own.shape[:3], (1, 1, call.queries))
    return torch.cat([others.expand(*leading, call.keys), own.expand(*leading, call.queries)], dim=-1)


def _library(call: Call, key: Tensor, value: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
    return scaled_dot_product_attention(
        call.query,
        key,
        value,
        attn_mask=mask,
        is_causal=is_causal,
        dropout_p=call.dropout_p,
        scale=call.scale,
        # Not `groups > 1`: with dynamic sizes that is a symbol, which torch's function does not take.
        enable_gqa=True if call.groups > 1 else False,  # noqa: SIM210
    )
