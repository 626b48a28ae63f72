"""When FlashAttention 4 is used; what it computes is tested with `triton/one_pass` in test_triton."""

import pytest
import torch

from twofold.kernels import flash4, self_test


class OnGPU:
    """What `serves` looks at of a tensor on a GPU."""

    dtype, is_cuda = torch.bfloat16, True

    def __init__(self, T=4096, D=128, H=16):
        self.shape = (1, H, T, D)

    def get_device(self):
        return 0


@pytest.fixture(autouse=True)
def _hopper(monkeypatch):
    monkeypatch.setattr(flash4, "INSTALLED", True)
    monkeypatch.setattr(flash4, "_compiled", set())
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(flash4, "_errors", lambda _: [0.001])
    flash4._is_usable.cache_clear()
    yield
    flash4._is_usable.cache_clear()


def serves(*args, **kwargs):
    tensor = OnGPU(*args, **kwargs)
    return flash4.serves(tensor, tensor, "forward")


def test_long_texts_of_heads_that_it_takes():
    assert serves()
    assert serves(T=flash4.FROM, D=64)
    for lacking in ({"T": flash4.FROM - 1}, {"D": 256}, {"D": 60}):
        assert not serves(**lacking)
    assert not flash4.serves(torch.zeros(1, 1, 4096, 64), torch.zeros(1, 1, 4096, 64), "forward")


def test_not_where_it_is_not_installed(monkeypatch):
    monkeypatch.setattr(flash4, "INSTALLED", False)
    assert not serves()


def test_not_on_an_older_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    assert not serves()


def test_not_where_it_fails_its_self_test(monkeypatch):
    monkeypatch.setattr(flash4, "_errors", lambda _: [0.001, 0.5])
    with pytest.warns(RuntimeWarning, match="FlashAttention 4 on cuda:0 fails its self-test .*0.5"):
        assert not serves()
    assert not serves()


def test_nothing_is_compiled_while_a_graph_is_recorded(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert not serves()
    tensor = OnGPU()
    flash4._compiled.add(flash4._variant(tensor, tensor, "forward"))
    assert serves()
    assert not serves(D=64)


def test_the_self_test_calls_a_wrong_library_wrong():
    """Its own float64 attention against autograd's, and an output that is off."""
    query, key, value, grad = self_test.drawn(4, 7, torch.device("cpu"))
    may = torch.ones(7, 7).tril() > 0
    inputs = [tensor.double().requires_grad_() for tensor in (query, key, value)]
    out = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=True, scale=0.125)
    grads = torch.autograd.grad(out, inputs, grad.double())
    exact = self_test.exact(query, key, value, grad, may, 0.125)
    assert max(self_test.errors_of((out, *grads), (exact.out, *exact[2:]))) < 1e-12
    assert self_test.passes("it", lambda: self_test.errors_of([out], [exact.out]))
    with pytest.warns(RuntimeWarning, match="it fails its self-test"):
        assert not self_test.passes("it", lambda: self_test.errors_of([out * 1.1], [exact.out]))
