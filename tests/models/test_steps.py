"""One token over a cache in the kernel of a step, as GPUs run it: what the path without it gives, for every cache."""

import pytest
import torch
from transformers import DynamicCache, StaticCache

from tests.models import test_decoder
from tests.models.test_decoder import tokens
from twofold.attention import Kind, own_slots
from twofold.kernels import decode


@pytest.fixture
def kernel(monkeypatch):
    """Lets the kernel serve on a CPU, in its interpreter and in float32, and counts how often it did."""
    if torch.cuda.is_available():
        pytest.skip("where there is a GPU, Triton does not interpret: test_steps_on_a_gpu runs the kernel itself")
    calls = []

    def serves(query, key, value, mask=None):
        is_row = mask is None or decode._is_one_row(mask, query.shape[0], key.shape[2])
        return query.shape[2] == 1 and is_row and not torch.is_grad_enabled()

    def attend(*arguments):
        if not torch.compiler.is_compiling():
            calls.append(arguments[5])
        return decode.attend_filled(*arguments)

    monkeypatch.setattr(own_slots, "serves_step", serves)
    monkeypatch.setattr(own_slots, "attend_filled", attend)
    return calls


def cache_of(name, config):
    return StaticCache(config=config, max_cache_len=12) if name == "static" else DynamicCache(config=config)


@pytest.mark.parametrize("kind", [Kind.SPLIT_KV, Kind.STANDARD])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("sliding_window", [None, 4])
@pytest.mark.parametrize("padding", ["none", "left"])
def test_steps_are_the_full_pass(kind, cache, sliding_window, padding, kernel):
    made, ids = test_decoder.model(attention=kind, sliding_window=sliding_window), tokens()
    told = None
    if padding == "left":
        told = torch.ones_like(ids)
        told[0, :3] = 0
    past, found = cache_of(cache, made.config), []
    with torch.no_grad():
        full = made(ids, attention_mask=told, use_cache=False).logits
        assert not kernel
        for start, end in ((0, 4), (4, 5), (5, 6), (6, 9)):
            seen = None if told is None else told[:, :end]
            found.append(made(ids[:, start:end], attention_mask=seen, past_key_values=past).logits)
    # Two steps of two layers; a grown cache of which nothing is split is left to torch.
    is_served = kind != Kind.STANDARD or (cache == "static" and sliding_window is None)
    assert len(kernel) == (4 if is_served else 0)
    kept = slice(3, None) if padding == "left" else slice(None)
    torch.testing.assert_close(torch.cat(found, dim=1)[:, kept], full[:, kept], atol=2e-4, rtol=0)


@pytest.mark.parametrize("kind", [Kind.SPLIT_KV, Kind.STANDARD])
def test_generation_by_a_static_cache_is_that_without_any(kind, kernel):
    made, ids = test_decoder.model(attention=kind), tokens()
    ids[0, :4] = 0
    options = {"max_new_tokens": 5, "do_sample": False, "attention_mask": (ids != 0).long()}
    expected = made.generate(ids, use_cache=False, **options)
    assert torch.equal(made.generate(ids, cache_implementation="static", **options), expected)
    assert kernel


@pytest.mark.parametrize("kind", [Kind.SPLIT_KV, Kind.STANDARD])
@pytest.mark.parametrize("with_kernel", [False, True])
def test_one_graph_takes_every_step(kind, with_kernel, request):
    """The length is read from the device, so the second step and all others need no graph of their own."""
    if with_kernel:
        request.getfixturevalue("kernel")
    torch.compiler.reset()
    made, ids = test_decoder.model(attention=kind), tokens()
    past = StaticCache(config=made.config, max_cache_len=12)
    compiled = torch.compile(made, fullgraph=True, dynamic=False, backend="aot_eager")
    with torch.no_grad():
        full = made(ids, use_cache=False).logits
        made(ids[:, :5], past_key_values=past)
        found = [compiled(ids[:, 5:6], past_key_values=past).logits]
        with torch.compiler.set_stance("fail_on_recompile"):
            found += [compiled(ids[:, t : t + 1], past_key_values=past).logits for t in range(6, 9)]
    torch.testing.assert_close(torch.cat(found, dim=1), full[:, 5:], atol=2e-4, rtol=0)
    torch.compiler.reset()


def test_maps_and_gradients_are_left_to_the_other_path(kernel):
    made, ids = test_decoder.model(), tokens()
    past = StaticCache(config=made.config, max_cache_len=12)
    with torch.no_grad():
        made(ids[:, :5], past_key_values=past)
        made(ids[:, 5:6], past_key_values=past, output_attentions=True)
    made(ids[:, 6:7], past_key_values=past)
    assert not kernel


@pytest.mark.parametrize("cache", [None, "dynamic", "static"])
def test_no_mask_is_made_where_nothing_is_padded(cache, monkeypatch):
    made, ids = test_decoder.model(), tokens()
    with torch.no_grad():
        expected = made(ids, attention_mask=torch.ones_like(ids), use_cache=False).logits

    def refuse(**_):
        raise AssertionError("a mask was made")

    monkeypatch.setattr("twofold.models.decoder.create_causal_mask", refuse)
    past = None if cache is None else cache_of(cache, made.config)
    with torch.no_grad():
        found = made(ids, past_key_values=past, use_cache=cache is not None).logits
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=0)
    with pytest.raises(AssertionError, match="a mask was made"):
        made(ids, position_ids=torch.arange(9)[None], use_cache=False)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_steps_on_a_gpu(kind, cache, monkeypatch):
    made, ids, calls = test_decoder.model(attention=kind).cuda().half(), tokens().cuda(), []

    def listening(*arguments):
        calls.append(arguments[5])
        return decode.attend_filled(*arguments)

    monkeypatch.setattr(own_slots, "attend_filled", listening)
    past, found = cache_of(cache, made.config), []
    with torch.no_grad():
        full = made.float()(ids, use_cache=False).logits
        made.half()(ids[:, :4], past_key_values=past)
        for t in range(4, 9):
            found.append(made(ids[:, t : t + 1], past_key_values=past).logits)
    assert len(calls) == (0 if kind == Kind.STANDARD and cache == "dynamic" else 10)
    torch.testing.assert_close(torch.cat(found, dim=1).float(), full[:, 4:], atol=5e-2, rtol=5e-2)
