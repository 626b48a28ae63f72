"""The specification: split attention as it is defined, eager, on any device, in any float dtype, any normaliser.

Every other backend is tested against this file in float64; none imports it. Half-precision inputs are computed in
float32 and rounded once at the end. It holds all T x S weights, so it does not suit long sequences.
"""

from typing import Unpack

import torch
from torch import Tensor
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint

from twofold.kernels import autocast, masks
from twofold.kernels.checks import Call, Options, check
from twofold.kernels.normalisers import SHIFT_FREE, Normaliser, normaliser_of

# self_weight computes this many rows at a time, so its memory grows with S, not with T x S.
ROWS_AT_ONCE = 128


def why_not(call: Call) -> str | None:
    """The reference serves every call."""
    return None


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    self_key: Tensor | None = None,
    self_value: Tensor | None = None,
    *,
    normaliser: str | Normaliser = "softmax",
    **options: Unpack[Options],
) -> Tensor:
    """`split_attention` with another normaliser: "softmax", "sigmoid", "sparsemax", "entmax15" or a function."""
    query, key, value, self_key, self_value = autocast.cast(query, key, value, self_key, self_value)
    with autocast.off(query):
        return forward(check(query, key, value, self_key, self_value, **options), normaliser)


def forward(call: Call, normaliser: str | Normaliser = "softmax") -> Tensor:
    """(B, Hq, T, Dv)."""
    rows = slice(0, call.queries)
    weights = _weights(call, rows, normaliser_of(normaliser))
    value = _heads(call.value, call)
    if call.self_value is None:
        out = weights @ value
    else:
        others = weights.masked_fill(_is_own(call, rows), 0.0)
        out = others @ value + _own(call, rows, weights)[..., None] * _heads(call.self_value, call)
    return out.to(call.query.dtype)


def weights(call: Call, normaliser: str | Normaliser = "softmax") -> Tensor:
    """(B, Hq, T, S): the factors of the values; column S - T + i of row i multiplies the token's own value."""
    return _weights(call, slice(0, call.queries), normaliser_of(normaliser)).to(call.query.dtype)


def self_weight(call: Call) -> Tensor:
    """(B, Hq, T): the weight of each token's own slot, computed block of rows by block of rows."""

    def own_weights(rows: slice) -> Tensor:
        # A copy: a view would keep the whole block alive.
        return _own(call, rows, _weights(call, rows, normaliser_of("softmax"))).clone()

    T = call.queries
    starts = range(0, T, ROWS_AT_ONCE)
    blocks = [slice(start, min(start + ROWS_AT_ONCE, T)) for start in starts]
    # Checkpointing does not work inside torch.func.
    if torch.is_grad_enabled() and not call.is_transformed:
        parts = [checkpoint(own_weights, rows, use_reentrant=False) for rows in blocks]
    else:
        parts = [own_weights(rows) for rows in blocks]
    return torch.cat(parts, dim=-1).to(call.query.dtype) if parts else call.query.sum(-1)


def _weights(call: Call, rows: slice, normalise: Normaliser) -> Tensor:
    query = _exact(call.query[:, :, rows])
    scores = (query @ _heads(call.key, call).mT) * call.scale
    if call.self_key is not None:
        own = (query * _heads(call.self_key[:, :, rows], call)).sum(-1) * call.scale
        scores = torch.where(_is_own(call, rows), own[..., None], scores)
    if call.softcap is not None:
        scores = torch.tanh(scores / call.softcap) * call.softcap
    weights = normalise(scores) if not call.is_masked else _masked(call, rows, scores, normalise)
    return dropout(weights, call.dropout_p) if call.dropout_p else weights


def _masked(call: Call, rows: slice, scores: Tensor, normalise: Normaliser) -> Tensor:
    may = masks.allowed_by(call, rows)
    mask = None if call.attn_mask is None else masks.cut(call.attn_mask, rows, slice(0, call.keys))
    if mask is not None and mask.dtype != torch.bool and normalise in SHIFT_FREE:
        mask = mask.to(scores.dtype)
        mask = mask - masks.row_shift(may, mask)
    # A row that may see nothing would be 0/0: normalise it as if it saw everything, then set its weights to 0.
    empty = ~may.any(-1, keepdim=True)
    scores = (scores + masks.bias(may, mask, scores.dtype)).masked_fill(empty, 0.0)
    return normalise(scores).masked_fill(empty, 0.0)


def _is_own(call: Call, rows: slice) -> Tensor:
    """(rows, S): True where the key is the query's own slot."""
    slots = torch.arange(rows.start, rows.stop, device=call.query.device) + (call.keys - call.queries)
    return torch.arange(call.keys, device=call.query.device) == slots[:, None]


def _own(call: Call, rows: slice, weights: Tensor) -> Tensor:
    """The entries of (..., rows, S) at the own slots: (..., rows)."""
    first = call.keys - call.queries + rows.start
    return weights[..., first : first + rows.stop - rows.start].diagonal(dim1=-2, dim2=-1)


def _exact(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _heads(tensor: Tensor, call: Call) -> Tensor:
    """Key/value heads, exact, repeated for every query head that shares them."""
    return _exact(tensor) if call.groups == 1 else _exact(tensor).repeat_interleave(call.groups, dim=1)
