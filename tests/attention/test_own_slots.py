"""Own slots over caches: whatever the cache and the pieces a text comes in, the result is that of the whole text."""

import pytest
import torch
from transformers import DynamicCache, StaticCache

from twofold.attention.own_slots import Cached, place_own_slots, slots_from, update_cache
from twofold.kernels.api import split_attention, split_attention_weights
from twofold.models import DecoderConfig

B, HEADS, T, D = 2, 4, 9, 8
WINDOW = 4
PIECES = {"one by one": [1] * T, "prompt and steps": [5, 1, 1, 1, 1], "pieces": [3, 1, 4, 1], "all at once": [T]}
CACHES = ["dynamic", "static", "sliding dynamic", "sliding static"]
SPLIT = {"both": (True, True), "key": (True, False), "value": (False, True), "neither": (False, False)}
ENDS = {"both": (True, True), "neither": (False, False)}


def states(kv_heads, split=(True, True), tokens=T, batch=B):
    """query, key, value, self_key, self_value of a text."""
    torch.manual_seed(0)
    key, value, self_key, self_value = torch.randn(4, batch, kv_heads, tokens, D, dtype=torch.float64)
    query = torch.randn(batch, HEADS, tokens, D, dtype=torch.float64)
    return query, key, value, self_key if split[0] else None, self_value if split[1] else None


def cut(tensors, start, end):
    return [None if tensor is None else tensor[:, :, start:end] for tensor in tensors]


def cache_of(name):
    window = WINDOW if "sliding" in name else None
    sizes = {"vocab_size": 8, "hidden_size": 32, "num_attention_heads": HEADS, "num_hidden_layers": 1}
    config = DecoderConfig(**sizes, sliding_window=window)
    return StaticCache(config=config, max_cache_len=T + 3) if "static" in name else DynamicCache(config=config)


def mask_of(cache, tokens, padding, window, additive):
    """What the next `tokens` tokens may see of the columns that the cache will return, (B, 1, tokens, columns)."""
    seen = int(cache.get_seq_length(0))
    columns, offset = cache.get_mask_sizes(tokens, 0)
    key_at, query_at = torch.arange(columns) + offset, (torch.arange(tokens) + seen)[:, None]
    may = (key_at <= query_at) & (key_at > query_at - window)
    real = torch.arange(T + 8) >= torch.tensor([[padding], [0]])
    may = may & real[:, None, None, key_at]
    if not additive:
        return may
    return torch.zeros(may.shape, dtype=torch.float64).masked_fill(~may, -torch.inf)


def by_pieces(tensors, cache, pieces, masks, **options):
    """Outputs and weights of every piece, and where its columns stand in the text."""
    outputs, weights, start = [], [], 0
    for tokens in pieces:
        query, key, value, self_key, self_value = cut(tensors, start, start + tokens)
        mask = None if masks is None else masks(cache, tokens)
        offset = cache.get_mask_sizes(tokens, 0)[1]
        cached = update_cache(cache, key, value, 0)
        call = place_own_slots(query, self_key, self_value, cached, mask, **options)
        outputs.append(call.attend(is_causal=True))
        shown = call.by_slot(split_attention_weights(query, call.key, self_key, **call.options(is_causal=True)))
        # Of all columns those of the text so far; what lies before the window is 0.
        kept = shown[..., : start + tokens - offset]
        weights.append(torch.nn.functional.pad(kept, (offset, T - start - tokens)))
        start += tokens
    return torch.cat(outputs, dim=2), torch.cat(weights, dim=2)


@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("split", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize(("padding", "additive", "kv_heads"), [(0, False, 4), (3, False, 2), (3, True, 1)])
def test_pieces_over_a_cache_are_the_whole_text(name, pieces, split, padding, additive, kv_heads):
    tensors, window = states(kv_heads, split), WINDOW if "sliding" in name else T
    options = {"is_causal": True, "enable_gqa": True, "window": window - 1}
    real = (torch.arange(T) >= torch.tensor([[padding], [0]]))[:, None, None]
    expected = split_attention(*tensors, attn_mask=real, backend="reference", **options)
    expected_weights = split_attention_weights(tensors[0], tensors[1], tensors[3], attn_mask=real, **options)
    output, weights = by_pieces(
        tensors,
        cache_of(name),
        pieces,
        lambda cache, tokens: mask_of(cache, tokens, padding, window, additive),
        shows_weights=True,
    )
    kept = [(0, slice(padding, None)), (1, slice(None))]
    for row, places in kept:
        torch.testing.assert_close(output[row, :, places], expected[row, :, places])
        torch.testing.assert_close(weights[row, :, places], expected_weights[row, :, places])


@pytest.mark.parametrize("name", ["dynamic", "static"])
@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("split", SPLIT.values(), ids=SPLIT)
def test_without_a_mask_order_is_causal(name, pieces, split):
    tensors, cache, outputs, start = states(2, split), cache_of(name), [], 0
    for tokens in pieces:
        query, key, value, self_key, self_value = cut(tensors, start, start + tokens)
        call = place_own_slots(query, self_key, self_value, update_cache(cache, key, value, 0))
        # One token over a cache of fixed size costs no copy of the cache.
        assert call.is_appended == (name == "static" and tokens > 1)
        outputs.append(call.attend(is_causal=True))
        start += tokens
    expected = split_attention(*tensors, is_causal=True, enable_gqa=True, backend="reference")
    torch.testing.assert_close(torch.cat(outputs, dim=2), expected)


@pytest.mark.parametrize("is_causal", [True, False])
def test_no_cache_is_the_ordinary_call(is_causal):
    tensors = states(2)
    query, key, value, self_key, self_value = tensors
    call = place_own_slots(query, self_key, self_value, update_cache(None, key, value, 0))
    assert call.key is key
    assert call.slots is None
    assert not call.is_appended
    expected = split_attention(*tensors, is_causal=is_causal, enable_gqa=True)
    torch.testing.assert_close(call.attend(is_causal=is_causal), expected)


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("split", SPLIT.values(), ids=SPLIT)
@pytest.mark.parametrize("name", CACHES)
def test_whoever_updated_the_cache_needs_only_what_it_had_seen(name, pieces, split):
    """As a converted model has it, whose attention function is given all keys, rotated, the new ones among them."""
    tensors, cache, outputs, start = states(2, split), cache_of(name), [], 0
    window = WINDOW if "sliding" in name else T
    for tokens in pieces:
        query, key, value, self_key, self_value = cut(tensors, start, start + tokens)
        mask = mask_of(cache, tokens, 0, window, additive=False)
        seen = cache.get_seq_length(0)
        seen = seen.clone() if isinstance(seen, torch.Tensor) else seen
        keys, values = cache.update(key, value, 0)
        cached = Cached(keys, values, slots_from(seen, tokens, keys))
        for new, read in zip((key, value), cached.new_tokens(tokens), strict=True):
            assert torch.equal(new, read)
        outputs.append(place_own_slots(query, self_key, self_value, cached, mask).attend(is_causal=True))
        start += tokens
    expected = split_attention(*tensors, is_causal=True, enable_gqa=True, window=window - 1, backend="reference")
    torch.testing.assert_close(torch.cat(outputs, dim=2), expected)


class Pages:
    """A paged cache of one layer, as transformers' continuous batching has it: many sequences in one row."""

    def __init__(self, slots):
        self.key, self.value = torch.full((2, slots, 2, D), torch.nan, dtype=torch.float64)

    def update(self, key_states, value_states, layer_idx, kwargs):
        assert layer_idx == 0
        returned = []
        for states, kept in ((key_states, self.key), (value_states, self.value)):
            kept[kwargs["write_index"][0]] = states[0].transpose(0, 1)[: len(kwargs["write_index"][0])]
            returned.append(kept[kwargs["read_index"][0]].transpose(0, 1)[None])
        return returned


class PagesBefore(Pages):
    """The same before transformers 5.22."""

    def update(self, key_states, value_states, layer_idx, read_index, write_index):
        named = {"read_index": read_index, "write_index": write_index}
        return [states[0].transpose(0, 1) for states in super().update(key_states, value_states, layer_idx, named)]


@pytest.mark.parametrize("pages", [Pages, PagesBefore])
@pytest.mark.parametrize("split", SPLIT.values(), ids=SPLIT)
def test_packed_sequences_are_as_if_alone(split, pages):
    """One with three tokens in the cache and two new ones, one that is all new, and queries that pad the row."""
    first, second = states(2, split, tokens=5, batch=1), states(2, split, tokens=4, batch=1)
    second = [None if tensor is None else -tensor for tensor in second]
    cache = pages(16)
    for kept, tensor in ((cache.key, first[1]), (cache.value, first[2])):
        kept[[7, 3, 5]] = tensor[0, :, :3].transpose(0, 1)
    row = [
        None if one is None else torch.cat([one[:, :, 3:], other, torch.zeros_like(other[:, :, :2])], dim=2)
        for one, other in zip(first, second, strict=True)
    ]
    slots = [7, 3, 5, 1, 9, 0, 2, 4, 6]
    packed = {
        "cache": cache,
        "cu_seq_lens_q": torch.tensor([0, 2, 6]),
        "cu_seq_lens_k": torch.tensor([0, 5, 9]),
        "read_index": [torch.tensor(slots)],
        "write_index": [torch.tensor([1, 9, 0, 2, 4, 6])],
    }
    mask = torch.zeros(1, 1, 8, 9, dtype=torch.bool)
    mask[..., :2, :5] = torch.ones(5, 5, dtype=torch.bool).tril()[3:]
    mask[..., 2:6, 5:] = torch.ones(4, 4, dtype=torch.bool).tril()
    query, key, value, self_key, self_value = row
    if pages is PagesBefore:
        key, value = key[:, :, :6], value[:, :, :6]
    cached = update_cache(cache, key, value, 0, packed)
    if pages is PagesBefore:
        query, self_key, self_value = cut([query, self_key, self_value], 0, 6)
        mask = mask[..., :6, :]
    call = place_own_slots(query, self_key, self_value, cached, mask)
    output, options = call.attend(is_causal=True), {"is_causal": True, "enable_gqa": True}
    torch.testing.assert_close(output[:, :, :2], split_attention(*first, **options)[:, :, 3:])
    torch.testing.assert_close(output[:, :, 2:6], split_attention(*second, **options))
    shown = call.by_slot(split_attention_weights(query, call.key, self_key, **call.options(is_causal=True)))
    expected = split_attention_weights(second[0], second[1], second[3], **options)
    torch.testing.assert_close(shown[:, :, 2:6, 5:9], expected)
    with pytest.raises(ValueError, match="mask"):
        place_own_slots(query, self_key, self_value, cached)
