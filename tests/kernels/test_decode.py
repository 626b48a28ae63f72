"""The kernels of a step of generation against attention in float64; in the interpreter where there is no GPU."""

import pytest
import torch

from twofold import split_attention
from twofold.kernels.decode import attend_filled, serves_step

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def check(B, Hq, Hkv, D, length, *, capacity, mask=None, is_counted=False):
    """Whatever lies beyond `length` is NaN: it must not be read."""

    def draw(heads, tokens):
        return torch.randn(B, tokens, heads, D, device=DEVICE).half().transpose(1, 2)

    query, self_key, self_value = draw(Hq, 1), draw(Hkv, 1), draw(Hkv, 1)
    key_cache, value_cache = draw(Hkv, capacity).contiguous(), draw(Hkv, capacity).contiguous()
    key_cache[:, :, length:], value_cache[:, :, length:] = torch.nan, torch.nan
    counter = torch.tensor(length, device=DEVICE) if is_counted else length
    out = attend_filled(query, self_key, self_value, key_cache, value_cache, counter, mask)
    keys = torch.cat([key_cache[:, :, :length], self_key], dim=2).double()
    values = torch.cat([value_cache[:, :, :length], self_value], dim=2).double()
    seen = None if mask is None else mask[..., : length + 1]
    exact = split_attention(query.double(), keys, values, attn_mask=seen, enable_gqa=True)
    torch.testing.assert_close(out.double(), exact, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("B", "Hq", "Hkv", "D"), [(1, 1, 1, 16), (2, 4, 2, 24), (3, 8, 1, 64), (2, 3, 3, 128)])
@pytest.mark.parametrize(("length", "columns"), [(64, 64), (65, 64), (1, 128), (300, 128)])
@pytest.mark.usefixtures("poisoned")
def test_shapes_and_borders_of_the_shares(B, Hq, Hkv, D, length, columns, monkeypatch):
    monkeypatch.setattr("twofold.kernels.triton.decode.cut", lambda length, *_: (length // 64 + 1, columns))
    check(B, Hq, Hkv, D, length, capacity=length + 3)


@pytest.mark.parametrize("is_counted", [False, True])
@pytest.mark.parametrize("masked", [None, "all", "left", "everything", "self"])
@pytest.mark.parametrize("length", [0, 64, 130])
@pytest.mark.usefixtures("poisoned")
def test_masks_and_a_length_on_the_device(is_counted, masked, length, monkeypatch):
    """Left padding, a token that may not see itself, one that may see nothing."""
    monkeypatch.setattr("twofold.kernels.triton.decode.LONGEST", 64)
    mask = None
    if masked is not None:
        mask = torch.ones(1 if masked == "all" else 2, 1, 1, 200, dtype=torch.bool, device=DEVICE)
    if masked == "left":
        mask[0, ..., : length // 2] = False
    if masked == "everything":
        mask[1] = False
    if masked == "self":
        mask[1, ..., length] = False
    check(2, 4, 2, 16, length, capacity=200, mask=mask, is_counted=is_counted)


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
def test_a_replayed_chain_of_steps():
    """Kernels overlap where the GPU can; each step's query is the last one's output, so none may start too early."""
    steps, past, B, H, D = 6, 3000, 2, 4, 64
    first, own_keys, own_values = (torch.randn(B, H, steps, D, device="cuda", dtype=torch.float16) for _ in range(3))
    key_cache, value_cache = (torch.randn(B, H, past + steps, D, device="cuda", dtype=torch.float16) for _ in range(2))

    def chain():
        queries = [first[:, :, :1]]
        for t in range(steps):
            own = (own_keys[:, :, t : t + 1], own_values[:, :, t : t + 1])
            queries.append(attend_filled(queries[-1], *own, key_cache, value_cache, past + t))
        return queries

    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        chain()
        with torch.cuda.graph(graph):
            queries = chain()
    replays = []
    for _ in range(50):
        for tensor in queries[1:]:
            tensor.fill_(float("nan"))
        graph.replay()
        replays.append(torch.cat(queries[1:], dim=2))
    assert all(torch.equal(replay, replays[0]) for replay in replays)
    keys, values, exact_keys, exact_values = (t.double() for t in (key_cache, value_cache, own_keys, own_values))
    for t in range(steps):
        seen, own = slice(past + t), slice(t, t + 1)
        scores = queries[t].double() @ torch.cat([keys[:, :, seen], exact_keys[:, :, own]], dim=2).mT * D**-0.5
        exact = scores.softmax(-1) @ torch.cat([values[:, :, seen], exact_values[:, :, own]], dim=2)
        torch.testing.assert_close(queries[t + 1].double(), exact, rtol=3e-3, atol=3e-3)


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
