"""The public functions on tensors, and the choice of a backend with its reason.

Each backend file exports `forward(call)` and `why_not(call)`. A backend that was named is the one that runs, or the
call raises and says why; only "auto" chooses, by the pure function `choose`.
"""

from enum import StrEnum
from types import ModuleType
from typing import NamedTuple, Unpack

import torch
from torch import Tensor

from twofold.kernels import autocast, choices, columns, dense, fused, reference, shifted
from twofold.kernels.checks import Call, Options, check


class Backend(StrEnum):
    REFERENCE = "reference"
    COLUMNS = "columns"
    DENSE = "dense"
    SHIFTED = "shifted"
    TRITON = "triton"


class Choice(NamedTuple):
    backend: Backend
    reason: str


OPTIONS = tuple(Options.__annotations__)
# Not `Backend(name)`: torch.compile (2.11) cannot look into an enum's members.
BY_NAME: dict[str, Backend] = {str(backend): backend for backend in Backend}
MODULES: dict[Backend, ModuleType] = {
    Backend.REFERENCE: reference,
    Backend.COLUMNS: columns,
    Backend.DENSE: dense,
    Backend.SHIFTED: shifted,
    Backend.TRITON: fused,
}


def split_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    self_key: Tensor | None = None,
    self_value: Tensor | None = None,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    dropout_p: float = 0.0,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    segment_ids: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """Attention in which every query meets its own slot through `self_key` and `self_value`.

    Without both it is torch's `scaled_dot_product_attention`, except that tensors are 4-D, `is_causal` is aligned to
    the last keys and combines with a mask, and a row that may see nothing gives 0.

    Masks hide finite entries only. As in torch's own attention, a NaN or infinity in a key or value can reach queries
    of its sequence and head that may not see it, because 0 * NaN is NaN where weights meet values; on short texts one
    in self_key or self_value as well. No backend mixes sequences or heads. So fill padding with finite numbers.

    Args:
        query: (B, Hq, T, D).
        key: (B, Hkv, S, D), S >= T; query i owns slot S - T + i. S < T only for plain cross-attention.
        value: (B, Hkv, S, Dv).
        self_key: (B, Hkv, T, D), the keys of the own slots; None: `key` there.
        self_value: (B, Hkv, T, Dv), the values of the own slots; None: `value` there.
        attn_mask: bool (True = may attend) or float (added to the scores), broadcastable to (B, Hq, T, S).
        is_causal: let query i see slots up to its own.
        dropout_p: the probability with which a weight is dropped. Always applied: pass 0 when not training.
        scale: factor of the scores; None: 1 / sqrt(D).
        enable_gqa: allow Hkv to divide Hq, neighbouring query heads sharing a key/value head.
        window: let query i see slots at most this far from its own; 0: only itself.
        softcap: c in c * tanh(score / c), applied after `scale` and before the mask.
        segment_ids: (B, T) whole numbers, S = T: tokens of different numbers do not see each other.
        backend: "auto", "reference", "columns", "dense", "shifted" or "triton".

    Returns:
        (B, Hq, T, Dv) in query's dtype.

    Raises:
        ValueError: naming the argument, what was expected and what came; or why a named backend cannot serve.
    """
    query, key, value, self_key, self_value = autocast.cast(query, key, value, self_key, self_value)
    call = check(
        query,
        key,
        value,
        self_key,
        self_value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        dropout_p=dropout_p,
        scale=scale,
        enable_gqa=enable_gqa,
        window=window,
        softcap=softcap,
        segment_ids=segment_ids,
    )
    with autocast.off(query):
        return MODULES[_resolve(backend, call).backend].forward(call)


def split_attention_weights(
    query: Tensor,
    key: Tensor,
    self_key: Tensor | None = None,
    *,
    backend: str = "auto",
    **options: Unpack[Options],
) -> Tensor:
    """The weights that `split_attention` gives the values: (B, Hq, T, S), column S - T + i of row i being its own.

    Options as in `split_attention`. Only the reference keeps weights, so `backend` is "auto" or "reference".
    """
    _check_options("split_attention_weights", options)
    query, key, self_key = autocast.cast(query, key, self_key)
    call = check(query, key, key, self_key, None, **options)
    if backend not in ("auto", Backend.REFERENCE):
        raise ValueError(f"backend must be auto or reference: only the reference keeps weights, got {backend!r}")
    with autocast.off(query):
        return reference.weights(call)


def self_weight(
    query: Tensor,
    key: Tensor,
    self_key: Tensor | None = None,
    *,
    backend: str = "auto",
    **options: Unpack[Options],
) -> Tensor:
    """How much each token keeps of itself: g_i = p_ii, (B, Hq, T), without ever holding T x T weights.

    Options as in `split_attention`. On a fast backend it is one attention whose own values are 1 and whose other
    values are 0; elsewhere the reference walks over blocks of rows. `columns` and `dense` hold all, and are refused.
    """
    _check_options("self_weight", options)
    if backend in (Backend.COLUMNS, Backend.DENSE):
        raise ValueError(f"backend must be auto, reference, shifted or triton: {backend} would hold T x T weights")
    query, key, self_key = autocast.cast(query, key, self_key)
    call = check(query, key, key, self_key, None, **options)
    if call.keys < call.queries:
        raise ValueError(f"key must have at least query's {call.queries} tokens, one own slot each, got {call.keys}")
    ones = query.new_ones(()).expand(*key.shape[:2], *query.shape[2:])
    call = call._replace(value=torch.zeros_like(key), self_value=ones)
    with autocast.off(query):
        chosen = _resolve(backend, call).backend
        if chosen in (Backend.REFERENCE, Backend.COLUMNS, Backend.DENSE):
            return reference.self_weight(call)
        return MODULES[chosen].forward(call)[..., 0]


def choose(call: Call) -> Choice:
    """What "auto" runs, and why. A pure function of the call and of the table of measured choices."""
    if call.has_empty_side:
        return Choice(Backend.REFERENCE, "a dimension is 0")
    if call.has_tangent:
        return Choice(Backend.REFERENCE, "only the reference can be differentiated forwards")
    # Not by torch.compiler.is_exporting(), which in torch 2.11 is true of all that is compiled.
    if call.softcap is None and torch.compiler._is_exporting_flag:
        return Choice(Backend.COLUMNS, "what is exported must serve every length, and where nobody knows this package")
    on_gpu = call.query.is_cuda and fused.why_not(call) is None
    if call.softcap is not None and not on_gpu:
        return Choice(Backend.REFERENCE, "here only the reference applies a softcap")
    if not call.is_split and call.is_plain_sdpa:
        return Choice(Backend.COLUMNS, "nothing is split: torch's own attention serves")
    if not on_gpu and call.is_transformed:
        return Choice(Backend.COLUMNS, "torch.func sees through torch's own attention alone")
    if dense.is_quick(call) and dense.why_not(call) is None:
        return Choice(Backend.DENSE, "nothing is learned, and a cache holds all weights")
    measured = choices.fastest(call.query.device, call.query.dtype, call.is_causal, call.query.shape[-1], call.keys)
    if not on_gpu and measured is not None and measured.backend == Backend.COLUMNS:
        return Choice(Backend.COLUMNS, measured.reason)
    otherwise = Backend.TRITON if on_gpu else Backend.COLUMNS
    obstacle = shifted.why_not(call)
    if obstacle is not None:
        return Choice(otherwise, f"shifted cannot serve: {obstacle}")
    if on_gpu and not shifted.is_one_pass(call):
        return Choice(Backend.TRITON, "here shifted would take several library calls")
    if measured is None:
        return Choice(otherwise, "shorter than what was measured: fewest launches")
    backend = BY_NAME[measured.backend]
    if backend == Backend.DENSE and not dense.pays(call):
        most = f"{dense.LARGEST:,} weights to learn, {dense.QUICK:,} else"
        return Choice(Backend.SHIFTED, f"dense pays up to {most}")
    obstacle = MODULES[backend].why_not(call)
    if obstacle is not None:
        return Choice(Backend.SHIFTED, f"{backend} cannot serve: {obstacle}")
    return Choice(backend, measured.reason)


def _check_options(function: str, options: Options) -> None:
    """As Python itself would say it, were the options not handed on."""
    for name in options:
        if name not in OPTIONS:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def _resolve(backend: str, call: Call) -> Choice:
    if backend == "auto":
        return choose(call)
    named = BY_NAME.get(backend) if isinstance(backend, str) else None
    if named is None:
        raise ValueError(f"backend must be one of auto, {', '.join(BY_NAME)}, got {backend!r}")
    obstacle = MODULES[named].why_not(call)
    if obstacle is not None:
        raise ValueError(f"backend {backend!r} cannot serve this call: {obstacle}")
    return Choice(named, "named by the caller")
