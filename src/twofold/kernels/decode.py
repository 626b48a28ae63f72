"""One step of generation over a cache that holds only what the *others* need: k and v of the past.

A single token: write (k', v') into its slot, run ordinary attention, overwrite the slot with (k, v). The cache has
exactly the standard size and any decode kernel serves. On GPUs a kernel of our own takes the own pair from where it is
and writes the slot once (`triton/decode`). A chunk of several tokens must see both of a token's keys at once, so it
writes (k, v) and runs split attention over the filled part.

`attend_filled` is the same kernel for a cache that others have written to already.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from twofold.kernels import fused
from twofold.kernels.api import split_attention
from twofold.kernels.checks import check, have_tangents
from twofold.kernels.library import empty_heads


def decode_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    self_key: Tensor | None,
    self_value: Tensor | None,
    key_cache: Tensor,
    value_cache: Tensor,
    length: int,
    *,
    attend: Callable[..., Tensor] = split_attention,
    **options: Any,
) -> Tensor:
    """Attend from T new tokens to the first `length` slots and to themselves, and keep their k and v.

    Args:
        query: (B, Hq, T, D) of the new tokens; key, self_key (B, Hkv, T, D); value, self_value (B, Hkv, T, Dv).
        key_cache: (B, Hkv, capacity, D), written in place at slots length .. length + T - 1; value_cache likewise.
        length: slots already filled.
        attend: the attention function.
        options: as in `split_attention`; attn_mask broadcasts to (B, Hq, T, length + T). A chunk is causal only with
            is_causal=True.

    Returns:
        (B, Hq, T, Dv).
    """
    _check_tokens(query, key, value, self_key, self_value)
    for name, tensor, cache in (("key", key, key_cache), ("value", value, value_cache)):
        _check_cache(name, tensor, cache, length)
    if torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (query, key, value, self_key, self_value)
    ):
        raise ValueError("query, keys and values must not require a gradient here: decoding overwrites its cache")
    filled = length + query.shape[2]
    keys, values = key_cache[:, :, :filled], value_cache[:, :, :filled]
    # To a compiler an op: left to itself (torch 2.13) it copies the whole cache for a slot that is written twice.
    write = write_slots if torch.compiler.is_compiling() else _write_slots
    if query.shape[2] > 1:
        write(key_cache, value_cache, key, value, length)
        return attend(query, keys, values, self_key, self_value, **options)
    is_split = self_key is not None or self_value is not None
    own_key, own_value = key if self_key is None else self_key, value if self_value is None else self_value
    if not is_split:
        # Written once, which a compiler makes a part of whatever it is doing.
        _write_slots(key_cache, value_cache, key, value, length)
        return attend(query, keys, values, **options)
    if attend is split_attention and _has_kernel(query, key_cache, value_cache, options):
        call = check(query, own_key, own_value, None, None, scale=options.get("scale"), enable_gqa=True)
        caches = (key_cache, value_cache)
        return attend_and_write(call.query, key, value, own_key, own_value, *caches, length, call.scale)
    write(key_cache, value_cache, own_key, own_value, length)
    try:
        return attend(query, keys, values, **options)
    finally:
        write(key_cache, value_cache, key, value, length)


def _has_kernel(query: Tensor, key_cache: Tensor, value_cache: Tensor, options: dict[str, Any]) -> bool:
    """Whether `attend_and_write` serves: one token a sequence that sees all its past, with softmax as it is."""
    plain = {"is_causal": (True, False), "enable_gqa": (True, False), "backend": ("auto",), "dropout_p": (0,)}
    told = {name: value for name, value in options.items() if name != "scale" and value is not None}
    return bool(
        (options.get("enable_gqa") or query.shape[1] == key_cache.shape[1])
        and all(name in plain and value in plain[name] for name, value in told.items())
        and serves_step(query, key_cache, value_cache)
    )


def serves_step(query: Tensor, key_cache: Tensor, value_cache: Tensor, attn_mask: Tensor | None = None) -> bool:
    """Whether the kernel of a step takes these: a query (B, Hq, 1, D), caches (B, Hkv, capacity, D).

    attn_mask: bool, one row for all heads, (B or 1, 1, 1, capacity).
    """
    has_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key_cache, value_cache))
    return bool(
        fused.INSTALLED
        and query.is_cuda
        and query.dtype in (torch.bfloat16, torch.float16)
        and key_cache.dtype == value_cache.dtype == query.dtype
        and query.shape[2] == 1
        and query.shape[-1] == value_cache.shape[-1] <= 128
        and query.numel() > 0
        and query.shape[1] % key_cache.shape[1] == 0
        and key_cache.stride(-1) == value_cache.stride(-1) == 1
        and (attn_mask is None or _is_one_row(attn_mask, query.shape[0], key_cache.shape[2]))
        and not has_gradient
        and not have_tangents(query, key_cache, value_cache)
    )


def _is_one_row(attn_mask: Tensor, batch: int, capacity: int) -> bool:
    return attn_mask.dtype == torch.bool and tuple(attn_mask.shape) in ((batch, 1, 1, capacity), (1, 1, 1, capacity))


@torch.library.custom_op("twofold::attend_and_write", mutates_args=("key_cache", "value_cache"))
def attend_and_write(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    self_key: Tensor,
    self_value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    length: int,
    scale: float,
) -> Tensor:
    """`decode_attention` of one token a sequence, without a mask."""
    from twofold.kernels.triton.decode import step

    with torch.cuda.device_of(query):
        return step(query, self_key, self_value, key_cache, value_cache, length, scale, write=(key, value))


@attend_and_write.register_fake
def _(query, *_):  # noqa: ANN001, ANN002, ANN202
    return empty_heads(query)


def attend_filled(
    query: Tensor,
    self_key: Tensor,
    self_value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    length: int | Tensor,
    attn_mask: Tensor | None = None,
) -> Tensor:
    """Attend from one token a sequence to the first `length` slots and, by (self_key, self_value), to itself.

    Nothing is written and nothing beyond `length` is read; `serves_step` says for which tensors.

    Args:
        query: (B, Hq, 1, D); self_key, self_value (B, Hkv, 1, D).
        key_cache: (B, Hkv, capacity, D); value_cache likewise.
        length: slots of the past; a whole number or a tensor of one on the device, which a CUDA graph reads anew.
        attn_mask: as in `serves_step`; column `length` says whether the token sees itself.

    Returns:
        (B, Hq, 1, D).
    """
    number, counter = (0, length) if isinstance(length, Tensor) else (length, None)
    scale = query.shape[-1] ** -0.5
    return _attend_filled(
        query, self_key, self_value, key_cache, value_cache, number, counter, attn_mask, scale
    )  # fmt: skip


@torch.library.custom_op("twofold::attend_filled", mutates_args=())
def _attend_filled(
    query: Tensor,
    self_key: Tensor,
    self_value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    number: int,
    counter: Tensor | None,
    attn_mask: Tensor | None,
    scale: float,
) -> Tensor:
    from twofold.kernels.triton.decode import step

    length = number if counter is None else counter
    with torch.cuda.device_of(query):
        return step(query, self_key, self_value, key_cache, value_cache, length, scale, attn_mask=attn_mask)


@_attend_filled.register_fake
def _(query, *_):  # noqa: ANN001, ANN002, ANN202
    return empty_heads(query)


def _write_slots(key_cache: Tensor, value_cache: Tensor, key: Tensor, value: Tensor, length: int) -> None:
    key_cache[:, :, length : length + key.shape[2]] = key
    value_cache[:, :, length : length + value.shape[2]] = value


write_slots = torch.library.custom_op("twofold::write_slots", mutates_args=("key_cache", "value_cache"))(_write_slots)
write_slots.register_fake(lambda *_: None)


def _check_tokens(
    query: Tensor, key: Tensor, value: Tensor, self_key: Tensor | None, self_value: Tensor | None
) -> None:
    """Writing into a cache would broadcast what does not fit, so everything must fit before."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor) or tensor.dim() != 4:
            raise ValueError(
                f"{name} must be a tensor of 4 dimensions (batch, heads, tokens, width), got {tensor!r:.60}"
            )
    B, _, T, _ = query.shape
    for name, tensor, like in (
        ("key", key, (B, key.shape[1], T, query.shape[3])),
        ("value", value, (B, key.shape[1], T, value.shape[3])),
        ("self_key", self_key, tuple(key.shape)),
        ("self_value", self_value, tuple(value.shape)),
    ):
        if tensor is not None and (not isinstance(tensor, Tensor) or tuple(tensor.shape) != like):
            raise ValueError(f"{name} must have shape {like}, got {tuple(getattr(tensor, 'shape', ())) or tensor!r}")
        if tensor is not None and (tensor.dtype, tensor.device) != (query.dtype, query.device):
            expected, found = f"{query.dtype} on {query.device}", f"{tensor.dtype} on {tensor.device}"
            raise ValueError(f"{name} must be {expected} like query, got {found}")


def _check_cache(name: str, tensor: Tensor, cache: Tensor, length: int) -> None:
    expected = (*tensor.shape[:2], "capacity", tensor.shape[3])
    if cache.dim() != 4 or (*cache.shape[:2], cache.shape[3]) != (*tensor.shape[:2], tensor.shape[3]):
        raise ValueError(f"{name}_cache must have shape {expected}, got {tuple(cache.shape)}")
    if cache.dtype != tensor.dtype or cache.device != tensor.device:
        raise ValueError(
            f"{name}_cache must be {tensor.dtype} on {tensor.device} like {name}, got {cache.dtype} on {cache.device}"
        )
    if isinstance(length, bool) or not isinstance(length, int):
        raise ValueError(f"length must be a whole number, got {length!r}")
    if not 0 <= length <= cache.shape[2] - tensor.shape[2]:
        raise ValueError(f"length must leave room for {tensor.shape[2]} tokens in {cache.shape[2]} slots, got {length}")
