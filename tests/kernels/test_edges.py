"""Where kernels break: empty rows, empty tensors, masked diagonals, sharp scores, mixed precision, memory."""

import math

import pytest
import torch
from torch.autograd import forward_ad
from torch.nn.functional import scaled_dot_product_attention

from tests.kernels.portable import PORTABLE
from twofold import self_weight, split_attention, split_attention_weights
from twofold.bench.measure import peak_bytes
from twofold.kernels import reference


def five(B=2, H=2, T=6, S=None, D=4, dtype=torch.float64):
    S = T if S is None else S
    return [torch.randn(B, H, n, D, dtype=dtype) for n in (T, S, S, T, T)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("numbers", [False, True], ids=["bool", "float"])
@pytest.mark.parametrize("backend", PORTABLE)
def test_a_row_that_sees_nothing_is_zero_and_has_no_gradient(backend, numbers, dtype):
    mask = torch.ones(2, 1, 6, 6, dtype=torch.bool)
    mask[0, :, 2] = False
    mask[1] = False
    if numbers:
        mask = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -math.inf)
    inputs = [t.requires_grad_() for t in five(dtype=dtype)]
    out = split_attention(*inputs, attn_mask=mask, backend=backend)
    assert (out[0, :, 2] == 0).all()
    assert (out[1] == 0).all()
    assert out[0, :, [0, 1, 3, 4, 5]].abs().min() > 0
    grads = torch.autograd.grad(out.sum(), inputs)
    assert all(grad.isfinite().all() for grad in grads)
    assert all((grad[1] == 0).all() for grad in grads)
    grad_query, _, _, grad_self_key, grad_self_value = grads
    for grad in (grad_query, grad_self_key, grad_self_value):
        assert (grad[0, :, 2] == 0).all()


def test_weights_and_self_weight_of_an_empty_row_are_zero():
    mask = torch.ones(6, 6, dtype=torch.bool)
    mask[2] = False
    q, k, _, own_k, _ = five()
    weights = split_attention_weights(q, k, own_k, attn_mask=mask)
    assert (weights[:, :, 2] == 0).all()
    for backend in ("auto", "reference", "shifted"):
        assert (self_weight(q, k, own_k, attn_mask=mask, backend=backend)[:, :, 2] == 0).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("backend", PORTABLE)
def test_a_masked_diagonal_takes_only_the_own_term_away(backend, causal):
    q, k, v, own_k, own_v = five()
    others = ~torch.eye(6, dtype=torch.bool)
    out = split_attention(q, k, v, own_k, own_v, attn_mask=others, is_causal=causal, backend=backend)
    mask = others.tril() if causal else others
    theirs = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    rows = slice(1, None) if causal else slice(None)
    torch.testing.assert_close(out[:, :, rows], theirs[:, :, rows])
    if causal:
        assert (out[:, :, 0] == 0).all()


@pytest.mark.parametrize("backend", PORTABLE)
def test_a_window_of_0_leaves_only_oneself(backend):
    q, k, v, own_k, own_v = five()
    torch.testing.assert_close(split_attention(q, k, v, own_k, own_v, window=0, backend=backend), own_v)


@pytest.mark.parametrize("backend", PORTABLE)
def test_the_first_causal_row_has_only_itself(backend):
    inputs = [t.requires_grad_() for t in five()]
    out = split_attention(*inputs, is_causal=True, backend=backend)
    torch.testing.assert_close(out[:, :, 0], inputs[4][:, :, 0])
    grads = torch.autograd.grad(out[:, :, 0].sum(), inputs)
    assert all(grad.isfinite().all() for grad in grads)
    assert all((grad.abs() < 1e-15).all() for grad in grads[:4])


@pytest.mark.parametrize("backend", PORTABLE)
@pytest.mark.parametrize("scale", [0.0, -0.5, 30.0])
def test_unusual_scales(backend, scale):
    inputs = five()
    exact = split_attention(*inputs, scale=scale, backend="reference")
    out = split_attention(*inputs, scale=scale, backend=backend)
    assert out.isfinite().all()
    torch.testing.assert_close(out, exact)


@pytest.mark.parametrize("shape", [(0, 2, 3, 3), (2, 2, 0, 0), (2, 2, 0, 4), (2, 0, 3, 3)], ids=str)
def test_empty_tensors_give_empty_answers(shape):
    B, H, T, S = shape
    inputs = [t.requires_grad_() for t in five(B, H, T, S)]
    out = split_attention(*inputs)
    assert out.shape == (B, H, T, 4)
    assert all((grad == 0).all() for grad in torch.autograd.grad(out.sum(), inputs))
    assert split_attention_weights(inputs[0], inputs[1], inputs[3]).shape == (B, H, T, S)
    assert self_weight(inputs[0], inputs[1], inputs[3]).shape == (B, H, T)
    columns = split_attention(*inputs, backend="columns")
    assert columns.shape == (B, H, T, 4)
    assert all((grad == 0).all() for grad in torch.autograd.grad(columns.sum(), inputs))
    for backend in ("dense", "shifted"):
        with pytest.raises(ValueError, match=f"backend '{backend}' cannot serve this call: a dimension is 0"):
            split_attention(*inputs, backend=backend)


def test_cross_attention_to_nothing_is_zero():
    q, nothing = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 0, 4)
    for mask in (None, torch.zeros(3, 0), torch.zeros(3, 1), torch.ones(3, 0, dtype=torch.bool)):
        for backend in ("auto", "reference", "columns"):
            out = split_attention(q, nothing, nothing, attn_mask=mask, backend=backend)
            assert out.shape == (1, 2, 3, 4)
            assert (out == 0).all()
        assert split_attention_weights(q, nothing, attn_mask=mask).shape == (1, 2, 3, 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("backend", ["auto", *PORTABLE])
def test_autocast_casts_as_torchs_own_attention_does(backend, dtype):
    q, k, v, own_k, own_v = five(dtype=torch.float32)
    low = [t.to(dtype) for t in (q, k, v, own_k, own_v)]
    with torch.autocast("cpu", dtype):
        assert scaled_dot_product_attention(q, k, v).dtype == dtype
        mixed = split_attention(q, k.to(dtype), v, own_k, own_v, backend=backend)
        assert split_attention_weights(q, k, own_k).dtype == dtype
        assert self_weight(q, k, own_k).dtype == dtype
    torch.testing.assert_close(mixed, split_attention(*low, backend=backend), atol=0, rtol=0)


@pytest.mark.parametrize("backend", ["auto", *PORTABLE])
def test_autocast_leaves_float64_as_it_is(backend):
    inputs = five()
    with torch.autocast("cpu", torch.bfloat16):
        found = split_attention(*inputs, backend=backend)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, split_attention(*inputs, backend=backend), atol=0, rtol=0)


@pytest.mark.parametrize("backend", PORTABLE)
def test_a_float32_mask_may_hold_the_largest_numbers(backend):
    """As much as there is on either side: a sum that overflows must neither forbid what is allowed nor be NaN."""
    most = torch.finfo(torch.float32).max
    own_most = torch.tensor([[1e38, -most, -most], [-math.inf, most, -most], [-most, -math.inf, most]])
    numbers = torch.tensor([-most, most, 0.0, -math.inf, 1e38, -1e38])
    for mask in (own_most, numbers[torch.randint(len(numbers), (2, 1, 40, 40))]):
        inputs = five(T=mask.shape[-1], dtype=torch.float32)
        exact = split_attention(*(one.double() for one in inputs), attn_mask=mask.double(), backend="reference")
        found = split_attention(*inputs, attn_mask=mask, backend=backend)
        torch.testing.assert_close(found.double(), exact, atol=1e-5, rtol=1e-4)


def test_autocast_and_another_normaliser():
    inputs = five(dtype=torch.float32)
    low = [t.bfloat16() for t in inputs]
    with torch.autocast("cpu", torch.bfloat16):
        found = reference.attend(*inputs, normaliser="sigmoid")
    assert torch.equal(found, reference.attend(*low, normaliser="sigmoid"))


def test_segment_numbers_may_be_large():
    inputs = five(B=1)
    segments = torch.tensor([[0, 0, 0, 2**32, 2**32, 2**40]])
    small = torch.tensor([[0, 0, 0, 1, 1, 2]])
    for backend in PORTABLE:
        torch.testing.assert_close(
            split_attention(*inputs, segment_ids=segments, backend=backend),
            split_attention(*inputs, segment_ids=small, backend=backend),
        )


def test_autocast_reaches_the_gradients():
    inputs = [t.requires_grad_() for t in five(dtype=torch.float32)]
    with torch.autocast("cpu", torch.bfloat16):
        out = split_attention(*inputs, is_causal=True)
    grads = torch.autograd.grad(out.float().sum(), inputs)
    assert all(grad.dtype == torch.float32 and grad.isfinite().all() for grad in grads)


def test_nan_is_not_swallowed():
    q, k, v, own_k, own_v = five()
    q[0, 0, 3, 1] = math.nan
    for backend in PORTABLE:
        out = split_attention(q, k, v, own_k, own_v, is_causal=True, backend=backend)
        assert out[0, 0, 3].isnan().all()
        assert out[0, 0, :3].isfinite().all()


@pytest.mark.parametrize("tokens", [6, 100])
@pytest.mark.parametrize("backend", ["auto", *PORTABLE])
def test_nan_stays_in_its_sequence_and_head(backend, tokens):
    mask = torch.rand(2, 1, 1, tokens) > 0.3
    for spoiled in range(1, 5):
        inputs = five(T=tokens)
        inputs[spoiled][0, 1, 2] = math.nan
        for options in ({}, {"is_causal": True}, {"attn_mask": mask}, {"window": 1}):
            out = split_attention(*inputs, backend=backend, **options)
            assert out[0, 0].isfinite().all()
            assert out[1].isfinite().all()


@pytest.mark.parametrize("tokens", [6, 100])
@pytest.mark.parametrize("backend", ["reference", "dense", "shifted"])
def test_nan_in_an_own_pair_stays_in_its_row(backend, tokens):
    others = torch.arange(tokens) != 2
    for spoiled in (3, 4):
        inputs = five(T=tokens)
        inputs[spoiled][:, :, 2] = math.nan
        for options in ({}, {"is_causal": True}, {"window": 1}):
            out = split_attention(*inputs, backend=backend, **options)
            assert out[:, :, 2].isnan().all()
            assert out[:, :, others].isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
def test_shifted_memory_is_linear(causal):
    """T = 8192, one head, D = 16: a T x T matrix of float32 would be 268 MB."""
    inputs = [torch.randn(1, 1, 8192, 16).requires_grad_() for _ in range(5)]

    def work():
        torch.autograd.grad(split_attention(*inputs, is_causal=causal, backend="shifted").sum(), inputs)

    assert peak_bytes(work, torch.device("cpu")) < 20e6


def test_masked_shifted_memory_is_linear():
    inputs = [torch.randn(2, 1, 8192, 16) for _ in range(5)]
    mask = torch.rand(2, 1, 1, 8192) > 0.1

    def work():
        split_attention(*inputs, attn_mask=mask, backend="shifted")

    assert peak_bytes(work, torch.device("cpu")) < 160e6


@pytest.mark.parametrize("options", [{}, {"softcap": 5.0}], ids=["fast", "reference"])
def test_self_weight_never_holds_all_weights(options):
    q, k, _, own_k, _ = (torch.randn(1, 1, 8192, 16).requires_grad_() for _ in range(5))

    def work():
        torch.autograd.grad(self_weight(q, k, own_k, **options).sum(), (q, k, own_k))

    assert peak_bytes(work, torch.device("cpu")) < 40e6


@pytest.mark.parametrize("backend", ["columns", "dense"])
def test_self_weight_refuses_what_holds_all_weights(backend):
    q, k, *_ = five()
    said = f"backend must be auto, reference, shifted or triton: {backend} would hold T x T"
    with pytest.raises(ValueError, match=said):
        self_weight(q, k, backend=backend)


def test_self_weight_has_the_gradient_of_the_diagonal():
    q, k, _, own_k, _ = (t.requires_grad_() for t in five())
    expected = split_attention_weights(q, k, own_k, is_causal=True).diagonal(dim1=-2, dim2=-1)
    along = torch.randn_like(expected)
    for backend in ("auto", "reference", "shifted"):
        found = self_weight(q, k, own_k, is_causal=True, backend=backend)
        torch.testing.assert_close(found, expected)
        for ours, theirs in zip(
            torch.autograd.grad(found, (q, k, own_k), along, retain_graph=True),
            torch.autograd.grad(expected, (q, k, own_k), along, retain_graph=True),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs)


def test_the_gate_view():
    """o_i = g_i v'_i + (1 - g_i) o_i of the others, g_i = sigmoid(own score - log-sum-exp of the others)."""
    q, k, v, own_k, own_v = five()
    scores = (q @ k.mT / 2).masked_fill(torch.eye(6, dtype=torch.bool), -math.inf)
    gate = torch.sigmoid((q * own_k).sum(-1) / 2 - scores.logsumexp(-1))
    torch.testing.assert_close(self_weight(q, k, own_k), gate)
    others = scores.softmax(-1) @ v
    expected = gate[..., None] * own_v + (1 - gate[..., None]) * others
    torch.testing.assert_close(split_attention(q, k, v, own_k, own_v), expected)


def gradients(inputs, dtype=None, **options):
    inputs = [(t if dtype is None else t.to(dtype)).detach().requires_grad_() for t in inputs]
    out = split_attention(*inputs, **options)
    return [out, *torch.autograd.grad(out.square().sum(), inputs)]


@pytest.mark.parametrize("low", [-1e4, -1e6, -1e9, torch.finfo(torch.float32).min, 1e6])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("backend", ["auto", *PORTABLE])
def test_a_row_of_large_finite_numbers_is_an_ordinary_row(backend, split, low):
    """Model code masks padding by finfo.min rather than -inf: such a row's weights still sum to 1."""
    inputs = five(dtype=torch.float32)
    inputs = inputs if split else inputs[:3]
    mask = torch.zeros(6, 6)
    mask[1], mask[2, 3:], mask[3, :3], mask[4, 4] = low, low, low, low
    # A number common to the whole row changes no softmax.
    small = mask.clone()
    small[1] = 0.0
    for found, exact in zip(
        gradients(inputs, attn_mask=mask, backend=backend),
        gradients(inputs, torch.float64, attn_mask=small, backend="reference"),
        strict=True,
    ):
        torch.testing.assert_close(found.double(), exact, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("backend", PORTABLE)
def test_a_row_of_finfo_min_sums_to_one_in_every_dtype(backend):
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        q, k, _, own_k, _ = five(dtype=dtype)
        for number, kind in ((torch.finfo(torch.float32).min, torch.float32), (-1.7e308, torch.float64)):
            mask = torch.zeros(6, 6, dtype=kind)
            mask[0] = number
            for own in (None, own_k):
                out = split_attention(q, k, torch.ones_like(q), own, attn_mask=mask, backend=backend)
                torch.testing.assert_close(out, torch.ones_like(out))


@pytest.mark.parametrize("backend", PORTABLE)
def test_half_precision_queries_keep_a_float32_mask(backend):
    inputs = [t.bfloat16() for t in five(T=50)]
    mask = torch.randn(50, 50) * 20 + 300
    exact = split_attention(*(t.double() for t in inputs), attn_mask=mask.double(), backend="reference")
    assert (split_attention(*inputs, attn_mask=mask, backend=backend) - exact).abs().max() < 0.03


@pytest.mark.parametrize("scale", [0.0, -0.3, -1.0])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("backend", ["auto", *PORTABLE])
def test_a_scale_that_is_not_positive_survives_a_causal_mask(backend, split, scale):
    inputs = five() if split else five()[:3]
    found = gradients(inputs, is_causal=True, scale=scale, backend=backend)
    scores = (inputs[0] @ inputs[1].mT) * scale
    if split:
        own = (inputs[0] * inputs[3]).sum(-1) * scale
        scores = torch.where(torch.eye(6, dtype=torch.bool), own[..., None], scores)
    weights = scores.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), -math.inf).softmax(-1)
    expected = weights @ inputs[2]
    if split:
        expected = expected + weights.diagonal(dim1=-2, dim2=-1)[..., None] * (inputs[4] - inputs[2])
    torch.testing.assert_close(found[0], expected)
    assert all(grad.isfinite().all() for grad in found)


def test_keys_with_a_common_offset_keep_their_digits():
    """Logits around 90: exp(s - lse) would lose what both share."""
    inputs = [torch.randn(2, 2, 64, 16) * s + o for s, o in ((0.3, 3), (0.3, 7.5), (1, 0), (0.3, 7.5), (1, 0))]
    exact = gradients(inputs, torch.float64, is_causal=True, backend="reference")
    for backend in ("dense", "shifted"):
        for found, truth in zip(gradients(inputs, is_causal=True, backend=backend), exact, strict=True):
            assert (found - truth).norm() / truth.norm() < 1e-4


def test_forward_mode_differentiation_is_right_or_refused():
    q, k, v, own_k, own_v = five()

    def tangent(backend):
        def attend(x):
            return split_attention(q, k, v, x, own_v, is_causal=True, backend=backend)

        return torch.func.jvp(attend, (own_k,), (torch.ones_like(own_k),))[1]

    torch.testing.assert_close(tangent("auto"), tangent("reference"))
    assert tangent("auto").abs().max() > 0
    for backend in ("dense", "shifted"):
        with pytest.raises(ValueError, match="forward-mode differentiation is not part of the op"):
            tangent(backend)


def test_a_vmap_alone_is_served_by_the_backend_that_was_named():
    q, k, v, own_k, own_v = five()
    many = torch.stack([q, 2 * q])
    found = torch.func.vmap(lambda x: split_attention(x, k, v, own_k, own_v, backend="shifted"))(many)
    torch.testing.assert_close(found[1], split_attention(2 * q, k, v, own_k, own_v, backend="reference"))


@pytest.mark.parametrize("tokens", [6, 300])
def test_second_derivatives_by_torch_func(tokens):
    """A gradient within a forward derivative hides that there is one."""
    q, k, v, own_k, own_v = five(T=tokens, S=tokens)
    weight = torch.randn_like(q)

    def product(backend):
        def loss(x):
            return (split_attention(q, k, v, x, own_v, is_causal=True, backend=backend) * weight).sum()

        return torch.func.jvp(torch.func.grad(loss), (own_k,), (torch.ones_like(own_k),))[1]

    torch.testing.assert_close(product("auto"), product("reference"))
    assert product("auto").abs().max() > 0
    for backend in ("dense", "shifted"):
        with pytest.raises(ValueError, match="forward-mode differentiation is not part of the op"):
            product(backend)


def test_an_empty_sequence_under_a_mask_that_is_spread():
    q = torch.randn(1, 1, 0, 4)
    for more in ({"window": 1}, {"segment_ids": torch.zeros(1, 0, dtype=torch.long)}, {"is_causal": True, "window": 0}):
        for backend in ("auto", "reference", "columns"):
            out = split_attention(q, q, q, q, q, attn_mask=torch.zeros(1), backend=backend, **more)
            assert out.shape == (1, 1, 0, 4)


def test_a_tangent_that_comes_with_the_gradient_is_kept_or_refused():
    """Of something after attention, so that its own inputs have none."""
    q, k, v, own_k, own_v = five(T=8)
    weight, change = torch.randn(2, 4, 4, dtype=torch.float64)

    def tangent(backend):
        x = q.clone().requires_grad_()
        with forward_ad.dual_level():
            out = split_attention(x, k, v, own_k, own_v, backend=backend) @ forward_ad.make_dual(weight, change)
            return forward_ad.unpack_dual(torch.autograd.grad(out.square().sum(), x)[0]).tangent

    torch.testing.assert_close(tangent("dense"), tangent("reference"))
    with pytest.raises(NotImplementedError, match="forward-mode gradients of a gradient"):
        tangent("shifted")


def test_forward_mode_outside_of_vmap():
    inputs = tuple(torch.stack([one, 2 * one]) for one in five())

    def tangent(backend):
        attend = torch.func.vmap(lambda *given: split_attention(*given, backend=backend))
        return torch.func.jvp(attend, inputs, inputs)[1]

    torch.testing.assert_close(tangent("auto"), tangent("reference"))


def test_what_a_token_keeps_of_itself_has_a_gradient_by_torch_func():
    q, k, _, own_k, _ = five()
    found = torch.func.grad(lambda one: self_weight(one, k, own_k).square().sum())(q)
    x = q.clone().requires_grad_()
    torch.testing.assert_close(found, torch.autograd.grad(self_weight(x, k, own_k).square().sum(), x)[0])


def test_no_keys_at_all_are_zero_whatever_the_query():
    query, none = torch.full((1, 1, 8, 64), 200.0, dtype=torch.float16), torch.zeros(1, 1, 0, 64, dtype=torch.float16)
    assert split_attention(query, none, none, backend="columns").abs().max() == 0


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("tokens", [6, 40, 300])
def test_gradients_of_each_example_by_torch_func(tokens):
    """What makes no use of torch's own functions alone is not transformed, and not taken."""
    inputs = five(T=tokens, S=tokens)

    def loss(own_k, rest):
        q, k, v, own_v = (one[None] for one in rest)
        return split_attention(q, k, v, own_k[None], own_v, is_causal=True).square().sum()

    q, k, v, own_k, own_v = inputs
    found = torch.func.vmap(torch.func.grad(loss))(own_k, (q, k, v, own_v))
    own_k.requires_grad_()
    (exact,) = torch.autograd.grad(split_attention(*inputs, is_causal=True, backend="reference").square().sum(), own_k)
    torch.testing.assert_close(found, exact)
    for backend in ("dense", "shifted"):
        with pytest.raises(ValueError, match=r"torch\.func does not see through"):
            torch.func.grad(lambda x, by=backend: split_attention(q, k, v, x, own_v, backend=by).sum())(own_k.detach())


@pytest.mark.parametrize("backend", ["columns", "dense", "shifted"])
def test_a_backward_pass_under_autocast_is_that_without(backend):
    inputs = [one.float().requires_grad_() for one in five(T=9)]
    out = split_attention(*inputs, is_causal=True, backend=backend).square().sum()
    exact = torch.autograd.grad(out, inputs, retain_graph=True)
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.autograd.grad(out, inputs)
    torch.testing.assert_close(found, exact)


def test_a_window_wider_than_any_number_is_no_window():
    inputs = five()
    for backend in PORTABLE:
        torch.testing.assert_close(
            split_attention(*inputs, window=2**70, backend=backend), split_attention(*inputs, backend=backend)
        )


def test_nan_in_a_mask_is_seen_by_all():
    mask = torch.zeros(6, 6)
    mask[2, 1] = math.nan
    for backend in PORTABLE:
        out = split_attention(*five(), attn_mask=mask, backend=backend)
        assert out[:, :, 2].isnan().all()
        assert out[:, :, 3].isfinite().all()
