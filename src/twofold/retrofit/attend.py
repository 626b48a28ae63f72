"""Attention for converted models, registered with transformers under names of our own.

A converted layer adds its own states (k', v') to the keyword arguments, and transformers' attention modules hand those
on. Everything else comes as for any attention function: keys with positions applied, those of the cache in front, not
repeated for grouped heads.

`split` computes by `split_attention`, with this package's kernels. `eager` computes by the model's own eager function,
whatever that does (attention sinks, say), and returns weights: k' and v' become T further columns, each seen by its own
query alone.

B batch, T new tokens, S columns of keys, D head width
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask, sdpa_mask

from twofold.attention.own_slots import Cached, place_own_slots, slots_from

# The keyword argument that own states travel in.
OWN = "twofold_own"
SPLIT, EAGER = "twofold_split", "twofold_eager"
# From the names of transformers to those for converted models.
NAMES = {"sdpa": SPLIT, "eager": EAGER}


class OwnStates(NamedTuple):
    """What a converted layer knows of its new tokens beyond what its attention function is given anyway."""

    key: Tensor | None  # (B, Hkv, T, D); None: as for the others
    value: Tensor | None
    seen: int | Tensor  # tokens in the layer's cache before these


class Observed(NamedTuple):
    """One call of an attention function, for looking at how a model attends."""

    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    own: OwnStates | None


# Where calls are noted while a model is examined; None: nobody is looking.
observed: ContextVar[list[Observed] | None] = ContextVar("observed", default=None)


def attend_split(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """(B, T, heads, D). Layers without own states (cross-attention, those not converted) get transformers' sdpa."""
    own: OwnStates | None = options.pop(OWN, None)
    _note(module, query, key, value, own)
    named: dict[str, Any] = {"is_causal": is_causal, "position_bias": position_bias, "softcap": softcap}
    usual = options | {name: option for name, option in named.items() if option is not None}
    if own is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **usual)
    _check_cache(options)
    if options.get("s_aux") is not None:
        raise ValueError(f'attention sinks need attn_implementation "{EAGER}", got "{SPLIT}"')
    T, causal = query.shape[2], _is_causal(module, is_causal)
    cached = Cached(key, value, slots_from(own.seen, T, key))
    if softcap is None and _may_borrow(query, cached, attention_mask):
        with _own_pair_in_slot(own, cached):
            return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **usual)
    mask = attention_mask if position_bias is None else _biased(position_bias, attention_mask, cached, causal)
    # The kernel of a step scales as usual and knows no softcap.
    is_usual = softcap is None and scaling in (None, query.shape[-1] ** -0.5) and not dropout
    call = place_own_slots(query, own.key, own.value, cached, mask, may_step=is_usual and key.shape[2] > T)
    out = call.attend(is_causal=causal, dropout=dropout, scale=scaling, softcap=softcap)
    return out.transpose(1, 2).contiguous(), None


def _may_borrow(query: Tensor, cached: Cached, mask: Tensor | None) -> bool:
    """Whether one token on a CPU may attend by ordinary attention, its own pair lying in its slot meanwhile.

    That is exact, and for short caches four times as fast as `split_attention`; on GPUs there is a kernel for it.
    """
    is_free = not torch.is_grad_enabled() and not torch.compiler.is_compiling()
    shows_only_written = cached.slots is None or mask is not None
    return is_free and query.shape[2] == 1 < cached.key.shape[2] and query.device.type == "cpu" and shows_only_written


@contextmanager
def _own_pair_in_slot(own: OwnStates, cached: Cached) -> Generator[None]:
    """k' and v' of a single new token in the place of its k and v; those are put back afterwards."""
    slot = slice(-1, None) if cached.slots is None else cached.slots
    pairs = [(cached.key, own.key), (cached.value, own.value)]
    kept = [(states, states[:, :, slot].clone(), new) for states, new in pairs if new is not None]
    try:
        for states, _, new in kept:
            states[:, :, slot] = new
        yield
    finally:
        for states, old, _ in kept:
            states[:, :, slot] = old


def _biased(bias: Tensor, mask: Tensor | None, cached: Cached, is_causal: bool) -> Tensor:
    """A position bias (1, H, T, S) and a mask as one additive mask."""
    T, S = bias.shape[-2], cached.key.shape[2]
    if mask is None and is_causal and T > 1:
        slots = _slots(cached, T)
        mask = torch.arange(S, device=bias.device) <= slots[:, None]
    if mask is None:
        return bias
    return torch.where(mask, bias, -torch.inf) if mask.dtype == torch.bool else bias + mask


def _slots(cached: Cached, tokens: int) -> Tensor:
    """The column of every new token."""
    S = cached.key.shape[2]
    return torch.arange(S - tokens, S, device=cached.key.device) if cached.slots is None else cached.slots


def attend_eager(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """(B, T, heads, D) and the weights (B, heads, T, S), the own one in the own slot's column."""
    own: OwnStates | None = options.pop(OWN, None)
    _note(module, query, key, value, own)
    attend = eager_of(module)
    if own is None:
        return attend(module, query, key, value, attention_mask, **options)
    _check_cache(options)
    T, S = query.shape[2], key.shape[2]
    cached = Cached(key, value, slots_from(own.seen, T, key))
    slots = _slots(cached, T)
    mask = attention_mask
    if mask is None:
        may = torch.ones(T, S, dtype=torch.bool, device=key.device)
        if _is_causal(module, options.get("is_causal")) and T > 1:
            may = torch.arange(S, device=key.device) <= slots[:, None]
        mask = torch.zeros(1, 1, T, S, dtype=query.dtype, device=key.device)
        mask = mask.masked_fill(~may, torch.finfo(query.dtype).min)
    is_own = torch.arange(S, device=key.device) == slots[:, None]
    elsewhere = ~torch.eye(T, dtype=torch.bool, device=key.device)
    hidden = torch.finfo(mask.dtype).min
    mask = torch.cat(
        [mask.masked_fill(is_own, hidden), _at(mask, slots, T).expand(-1, -1, T, T).masked_fill(elsewhere, hidden)], -1
    )
    bias = options.get("position_bias")
    if bias is not None:
        bias = bias.expand(-1, -1, T, -1)
        options["position_bias"] = torch.cat([bias, _at(bias, slots, T).expand(-1, -1, T, T)], -1)
    new = cached.new_tokens(T)
    own_key, own_value = new[0] if own.key is None else own.key, new[1] if own.value is None else own.value
    keys, values = torch.cat([key, own_key], dim=2), torch.cat([value, own_value], dim=2)
    out, weights = attend(module, query, keys, values, mask, **options)
    if weights is not None:
        selves = weights[..., S:].diagonal(dim1=-2, dim2=-1)
        weights = torch.where(is_own, selves[..., None], weights[..., :S])
    return out, weights


def eager_of(module: nn.Module) -> Callable[..., Any]:
    """The eager attention function of a module's family."""
    for base in type(module).__mro__:
        family = sys.modules.get(base.__module__)
        if family is not None and hasattr(family, "eager_attention_forward"):
            return family.eager_attention_forward
    raise ValueError(f"{type(module).__name__} must come from a file with an eager_attention_forward, as families have")


def _at(tensor: Tensor, slots: Tensor, tokens: int) -> Tensor:
    """What a mask or bias (B, H, T or 1, S) has for every token's own slot: (B, H, T, 1)."""
    rows = tensor.expand(-1, -1, tokens, -1)
    return rows.gather(-1, slots[None, None, :, None].expand(*rows.shape[:2], tokens, 1))


def _is_causal(module: nn.Module, is_causal: bool | None) -> bool:
    return bool(getattr(module, "is_causal", True)) if is_causal is None else is_causal


def _check_cache(options: dict[str, Any]) -> None:
    if options.get("cache") is not None:
        raise ValueError("continuous batching (generate_batch) serves no converted model: call generate")


def _note(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, own: OwnStates | None) -> None:
    if not torch.compiler.is_compiling() and (calls := observed.get()) is not None:
        calls.append(Observed(module, query, key, value, own))


for _name, _attend, _mask in ((SPLIT, attend_split, sdpa_mask), (EAGER, attend_eager, eager_mask)):
    AttentionInterface.register(_name, _attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register(_name, _mask)
