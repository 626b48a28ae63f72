"""QK norm and rotary positions: one kernel against the formula in float64, values and every gradient."""

import itertools

import pytest
import torch

from twofold.attention.rotary import Rotary, Yarn
from twofold.kernels import qk_norm_rotary as fused

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EPS = 1e-6


def formula(x, gain, rotary_table):
    if gain is not None:
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * gain
    half = x.shape[-1] // 2
    return x * rotary_table[0] + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * rotary_table[1]


def heads(B, H, T, D, dtype, layout):
    """(B, H, T, D) as a projection makes it, as a part of a wider product, or dense head by head."""
    if layout == "dense":
        return torch.randn(B, H, T, D, device=DEVICE).to(dtype)
    extra = 3 if layout == "part" else 0
    return torch.randn(B, T, H * D + extra, device=DEVICE).to(dtype)[..., extra:].unflatten(-1, (H, D)).transpose(1, 2)


SIZES = [(2, 4, 2, 5, 16), (1, 1, 1, 1, 2), (3, 2, 2, 37, 24), (1, 3, 3, 3, 256)]
LAYOUTS = ["projection", "part", "dense"]
# (split, norm): each layout meets all combinations, and each size three.
FLAGS = [*itertools.product([True, False], [True, False])]
CASES = [
    (layout, sizes, *FLAGS[(row + column) % 4])
    for row, layout in enumerate(LAYOUTS)
    for column, sizes in enumerate(SIZES)
]


@pytest.mark.parametrize("many", [64, 1])
@pytest.mark.parametrize(("layout", "sizes", "split", "norm"), CASES)
@pytest.mark.usefixtures("poisoned")
def test_values_and_gradients_are_the_formulas(sizes, layout, split, norm, many, monkeypatch):
    """many: from how many programs on one program loops over several heads."""
    pytest.importorskip("triton")
    monkeypatch.setattr("twofold.kernels.triton.qk_norm_rotary.MANY", many)
    (B, Hq, Hkv, T, D), dtype = sizes, torch.float32
    tensors = [heads(B, h, T, D, dtype, layout).requires_grad_() for h in (Hq, Hkv, Hkv)[: 2 + split]]
    gains = [torch.randn(D, device=DEVICE).requires_grad_() for _ in range(2)] if norm else []
    rotary_table = Rotary(width=D, scaling=Yarn(factor=4, original_length=8)).at(
        torch.randint(99, (B, T), device=DEVICE), dtype
    )
    made = fused.qk_norm_rotary(*tensors, *([] if split else [None]), *(gains or [None, None]), *rotary_table, EPS)[
        : 2 + split
    ]
    exact = [tensor.detach().double().requires_grad_() for tensor in (*tensors, *gains)]
    exact_gains = [exact[-2], exact[-1], exact[-1]] if norm else [None] * 3
    expected = [
        formula(x, gain, [part.double() for part in rotary_table])
        for x, gain in zip(exact[: 2 + split], exact_gains, strict=False)
    ]
    grads = [torch.randn(B, T, x.shape[1], D, device=DEVICE).transpose(1, 2) for x in made]
    found_grads = torch.autograd.grad(made, (*tensors, *gains), grads)
    expected_grads = torch.autograd.grad(expected, exact, [grad.double() for grad in grads])
    for a, b in zip((*made, *found_grads), (*expected, *expected_grads), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_once(dtype):
    x = [heads(2, 4, 33, 64, dtype, "projection") for _ in range(3)]
    gains = [torch.rand(64, device=DEVICE) + 0.5 for _ in range(2)]
    rotary_table = Rotary(width=64).at(torch.arange(33, device=DEVICE), dtype)
    made = fused.qk_norm_rotary(*x, *gains, *rotary_table, EPS)
    for found, tensor, gain in zip(made, x, (gains[0], gains[1], gains[1]), strict=True):
        exact = formula(tensor.double(), gain.double(), [part.double() for part in rotary_table])
        assert ((found.double() - exact).abs() <= torch.finfo(dtype).eps * exact.abs() + 1e-6).all()


def test_a_gradient_that_lies_otherwise_is_the_same():
    x = [heads(2, 4, 9, 16, torch.float32, "projection").requires_grad_() for _ in range(3)]
    rotary_table = Rotary(width=16).at(torch.arange(9, device=DEVICE), torch.float32)
    grads = [torch.randn(2, 4, 9, 32, device=DEVICE)[..., ::2] for _ in range(3)]
    found = torch.autograd.grad(fused.qk_norm_rotary(*x, None, None, *rotary_table, EPS), x, grads)
    expected = torch.autograd.grad([formula(tensor, None, rotary_table) for tensor in x], x, grads)
    torch.testing.assert_close(found, expected)


def test_it_serves_gpus_alone_and_no_odd_or_trained_rotary_table():
    x = torch.randn(1, 1, 3, 4)
    rotary_table = Rotary(width=4).at(torch.arange(3), torch.float32)
    assert not fused.serves([x], [], rotary_table)
    if DEVICE == "cuda":
        x, rotary_table = x.cuda(), tuple(part.cuda() for part in rotary_table)
        assert fused.serves([x], [], rotary_table)
        assert not fused.serves([x.double()], [], rotary_table)
        assert not fused.serves([x], [], (rotary_table[0].requires_grad_(), rotary_table[1]))
        assert not fused.serves([x[:, :, :0]], [], rotary_table)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["standard", "split_kv"])
def test_the_layer_takes_it_and_compiles_to_the_same(kind, monkeypatch):
    from twofold.attention import split as layers

    layer = layers.SplitSelfAttention(
        64, 4, kv_heads=2, kind=kind, qk_norm=True, rotary=Rotary(width=16), init="independent", device="cuda"
    )
    x = torch.randn(2, 33, 64, device="cuda")
    torch.nn.init.normal_(layer.query_norm.weight)
    with monkeypatch.context() as patched:
        patched.setattr(layers, "serves", lambda *_: False)
        plain, _ = layer(x, is_causal=True)
        plain_grads = torch.autograd.grad(plain.square().sum(), list(layer.parameters()))
    for run in (layer, torch.compile(layer, fullgraph=True)):
        out, _ = run(x, is_causal=True)
        grads = torch.autograd.grad(out.square().sum(), list(layer.parameters()))
        torch.testing.assert_close((out, *grads), (plain, *plain_grads), rtol=2e-3, atol=2e-3)
