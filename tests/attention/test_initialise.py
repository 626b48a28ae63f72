"""The mean own-minus-other score that every initialisation produces, with and without a LayerNorm before it."""

import pytest
import torch
from torch import nn

from twofold import SplitSelfAttention
from twofold.attention import Aligned, Patent

WIDTH, HEADS, TOKENS = 64, 4, 64


def own_minus_other(init, seed, norm=None, kv_heads=HEADS, shift=1.0):
    """Mean over tokens and heads of (own score - mean score of the others), scaled by 1/sqrt(D)."""
    torch.manual_seed(seed)
    layer = SplitSelfAttention(WIDTH, HEADS, kv_heads=kv_heads, kind="split_kv", init=init)
    x = torch.randn(4, TOKENS, WIDTH) + shift
    x = x if norm is None else norm(x)
    with torch.no_grad():
        q, k, _, own_k, _ = layer.project(x)
        groups = HEADS // kv_heads
        k, own_k = k.repeat_interleave(groups, 1), own_k.repeat_interleave(groups, 1)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        own = (q * own_k).sum(-1) / q.shape[-1] ** 0.5
        others = (scores.sum(-1) - scores.diagonal(dim1=-2, dim2=-1)) / (TOKENS - 1)
        return (own - others).mean().item()


def over_seeds(*args, **kwargs):
    return torch.tensor([own_minus_other(args[0], seed, *args[1:], **kwargs) for seed in range(12)])


LAYER_NORM = nn.LayerNorm(WIDTH, elementwise_affine=False)


@pytest.mark.parametrize("norm", [None, LAYER_NORM], ids=["raw", "after LayerNorm"])
@pytest.mark.parametrize("init", ["copy", "independent"])
def test_copy_and_independent_prefer_nobody(init, norm):
    found = over_seeds(init, norm)
    assert found.mean().abs() < 3 * found.std() / 12**0.5 + 0.02


@pytest.mark.parametrize("norm", [None, LAYER_NORM], ids=["raw", "after LayerNorm"])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_aligned_prefers_oneself_every_time(norm, kv_heads):
    assert (over_seeds("aligned", norm, kv_heads=kv_heads) > 0.3).all()


def test_aligned_adds_strength_times_the_squared_query():
    torch.manual_seed(0)
    layer = SplitSelfAttention(WIDTH, HEADS, init=Aligned(0.7), bias=True)
    q, k, _, own_k, _ = layer.project(torch.randn(2, 5, WIDTH))
    torch.testing.assert_close(own_k, k + 0.7 * q)


def test_aligned_takes_the_mean_query_of_a_group():
    torch.manual_seed(0)
    layer = SplitSelfAttention(WIDTH, HEADS, kv_heads=2, init="aligned", bias=True)
    q, k, v, own_k, own_v = layer.project(torch.randn(2, 5, WIDTH))
    torch.testing.assert_close(own_k, k + q.unflatten(1, (2, 2)).mean(2))
    assert torch.equal(own_v, v)


def test_patent_has_a_large_gap_of_random_sign():
    found = over_seeds("patent")
    assert found.abs().median() > 0.3
    assert found.min() < 0 < found.max()


def test_patent_does_nothing_after_a_layer_norm():
    """The gap is proportional to the sum of the features, which a LayerNorm sets to 0."""
    after, raw = over_seeds("patent", LAYER_NORM), over_seeds("patent")
    assert after.abs().max() < 0.1
    assert after.abs().median() < raw.abs().median() / 5


@pytest.mark.parametrize("epsilon", [None, 0.0, 0.05])
def test_patent_draws_as_published(epsilon):
    torch.manual_seed(0)
    layer = SplitSelfAttention(256, 4, init=Patent(epsilon))
    s = 1 / 256**0.5
    e = s / 2 if epsilon is None else epsilon
    for weight, low, high in (
        (layer.self_key.weight, -s + e, s + e),
        (layer.key.weight, -s - e, s - e),
        (layer.value.weight, -s, s),
        (layer.self_value.weight, -s, s),
    ):
        assert low <= weight.min() < low + 0.01 * s
        assert high - 0.01 * s < weight.max() <= high
        torch.testing.assert_close(weight.mean().item(), (low + high) / 2, atol=0.02 * s, rtol=0)
    assert not torch.equal(layer.value.weight, layer.self_value.weight)


def test_a_negative_epsilon_is_refused():
    with pytest.raises(ValueError, match="epsilon must be at least 0, got -1"):
        SplitSelfAttention(8, 2, init=Patent(-1))


@pytest.mark.parametrize("init", ["copy", "patent", "aligned", "independent"])
@pytest.mark.parametrize("kind", ["standard", "split_key", "split_value", "split_kv"])
def test_every_init_serves_every_kind(init, kind):
    torch.manual_seed(0)
    layer = SplitSelfAttention(16, 2, kind=kind, init=init, bias=True)
    assert layer(torch.randn(1, 3, 16))[0].isfinite().all()
    if kind in ("standard", "split_value"):
        torch.manual_seed(0)
        plain = SplitSelfAttention(16, 2, kind=kind, init="independent", bias=True)
        assert torch.equal(layer.key.weight, plain.key.weight)
