"""Where a token's own key and value belong when the keys and values of all tokens are in a cache.

A cache holds what other tokens need, k and v; own keys and values (k', v') are never cached. The slot of a query is the
column of its own token. `split_attention` expects the queries' slots to be the last columns. A growing cache has them
there; a cache of fixed size and a paged cache, which holds many sequences in one row, do not. So it takes two steps:

    cached = update_cache(cache, key, value, layer_idx)                  # all k, v, and where the new tokens stand
    call = place_own_slots(query, self_key, self_value, cached, mask)    # arguments with the own slots last

Whoever has updated the cache already builds a `Cached` with `slots_from`. Caches are those of transformers, or behave
alike: `get_seq_length(layer_idx)` and `update(key, value, layer_idx)`. Nothing here imports transformers.

B batch, Hq and Hkv heads of queries and of keys, T new tokens, S columns of the cache, D head width
"""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from twofold.kernels.api import split_attention
from twofold.kernels.decode import attend_filled, serves_step


class Cached(NamedTuple):
    """Keys and values of every token in a cache, and which of the columns are the new tokens'."""

    key: Tensor  # (B, Hkv, S, D)
    value: Tensor  # (B, Hkv, S, Dv)
    slots: Tensor | None = None  # (T,) column of every new token; None: the last T columns, in order
    new: tuple[Tensor, Tensor] | None = None  # k and v of the new tokens where they are at hand
    is_packed: bool = False  # many sequences in one row: the mask alone says what a token may see

    def new_tokens(self, tokens: int) -> tuple[Tensor, Tensor]:
        """k and v of the new tokens, (B, Hkv, T, D) each."""
        if self.new is not None:
            return self.new
        if self.slots is None:
            return self.key[:, :, -tokens:], self.value[:, :, -tokens:]
        return self.key.index_select(2, self.slots), self.value.index_select(2, self.slots)


class Call(NamedTuple):
    """The arguments of attention, the own slots where `split_attention` looks for them."""

    query: Tensor  # (B, Hq, T, D)
    key: Tensor  # (B, Hkv, S, D), or S + T columns where `is_appended`
    value: Tensor
    self_key: Tensor | None  # (B, Hkv, T, D)
    self_value: Tensor | None
    mask: Tensor | None  # None: nothing is hidden but by causal order
    slots: Tensor | None = None  # as in `Cached`
    is_appended: bool = False  # the new tokens' columns are hidden at `slots` and repeated at the end
    filled: int | Tensor | None = None  # not None: the kernel of a single step serves (`attend_filled`)

    def options(self, *, is_causal: bool) -> dict[str, Any]:
        """The mask and causal order as options of `split_attention`; a mask says all, causal order included."""
        is_grouped = self.query.shape[1] != self.key.shape[1]
        return {"attn_mask": self.mask, "is_causal": is_causal and self.mask is None, "enable_gqa": is_grouped}

    def attend(
        self, attend: Callable[..., Tensor] = split_attention, *, is_causal: bool, dropout: float = 0, **options: Any
    ) -> Tensor:
        """(B, Hq, T, Dv), by `attend` or by the kernel of a single step where that was chosen.

        options: further ones of `attend`, as scale and softcap; with any of them that matter there must be no step.
        """
        if self.filled is not None:
            own_key, own_value = cast("Tensor", self.self_key), cast("Tensor", self.self_value)
            return attend_filled(self.query, own_key, own_value, self.key, self.value, self.filled, self.mask)
        tensors = self.query, self.key, self.value, self.self_key, self.self_value
        return attend(*tensors, dropout_p=dropout, **self.options(is_causal=is_causal), **options)

    def by_slot(self, weights: Tensor) -> Tensor:
        """Weights (B, Hq, T, S) of the cache's columns, from those of this call's; the own weight in the own slot."""
        if not self.is_appended:
            return weights
        T, slots = self.query.shape[2], cast("Tensor", self.slots)
        # Added, for what was hidden there is 0, and what pads a packed row shares a slot.
        return weights[..., :-T].index_add(-1, slots, weights[..., -T:])


def update_cache(
    cache: Any, key: Tensor, value: Tensor, layer_idx: int, packed: Mapping[str, Any] | None = None
) -> Cached:
    """Write the new tokens' k and v (B, Hkv, T, D) into a layer of a cache and return all that it holds.

    Args:
        cache: a cache; None: there is none, and the new tokens are all there is. Written in place.
        packed: for a paged cache, what continuous batching says of its one row of many sequences: `cu_seq_lens_q`
            and `cu_seq_lens_k`, the ends of each sequence's queries and keys, and what the cache's `update` needs.
    """
    if packed is not None:
        arguments = {name: value for name, value in packed.items() if name != "cache"}
        return _update_paged(cache, key, value, layer_idx, arguments)
    if cache is None:
        return Cached(key, value, new=(key, value))
    # Read before the update, and copied: a static cache counts in place.
    seen = cache.get_seq_length(layer_idx)
    seen = seen.clone() if isinstance(seen, Tensor) else seen
    all_keys, all_values = cache.update(key, value, layer_idx)
    return Cached(all_keys, all_values, slots_from(seen, key.shape[2], all_keys), (key, value))


def slots_from(seen: int | Tensor, tokens: int, key: Tensor) -> Tensor | None:
    """The columns of the last `tokens` tokens in a cache's keys, which held `seen` before them; None: the last ones.

    A sliding cache has seen more than it holds: its new tokens are always last.
    """
    room = key.shape[2] - tokens
    if room == 0 or (not isinstance(seen, Tensor) and seen >= room):
        return None
    return seen + torch.arange(tokens, device=key.device)


def _update_paged(cache: Any, key: Tensor, value: Tensor, layer_idx: int, packed: dict[str, Any]) -> Cached:
    names: dict[str, Any] = {"key_states": key, "value_states": value, "layer_idx": layer_idx}
    if "read_index" in signature(cache.update).parameters:
        # Before transformers 5.22, tokens came first.
        indices = {name: packed[name] for name in ("read_index", "write_index")}
        all_keys, all_values = (states.transpose(0, 1)[None] for states in cache.update(**names, **indices))
    else:
        all_keys, all_values = cache.update(**names, kwargs=packed)
    # A sequence's queries are its last keys. Queries beyond the last sequence are padding, whose output nobody reads.
    query_ends, key_ends = packed["cu_seq_lens_q"], packed["cu_seq_lens_k"]
    queries = torch.arange(key.shape[2], device=key.device)
    sequence = torch.searchsorted(query_ends[1:].contiguous(), queries, right=True).clamp(max=len(query_ends) - 2)
    slots = key_ends[sequence + 1] - (query_ends[sequence + 1] - queries)
    slots = slots.clamp(0, all_keys.shape[2] - 1).long()
    return Cached(all_keys, all_values, slots, (key, value), is_packed=True)


def place_own_slots(
    query: Tensor,
    self_key: Tensor | None,
    self_value: Tensor | None,
    cached: Cached,
    mask: Tensor | None = None,
    *,
    shows_weights: bool = False,
    may_step: bool = False,
) -> Call:
    """Bring the own slots to the end, where `split_attention` looks for them.

    Args:
        query: (B, Hq, T, D) of the new tokens.
        self_key: k' of the new tokens, (B, Hkv, T, D); None: k, as it is in the cache. self_value likewise.
        cached: from `update_cache`.
        mask: over the cache's columns, broadcastable to (B, Hq, T, S): bool (True = may attend) or additive.
        shows_weights: weights will be asked for, so every column has to keep its meaning (`Call.by_slot`).
        may_step: the kernel of a single step may be chosen where it serves; see `Call.filled`.
    """
    T, slots = query.shape[2], cached.slots
    is_single = T == 1 and not cached.is_packed
    if is_single and may_step and not shows_weights and _steps(query, self_key, self_value, cached, mask):
        filled = cached.key.shape[2] - 1 if slots is None else slots
        pair = _own_pair(self_key, self_value, cached, T)
        return Call(query, cached.key, cached.value, *pair, mask, slots, filled=filled)
    if slots is None:
        return Call(query, cached.key, cached.value, self_key, self_value, mask)
    if mask is None:
        if cached.is_packed:
            raise ValueError("mask must be a tensor where sequences are packed, got None")
        mask = (torch.arange(cached.key.shape[2], device=query.device) <= slots[:, None])[None, None]
    if is_single and not shows_weights:
        # The last column does not hold the own pair, so that is passed even where nothing is split.
        pair = _own_pair(self_key, self_value, cached, T)
        return Call(query, cached.key, cached.value, *pair, _own_slot_last(mask, slots), slots)
    new_key, new_value = cached.new_tokens(T)
    key, value = torch.cat([cached.key, new_key], dim=2), torch.cat([cached.value, new_value], dim=2)
    mask = _new_columns_last(mask, slots, has_padding=cached.is_packed)
    return Call(query, key, value, self_key, self_value, mask, slots, is_appended=True)


def _steps(
    query: Tensor, self_key: Tensor | None, self_value: Tensor | None, cached: Cached, mask: Tensor | None
) -> bool:
    """Whether one token meets its cache in the kernel of a step, which reads only what is filled."""
    # torch's own attention serves where nothing is split and nothing is left out.
    is_ordinary = self_key is None and self_value is None and cached.slots is None
    return not is_ordinary and serves_step(query, cached.key, cached.value, mask)


def _own_pair(self_key: Tensor | None, self_value: Tensor | None, cached: Cached, tokens: int) -> tuple[Tensor, Tensor]:
    """k' and v', or k and v where they are not split."""
    if self_key is not None and self_value is not None:
        return self_key, self_value
    key, value = cached.new_tokens(tokens)
    return key if self_key is None else self_key, value if self_value is None else self_value


def _own_slot_last(mask: Tensor, slot: Tensor) -> Tensor:
    """For one query over a cache of fixed size: its own slot is hidden, and the last column stands for it.

    The last column's key is unwritten yet, or the query's own, and the own pair replaces it anyway.
    """
    columns = torch.arange(mask.shape[-1], device=mask.device)
    own = mask.index_select(-1, slot)
    return torch.where(columns == columns[-1], own, _hidden(mask, columns == slot))


def _new_columns_last(mask: Tensor, slots: Tensor, *, has_padding: bool) -> Tensor:
    """For several queries over a cache that has them anywhere: their slots are hidden there and appended at the end."""
    is_new = torch.zeros(mask.shape[-1], dtype=torch.bool, device=mask.device).index_fill(0, slots, True)
    appended = mask.index_select(-1, slots)
    if has_padding:
        # What pads a packed row has the slot of the last real token, which must not be seen twice.
        appended = _hidden(appended, torch.cat([slots.new_ones(1) < 0, slots[1:] == slots[:-1]]))
    return torch.cat([_hidden(mask, is_new), appended], dim=-1)


def _hidden(mask: Tensor, columns: Tensor) -> Tensor:
    """The mask with some columns hidden from every query."""
    return mask & ~columns if mask.dtype == torch.bool else mask.masked_fill(columns, -torch.inf)
