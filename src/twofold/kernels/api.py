"""The public functions on tensors, and the choice of a backend with its reason.

Each backend file exports `forward(call)` and `why_not(call)`. A named backend runs, or the call raises and says why it
cannot; "auto" chooses by the function `choose`. Eager calls like an earlier one skip both (`repeated`).
"""

from enum import StrEnum
from types import ModuleType
from typing import Any, NamedTuple, Unpack

import torch
from torch import Tensor

from twofold.kernels import autocast, choices, columns, dense, fused, reference, repeated, shifted
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
# Instead of `Backend(name)`: torch.compile (2.11) cannot read an enum's members.
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
    """Attention in which every query sees its own slot through `self_key` and `self_value`.

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
        dropout_p: the probability that a weight is dropped. Always applied: pass 0 when not training.
        scale: factor of the scores; None: 1 / sqrt(D).
        enable_gqa: allow Hkv to divide Hq, neighbouring query heads sharing a key/value head.
        window: let query i see slots at most this far from its own; 0: only itself.
        softcap: c in c * tanh(score / c), applied after `scale` and before the mask.
        segment_ids: (B, T) whole numbers, S = T: tokens with different numbers do not see each other.
        backend: "auto", "reference", "columns", "dense", "shifted" or "triton".

    Returns:
        (B, Hq, T, Dv) in query's dtype.

    Raises:
        ValueError: with the argument, what was expected and what came; or why a named backend cannot serve.
    """
    tensors: tuple[Any, ...] = (*autocast.cast(query, key, value, self_key, self_value), attn_mask, segment_ids)
    signature = repeated.signature_of(tensors, (is_causal, dropout_p, scale, enable_gqa, window, softcap, backend))
    known = repeated.find(signature)
    if known is not None:
        module, call = known.module, known.call(tensors)
    else:
        call = check(
            *tensors[:5],
            attn_mask=attn_mask,
            is_causal=is_causal,
            dropout_p=dropout_p,
            scale=scale,
            enable_gqa=enable_gqa,
            window=window,
            softcap=softcap,
            segment_ids=segment_ids,
        )
        module = MODULES[_resolve(backend, call).backend]
        repeated.remember(signature, tensors, call, module)
    with autocast.off(call.query):
        return module.forward(call)


def split_attention_weights(
    query: Tensor,
    key: Tensor,
    self_key: Tensor | None = None,
    *,
    backend: str = "auto",
    **options: Unpack[Options],
) -> Tensor:
    """The weights by which `split_attention` multiplies values: (B, Hq, T, S); column S - T + i of row i is its own.

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
    """The weight of each token's own slot, g_i = p_ii: (B, Hq, T), without T x T weights in memory.

    Options as in `split_attention`. On a fast backend it is one attention whose own values are 1 and whose other
    values are 0; otherwise the reference computes blocks of rows. `columns` and `dense` hold all weights: refused.
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
    """What "auto" runs, and why: a function of the call and of the table of measured choices alone."""
    if call.has_empty_side:
        return Choice(Backend.REFERENCE, "a dimension is 0")
    if call.has_tangent:
        return Choice(Backend.REFERENCE, "only the reference can be differentiated forwards")
    # torch.compiler.is_exporting() is True for everything that is compiled in torch 2.11.
    if call.softcap is None and torch.compiler._is_exporting_flag:
        return Choice(Backend.COLUMNS, "exported graphs must serve every length, without this package")
    on_gpu = call.query.is_cuda and fused.why_not(call) is None
    if call.softcap is not None and not on_gpu:
        return Choice(Backend.REFERENCE, "here only the reference applies a softcap")
    if not call.is_split and call.is_plain_sdpa:
        return Choice(Backend.COLUMNS, "nothing is split: torch's own attention serves")
    if not on_gpu and call.is_transformed:
        return Choice(Backend.COLUMNS, "torch.func sees through torch's own attention alone")
    if dense.is_quick(call) and dense.why_not(call) is None:
        return Choice(Backend.DENSE, "without gradients, and the CPU's caches hold all weights")
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
        most = f"{dense.LARGEST:,} weights with gradients, {dense.QUICK:,} without"
        return Choice(Backend.SHIFTED, f"dense pays up to {most}")
    obstacle = MODULES[backend].why_not(call)
    if obstacle is not None:
        return Choice(Backend.SHIFTED, f"{backend} cannot serve: {obstacle}")
    return Choice(backend, measured.reason)


def _check_options(function: str, options: Options) -> None:
    """TypeError for an unknown option, in the words of Python's own."""
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
