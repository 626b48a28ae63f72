"""Projections side by side: the same numbers in one product, and only where nobody would miss the separate ones."""

import pytest
import torch
from torch import nn

from twofold import SplitSelfAttention
from twofold.attention import Rotary, heads


@pytest.fixture
def _in_one_product(monkeypatch):
    monkeypatch.setattr(heads, "SIDE_BY_SIDE_FROM", 1)


def made(kind="split_kv", **options):
    return SplitSelfAttention(24, 4, kv_heads=2, kind=kind, init="independent", dtype=torch.float64, **options)


def with_gradients(layer, x):
    out, _ = layer(x, is_causal=True)
    return out.detach(), torch.autograd.grad(out.square().sum(), [x, *layer.parameters()])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["standard", "split_key", "split_value", "split_kv"])
def test_one_product_gives_the_same_outputs_and_gradients(kind, bias, monkeypatch):
    layer, x = made(kind, bias=bias), torch.randn(2, 7, 24, dtype=torch.float64, requires_grad=True)
    expected_out, expected = with_gradients(layer, x)
    monkeypatch.setattr(heads, "SIDE_BY_SIDE_FROM", 14)
    products = []
    monkeypatch.setattr(heads, "linear", lambda *t: products.append(1) or nn.functional.linear(*t))
    out, found = with_gradients(layer, x)
    assert len(products) == 1
    torch.testing.assert_close(out, expected_out)
    torch.testing.assert_close(found, expected)


@pytest.mark.usefixtures("_in_one_product")
def test_a_hook_on_a_projection_still_hears_it():
    layer, heard = made(), []
    layer.self_key.register_forward_hook(lambda *_: heard.append(1))
    layer(torch.randn(1, 3, 24, dtype=torch.float64))
    assert heard == [1]


@pytest.mark.usefixtures("_in_one_product")
def test_an_adapter_in_a_projections_place_is_called():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    layer = made(qk_norm=True)
    layer.value = Doubled(24, 12, bias=False, dtype=torch.float64)
    x = torch.randn(1, 3, 24, dtype=torch.float64)
    torch.testing.assert_close(layer.project(x).value.transpose(1, 2).flatten(-2), 2 * x @ layer.value.weight.T)


def test_a_rotary_table_computed_once_serves_every_layer():
    layer, x = made(rotary=Rotary(width=6)), torch.randn(2, 7, 24, dtype=torch.float64)
    positions = torch.arange(3, 10)
    rotary_table = layer.rotary.at(positions, torch.float64)
    torch.testing.assert_close(layer.project(x, rotary_table), layer.project(x, positions), atol=0, rtol=0)


@pytest.mark.usefixtures("_in_one_product")
@pytest.mark.parametrize("without", ["query", "key", "self_value"])
def test_biases_may_differ(without, monkeypatch):
    layer, x = made(bias=True), torch.randn(1, 3, 24, dtype=torch.float64)
    getattr(layer, without).bias = None
    found = layer.project(x)
    monkeypatch.setattr(heads, "SIDE_BY_SIDE_FROM", 10**9)
    torch.testing.assert_close(found, layer.project(x))


@pytest.mark.usefixtures("_in_one_product")
def test_a_forward_put_on_a_projection_is_called():
    layer = made()
    layer.key.forward = lambda x: x[..., :12] * 0
    assert (layer.project(torch.randn(1, 3, 24, dtype=torch.float64)).key == 0).all()


@pytest.mark.usefixtures("_in_one_product")
def test_a_hook_on_all_modules_hears_every_projection():
    layer, heard = made(), []
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, *_: heard.append(module))
    layer.project(torch.randn(1, 3, 24, dtype=torch.float64))
    handle.remove()
    assert layer.self_value in heard


@pytest.mark.usefixtures("_in_one_product")
def test_a_cache_holds_no_more_than_keys_and_values():
    with torch.no_grad():
        _, past = made()(torch.randn(1, 5, 24, dtype=torch.float64), is_causal=True)
    for tensor in past:
        assert tensor.untyped_storage().nbytes() == tensor.nbytes


@pytest.mark.parametrize("positions", [torch.arange(1), torch.arange(14).view(2, 7)], ids=["too short", "two rows"])
def test_a_rotary_table_of_another_shape_is_refused(positions):
    layer = made()
    rotary_table = Rotary(width=6).at(positions, torch.float64)
    with pytest.raises(ValueError, match="positions as a RotaryTable must have shape"):
        layer.project(torch.randn(1, 7, 24, dtype=torch.float64), rotary_table)
