"""A call like an earlier one goes straight to its backend; a call that differs in anything is looked at anew."""

import contextlib

import pytest
import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from twofold import split_attention
from twofold.kernels import api, repeated
from twofold.kernels.eager import op


def five(T=6, **changes):
    return {
        name: torch.randn(2, 2, T, 4) for name in ("query", "key", "value", "self_key", "self_value")
    } | {"is_causal": True} | changes  # fmt: skip


@pytest.fixture
def checked(monkeypatch):
    """The calls that were checked."""
    calls = []

    def counting(*tensors, **options):
        calls.append(options)
        return check(*tensors, **options)

    check = api.check
    monkeypatch.setattr(api, "check", counting)
    return calls


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attn_mask": torch.rand(6, 6) > 0.3},
        {"attn_mask": torch.randn(2, 1, 6, 6, dtype=torch.float64)},
        {"segment_ids": torch.tensor([[0, 0, 0, 1, 1, 1]] * 2), "window": 2, "scale": 0.3},
    ],
)
@pytest.mark.parametrize("learns", [False, True])
def test_it_is_checked_once_and_answers_alike(checked, options, learns):
    split_attention(**five(**options))
    again = five(**options)
    if learns:
        again["query"].requires_grad_()
    for _ in range(2):
        out = split_attention(**again)
    assert len(checked) == 1 + learns
    torch.testing.assert_close(out, split_attention(**again, backend="reference"))


@pytest.mark.parametrize(
    "changes",
    [
        {"query": torch.randn(2, 2, 5, 4)},
        {"key": torch.randn(2, 2, 6, 4).double()},
        {"self_key": None},
        {"is_causal": False},
        {"dropout_p": 0.5},
        {"scale": 1.0},
        {"window": 2},
        {"backend": "shifted"},
        {"attn_mask": torch.ones(6, 6) > 0},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_differs_is_checked(checked, changes):
    split_attention(**five())
    with contextlib.suppress(ValueError):
        split_attention(**five(**changes))
    assert len(checked) == 2


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ({"is_causal": True}, {"is_causal": 1}, "is_causal"),
        ({"dropout_p": 0.0}, {"dropout_p": False}, "dropout_p"),
        ({"scale": 1.0}, {"scale": True}, "scale"),
        ({"window": 1}, {"window": True}, "window"),
        ({"window": 2}, {"window": 2.0}, "window"),
        ({"enable_gqa": False}, {"enable_gqa": 0}, "enable_gqa"),
        ({}, {"backend": ["auto"]}, "backend"),
    ],
)
def test_equal_numbers_of_another_type_are_refused_all_the_same(first, second, name):
    split_attention(**five(**first))
    with pytest.raises(ValueError, match=f"^{name} must be"):
        split_attention(**five(**second))


def test_a_scale_that_changes_the_query_is_checked_each_time(checked):
    for _ in range(2):
        call = five(scale=-0.5)
        torch.testing.assert_close(split_attention(**call), split_attention(**call, backend="reference"))
    assert len(checked) == 4


def test_a_tangent_after_a_plain_call_is_kept():
    call = five()
    split_attention(**call)
    with forward_ad.dual_level():
        dual = call | {"query": forward_ad.make_dual(call["query"], torch.ones_like(call["query"]))}
        tangent = forward_ad.unpack_dual(split_attention(**dual)).tangent
        expected = forward_ad.unpack_dual(split_attention(**dual, backend="reference")).tangent
    torch.testing.assert_close(tangent, expected)
    assert tangent.abs().max() > 0


def test_signatures_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(repeated, "MOST", 3)
    for T in range(1, 9):
        split_attention(**five(T))
        assert 1 <= len(repeated._known) <= 3


@op("twofold_tests::scaled")
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


def keep(ctx, inputs, output):
    ctx.by = inputs[1]


scaled.register_fake(lambda x, by: torch.empty_like(x))
scaled.register_autograd(lambda ctx, grad: (grad * ctx.by, None), keep)


class Listening(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.heard = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.heard.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("learns", [False, True])
def test_eager_calls_go_around_torch_library(learns, monkeypatch):
    monkeypatch.setattr(scaled, "op", None)
    x = torch.randn(3, requires_grad=learns)
    out = scaled(x, 2.0)
    torch.testing.assert_close(out, x * 2)
    assert out.requires_grad == learns
    if learns:
        torch.testing.assert_close(torch.autograd.grad(out.sum(), x)[0], torch.full((3,), 2.0))


def test_compilers_and_modes_meet_the_op():
    torch.compiler.reset()
    x = torch.randn(3, requires_grad=True)
    with Listening() as mode:
        scaled(x, 2.0)
    assert any("twofold_tests.scaled" in name for name in mode.heard)
    compiled = torch.compile(lambda x: scaled(x, 3.0).sum(), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x)[0], torch.full((3,), 3.0))
    torch.compiler.reset()
