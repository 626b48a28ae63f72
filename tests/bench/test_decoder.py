"""The benches' decoder: equal parameters whatever is split, and generation that agrees with the full pass."""

import pytest
import torch

from twofold.attention import KeyValueBuffer, Kind
from twofold.bench.decoder import Decoder, Sizes, parameters


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_every_kind_has_the_same_number_of_parameters(kv_heads):
    sizes = Sizes(4, kv_heads, 16, layers=2, vocabulary=50)
    assert len({parameters(Decoder(sizes, kind)) for kind in Kind}) == 1


def test_odd_heads_that_cannot_be_balanced_are_refused():
    with pytest.raises(ValueError, match="heads must be of even width for equal parameters, got 3"):
        Sizes(1, 1, 3).feed_forward("split_key")


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.needs("g++"))])
def test_steps_by_the_cache_agree_with_the_full_pass(kind, compiled):
    torch.compiler.reset()
    torch.manual_seed(0)
    sizes = Sizes(2, 1, 8, layers=2, vocabulary=50)
    model = Decoder(sizes, kind, dtype=torch.float64).eval().requires_grad_(False)
    tokens = torch.randint(50, (2, 6))
    full = model(tokens)
    caches = [KeyValueBuffer.allocate(2, 1, 6, 8, dtype=torch.float64) for _ in range(2)]
    model(tokens[:, :4], caches)
    caches = [cache.advanced(4) for cache in caches]
    if compiled:
        model.compile_parts()
    for position in (4, 5):
        step = model(tokens[:, position : position + 1], caches)
        torch.testing.assert_close(step[:, 0], full[:, position])
        caches = [cache.advanced(1) for cache in caches]
    torch.compiler.reset()
