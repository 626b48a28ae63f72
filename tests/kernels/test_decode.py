"""Prefill == decode step by step == reference, with a cache that holds only what the others need."""

import pytest
import torch

from twofold import split_attention
from twofold.kernels.decode import attend_and_write, attend_filled, decode_attention, serves_step

KINDS = {"standard": (False, False), "split_key": (True, False), "split_value": (False, True), "split_kv": (True, True)}


def tokens_of(kind, B=2, Hq=4, Hkv=2, T=9, D=6):
    q, k, v, own_k, own_v = (torch.randn(B, h, T, D, dtype=torch.float64) for h in (Hq, Hkv, Hkv, Hkv, Hkv))
    with_key, with_value = KINDS[kind]
    return q, k, v, own_k if with_key else None, own_v if with_value else None


def cut(tensors, rows):
    return [None if tensor is None else tensor[:, :, rows] for tensor in tensors]


def caches(k, v, capacity=12):
    return k.new_full((*k.shape[:2], capacity, k.shape[3]), 9.0), v.new_full((*v.shape[:2], capacity, v.shape[3]), 9.0)


@pytest.mark.parametrize("chunks", [[1] * 9, [4, 1, 1, 3], [9], [3, 6], [1, 8]], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [None, 3])
def test_any_way_of_cutting_the_sequence_gives_the_same(kind, chunks, window):
    tensors = tokens_of(kind)
    options = {"enable_gqa": True, "is_causal": True, "window": window}
    exact = split_attention(*tensors, backend="reference", **options)
    key_cache, value_cache = caches(tensors[1], tensors[2])
    outs, length = [], 0
    for chunk in chunks:
        new = cut(tensors, slice(length, length + chunk))
        outs.append(decode_attention(*new, key_cache, value_cache, length, **options))
        length += chunk
    torch.testing.assert_close(torch.cat(outs, dim=2), exact)


def test_the_cache_holds_the_others_keys_and_values_and_nothing_beyond():
    tensors = tokens_of("split_kv")
    key_cache, value_cache = caches(tensors[1], tensors[2])
    for t in range(9):
        decode_attention(*cut(tensors, slice(t, t + 1)), key_cache, value_cache, t, enable_gqa=True)
    assert torch.equal(key_cache[:, :, :9], tensors[1])
    assert torch.equal(value_cache[:, :, :9], tensors[2])
    assert (key_cache[:, :, 9:] == 9).all()


def test_padding_masks_reach_a_step():
    tensors = tokens_of("split_kv")
    keep = torch.ones(2, 1, 1, 9, dtype=torch.bool)
    keep[0, ..., :3] = False
    exact = split_attention(*tensors, attn_mask=keep, is_causal=True, enable_gqa=True)
    key_cache, value_cache = caches(tensors[1], tensors[2])
    for t in range(9):
        new = cut(tensors, slice(t, t + 1))
        out = decode_attention(*new, key_cache, value_cache, t, attn_mask=keep[..., : t + 1], enable_gqa=True)
        torch.testing.assert_close(out, exact[:, :, t : t + 1])


def test_a_refused_step_leaves_the_others_cache_in_place():
    tensors = tokens_of("split_kv")
    key_cache, value_cache = caches(tensors[1], tensors[2])
    with pytest.raises(ValueError, match="attn_mask must broadcast"):
        decode_attention(
            *cut(tensors, slice(0, 1)), key_cache, value_cache, 0, attn_mask=torch.ones(5, 5) > 0, enable_gqa=True
        )
    assert torch.equal(key_cache[:, :, :1], tensors[1][:, :, :1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda k, v: (k[:, :1], v, 0), r"key_cache must have shape \(2, 2, 'capacity', 6\), got \(2, 1, 12, 6\)"),
        (lambda k, v: (k, v[..., :5], 0), r"value_cache must have shape \(2, 2, 'capacity', 6\), got \(2, 2, 12, 5\)"),
        (lambda k, v: (k.float(), v, 0), "key_cache must be torch.float64 on cpu like key, got torch.float32 on cpu"),
        (lambda k, v: (k, v, 12), "length must leave room for 1 tokens in 12 slots, got 12"),
        (lambda k, v: (k, v, -1), "length must leave room for 1 tokens in 12 slots, got -1"),
    ],
)
def test_a_wrong_cache_is_refused(change, message):
    tensors = cut(tokens_of("split_kv"), slice(0, 1))
    with pytest.raises(ValueError, match=message):
        decode_attention(*tensors, *change(*caches(tensors[1], tensors[2])), enable_gqa=True)


@pytest.mark.parametrize("trained", range(5))
def test_decoding_cannot_be_trained_through(trained):
    tensors = cut(tokens_of("split_kv"), slice(0, 1))
    stores = caches(tensors[1], tensors[2])
    tensors[trained].requires_grad_()
    with pytest.raises(ValueError, match="decoding overwrites its cache"):
        decode_attention(*tensors, *stores, 0, enable_gqa=True)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.update(key=t["key"][:, :, :1]), r"key must have shape \(2, 2, 3, 6\), got \(2, 2, 1, 6\)"),
        (lambda t: t.update(value=t["value"][:, :1]), r"value must have shape \(2, 2, 3, 6\), got \(2, 1, 3, 6\)"),
        (lambda t: t.update(self_key=torch.zeros(6)), r"self_key must have shape \(2, 2, 3, 6\), got \(6,\)"),
        (lambda t: t.update(self_key=3), r"self_key must have shape \(2, 2, 3, 6\), got 3"),
        (lambda t: t.update(self_value=t["value"].float()), "self_value must be torch.float64 on cpu like query, got"),
        (lambda t: t.update(key=None), "key must be a tensor of 4 dimensions"),
        (lambda t: t.update(length=1.0), "length must be a whole number, got 1.0"),
    ],
)
def test_what_does_not_fit_is_not_written(spoil, message):
    names = ("query", "key", "value", "self_key", "self_value")
    given = dict(zip(names, cut(tokens_of("split_kv"), slice(0, 3)), strict=True))
    stores = caches(given["key"], given["value"])
    given["length"] = 0
    spoil(given)
    length = given.pop("length")
    with pytest.raises(ValueError, match=message):
        decode_attention(*given.values(), *stores, length, enable_gqa=True)
    assert (stores[0] == 9).all()
    assert (stores[1] == 9).all()


@pytest.mark.parametrize(("B", "Hq", "Hkv", "D"), [(1, 1, 1, 16), (2, 4, 2, 24), (3, 8, 1, 64), (2, 3, 3, 128)])
@pytest.mark.parametrize(("length", "columns"), [(0, 64), (1, 64), (64, 64), (65, 64), (200, 64), (1, 128), (300, 128)])
@pytest.mark.usefixtures("poisoned")
def test_the_kernel_of_a_step(B, Hq, Hkv, D, length, columns, monkeypatch):
    """Several parts, whose borders fall anywhere; what lies beyond the past is never looked at."""
    monkeypatch.setattr("twofold.kernels.triton.decode.cut", lambda length, *_: (length // 64 + 1, columns))
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def draw(heads, tokens):
        return torch.randn(B, tokens, heads, D, device=device).half().transpose(1, 2)

    query, key, value, self_key, self_value = (draw(heads, 1) for heads in (Hq, Hkv, Hkv, Hkv, Hkv))
    key_cache, value_cache = (draw(Hkv, length + 3).contiguous() for _ in range(2))
    key_cache[:, :, length:], value_cache[:, :, length:] = torch.nan, torch.nan
    past = key_cache[:, :, :length].clone(), value_cache[:, :, :length].clone()
    out = attend_and_write(query, key, value, self_key, self_value, key_cache, value_cache, length, D**-0.5)
    keys, values = torch.cat([past[0], self_key], dim=2).double(), torch.cat([past[1], self_value], dim=2).double()
    exact = split_attention(query.double(), keys, values, enable_gqa=True)
    torch.testing.assert_close(out.double(), exact, rtol=2e-3, atol=2e-3)
    assert torch.equal(key_cache[:, :, :length], past[0])
    assert torch.equal(value_cache[:, :, :length], past[1])
    assert torch.equal(key_cache[:, :, length], key[:, :, 0])
    assert torch.equal(value_cache[:, :, length], value[:, :, 0])
    assert key_cache[:, :, length + 1 :].isnan().all()


@pytest.mark.parametrize(
    ("length", "heads", "width", "parts", "columns"),
    [
        (1025, 12, 64, 17, 64),
        (32769, 12, 64, 43, 128),
        (1025, 384, 64, 2, 64),
        (4097, 384, 64, 5, 128),
        (32769, 384, 64, 17, 128),
        (8193, 64, 128, 9, 64),
        (0, 1, 64, 1, 64),
    ],
)
def test_how_a_past_is_cut(length, heads, width, parts, columns):
    """Enough programs for a GPU, and not so few waves of them that the last one counts; no tile for nothing."""
    pytest.importorskip("triton")
    from twofold.kernels.triton.decode import cut as past_cut

    assert past_cut(length, heads, width) == (parts, columns)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_steps_on_a_gpu_are_the_causal_pass(kind):
    tensors = [None if t is None else t.cuda().half() for t in tokens_of(kind, D=16)]
    exact = split_attention(*(None if t is None else t.double() for t in tensors), enable_gqa=True, is_causal=True)
    key_cache, value_cache = caches(tensors[1], tensors[2])
    with torch.no_grad():
        outs = [
            decode_attention(*cut(tensors, slice(t, t + 1)), key_cache, value_cache, t, enable_gqa=True)
            for t in range(9)
        ]
    torch.testing.assert_close(torch.cat(outs, dim=2).double(), exact, rtol=3e-3, atol=3e-3)
    assert torch.equal(key_cache[:, :, :9], tensors[1])


@pytest.mark.gpu
def test_a_replayed_chain_of_steps():
    """Kernels overlap where the GPU can; each step asks by what the last one found, so that none may come too early."""
    steps, past, B, H, D = 6, 3000, 2, 4, 64
    first, *news = (torch.randn(B, H, steps, D, device="cuda", dtype=torch.float16) for _ in range(5))
    key_cache, value_cache = (torch.randn(B, H, past + steps, D, device="cuda", dtype=torch.float16) for _ in range(2))

    def chain():
        asked = [first[:, :, :1]]
        for t in range(steps):
            asked.append(
                attend_and_write(asked[-1], *cut(news, slice(t, t + 1)), key_cache, value_cache, past + t, 1.0)
            )
        return asked

    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        chain()
        with torch.cuda.graph(graph):
            asked = chain()
    found = []
    for _ in range(50):
        for tensor in asked[1:]:
            tensor.fill_(float("nan"))
        graph.replay()
        found.append(torch.cat(asked[1:], dim=2))
    assert all(torch.equal(one, found[0]) for one in found)
    assert torch.equal(key_cache[:, :, past:], news[0])
    keys, values, own_keys, own_values = (t.double() for t in (key_cache, value_cache, *news[2:]))
    for t in range(steps):
        seen, own = slice(past + t), slice(t, t + 1)
        scores = asked[t].double() @ torch.cat([keys[:, :, seen], own_keys[:, :, own]], dim=2).mT
        exact = scores.softmax(-1) @ torch.cat([values[:, :, seen], own_values[:, :, own]], dim=2)
        torch.testing.assert_close(asked[t + 1].double(), exact, rtol=3e-3, atol=3e-3)


@pytest.mark.gpu
def test_a_layer_steps_by_the_kernel(monkeypatch):
    from twofold import SplitSelfAttention
    from twofold.attention.cache import KeyValueBuffer
    from twofold.kernels import decode

    called = []

    def listening(*arguments):
        called.append(arguments[7])
        return attend_and_write(*arguments)

    monkeypatch.setattr(decode, "attend_and_write", listening)
    layer = SplitSelfAttention(64, 4, kv_heads=2, init="independent", device="cuda", dtype=torch.float16)
    x = torch.randn(2, 5, 64, device="cuda", dtype=torch.float16)
    past = KeyValueBuffer(*(torch.zeros(2, 2, 8, 16, device="cuda", dtype=torch.float16) for _ in range(2)), 0)
    outs = []
    with torch.no_grad():
        exact, _ = layer(x, is_causal=True)
        for t in range(5):
            out, past = layer(x[:, t : t + 1], past)
            outs.append(out)
    assert called == [0, 1, 2, 3, 4]
    torch.testing.assert_close(torch.cat(outs, dim=1), exact, rtol=3e-3, atol=3e-3)


@pytest.mark.parametrize("is_counted", [False, True])
@pytest.mark.parametrize("masked", [None, "all", "left", "everything", "self"])
@pytest.mark.parametrize("length", [0, 1, 64, 130])
@pytest.mark.usefixtures("poisoned")
def test_the_kernel_over_a_cache_that_is_written_already(is_counted, masked, length, monkeypatch):
    """The length may be a tensor, whose value no launch knows; left padding, a hidden token, nothing to be seen."""
    monkeypatch.setattr("twofold.kernels.triton.decode.LONGEST", 64)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    B, Hq, Hkv, D, capacity = 2, 4, 2, 16, 200
    query, self_key, self_value = (torch.randn(B, heads, 1, D, device=device).half() for heads in (Hq, Hkv, Hkv))
    key_cache, value_cache = (torch.randn(B, Hkv, capacity, D, device=device).half() for _ in range(2))
    key_cache[:, :, length:], value_cache[:, :, length:] = torch.nan, torch.nan
    mask = None
    if masked is not None:
        mask = torch.ones(1 if masked == "all" else B, 1, 1, capacity, dtype=torch.bool, device=device)
    if masked == "left":
        mask[0, ..., : length // 2] = False
    if masked == "everything":
        mask[1] = False
    if masked == "self":
        mask[1, ..., length] = False
    told = torch.tensor(length, device=device) if is_counted else length
    out = attend_filled(query, self_key, self_value, key_cache, value_cache, told, mask)
    keys, values = (
        torch.cat([key_cache[:, :, :length], self_key], 2),
        torch.cat([value_cache[:, :, :length], self_value], 2),
    )
    seen = None if mask is None else mask[..., : length + 1]
    exact = split_attention(query.double(), keys.double(), values.double(), attn_mask=seen, enable_gqa=True)
    torch.testing.assert_close(out.double(), exact, rtol=2e-3, atol=2e-3)


def test_the_kernel_of_a_step_says_what_it_takes(monkeypatch):
    """On a CPU nothing; elsewhere no float32, no gradient, no mask that differs between heads or is not bool."""
    query, cache = torch.zeros(2, 4, 1, 16).half(), torch.zeros(2, 2, 9, 16).half()
    assert not serves_step(query, cache, cache)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    assert serves_step(query, cache, cache)
    for shape in ((2, 1, 1, 9), (1, 1, 1, 9)):
        assert serves_step(query, cache, cache, torch.ones(shape) > 0)
    for mask in (torch.ones(2, 4, 1, 9) > 0, torch.zeros(2, 1, 1, 9), torch.ones(2, 1, 1, 5) > 0):
        assert not serves_step(query, cache, cache, mask)
    assert not serves_step(query.expand(-1, -1, 2, -1), cache, cache)
    assert not serves_step(query.float(), cache.float(), cache.float())
    assert not serves_step(query, cache.bfloat16(), cache.bfloat16())
    assert not serves_step(query.clone().requires_grad_(), cache, cache)
    with torch.no_grad():
        assert serves_step(query.clone().requires_grad_(), cache, cache)
