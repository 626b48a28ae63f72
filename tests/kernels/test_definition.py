"""The reference is what the sources say, and standard attention is its special case."""

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from tests.kernels import oracles
from tests.kernels.portable import PORTABLE
from twofold import split_attention, split_attention_weights
from twofold.kernels import reference
from twofold.kernels.checks import check

L, D = 11, 6


@pytest.fixture
def head():
    """q, k, v, k', v' of one head, (L, D) in float64."""
    return [torch.randn(L, D, dtype=torch.float64) for _ in range(5)]


def batched(*tensors):
    return [tensor[None, None] for tensor in tensors]


@pytest.mark.parametrize("backend", PORTABLE)
class TestFigures:
    def test_figure_4(self, head, backend):
        q, k, v, own_k, own_v = head
        ours = split_attention(*batched(q, k, v, own_k, own_v), backend=backend)
        torch.testing.assert_close(ours[0, 0], oracles.figure_4(q, k, v, own_k, own_v))

    def test_figure_4_with_its_optional_mask(self, head, backend):
        q, k, v, own_k, own_v = head
        mask = torch.full((L, L), -math.inf, dtype=torch.float64).triu(1)
        ours = split_attention(*batched(q, k, v, own_k, own_v), attn_mask=mask, backend=backend)
        torch.testing.assert_close(ours[0, 0], oracles.figure_4(q, k, v, own_k, own_v, mask))

    def test_figure_5_splits_keys(self, head, backend):
        q, k, v, own_k, _ = head
        ours = split_attention(*batched(q, k, v, own_k), backend=backend)
        torch.testing.assert_close(ours[0, 0], oracles.figure_5(q, k, own_k, v))

    def test_figure_6_splits_values(self, head, backend):
        q, k, v, _, own_v = head
        ours = split_attention(*batched(q, k, v), self_value=own_v[None, None], backend=backend)
        torch.testing.assert_close(ours[0, 0], oracles.figure_6(q, k, v, own_v))

    def test_figures_7a_and_7b_split_both(self, head, backend):
        q, k, v, own_k, own_v = head
        ours = split_attention(*batched(q, k, v, own_k, own_v), backend=backend)
        torch.testing.assert_close(ours[0, 0], oracles.figure_7(q, k, own_k, v, own_v))

    def test_figure_4_collapses_to_figure_3_when_tied(self, head, backend):
        q, k, v = head[:3]
        ours = split_attention(*batched(q, k, v, k, v), backend=backend)
        torch.testing.assert_close(ours[0, 0], oracles.figure_3(q, k, v))


@pytest.mark.parametrize("backend", PORTABLE)
@pytest.mark.parametrize("causal", [False, True])
def test_tied_pairs_and_absent_pairs_are_torchs_own_attention(backend, causal):
    q, k, v = (torch.randn(2, 4, 33, 16, dtype=torch.float64) for _ in range(3))
    theirs = scaled_dot_product_attention(q, k, v, is_causal=causal)
    torch.testing.assert_close(split_attention(q, k, v, k, v, is_causal=causal, backend=backend), theirs)
    torch.testing.assert_close(split_attention(q, k, v, is_causal=causal, backend=backend), theirs)


@pytest.mark.parametrize("backend", ["reference", "columns", "auto"])
def test_cross_attention_with_fewer_keys_is_torchs_own(backend):
    q, k, v = torch.randn(2, 4, 9, 16), torch.randn(2, 2, 5, 16), torch.randn(2, 2, 5, 8)
    mask = torch.rand(9, 5) > 0.3
    mask[:, 0] = True
    theirs = scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    ours = split_attention(q, k, v, attn_mask=mask, enable_gqa=True, backend=backend)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("backend", PORTABLE)
def test_causal_is_aligned_to_the_last_keys(backend):
    """A documented difference: SDPA aligns to the first keys."""
    q, k, v = (torch.randn(1, 1, n, 4, dtype=torch.float64) for n in (3, 7, 7))
    mask = torch.ones(3, 7, dtype=torch.bool).tril(4)
    theirs = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(split_attention(q, k, v, is_causal=True, backend=backend), theirs)


@pytest.mark.parametrize("backend", PORTABLE)
def test_permutation_equivariance(backend):
    """004: f(s(x)) = s(f(x)) without positions; a split layer keeps it."""
    tensors = [torch.randn(2, 3, 17, 8, dtype=torch.float64) for _ in range(5)]
    order = torch.randperm(17)
    moved = split_attention(*(t[:, :, order] for t in tensors), backend=backend)
    torch.testing.assert_close(moved, split_attention(*tensors, backend=backend)[:, :, order])


class TestWorkedExamples:
    def test_weights_of_the_appendix_of_003(self):
        """Scores (6, 4) and (3, 8) with d = 16 give (0.62, 0.38) and (0.22, 0.78)."""
        scores = torch.tensor([[6.0, 4.0], [3.0, 8.0]])
        q = torch.zeros(1, 1, 2, 16)
        q[0, 0, :, :2] = scores
        k = torch.eye(2, 16)[None, None]
        expected = torch.tensor([[0.62, 0.38], [0.22, 0.78]])
        torch.testing.assert_close(split_attention_weights(q, k)[0, 0], expected, atol=0.005, rtol=0)

    def test_weighted_mean_of_001(self):
        """Weights (0.3, 0.7) give 0.3 v_1 + 0.7 v_2."""
        q = torch.ones(1, 1, 1, 1, dtype=torch.float64)
        k = torch.log(torch.tensor([0.3, 0.7], dtype=torch.float64)).view(1, 1, 2, 1)
        v = torch.randn(1, 1, 2, 5, dtype=torch.float64)
        out = split_attention(q, k, v, scale=1.0)
        torch.testing.assert_close(out[0, 0, 0], 0.3 * v[0, 0, 0] + 0.7 * v[0, 0, 1])

    def test_look_ahead_mask_of_001(self):
        weights = split_attention_weights(torch.randn(1, 2, 6, 4), torch.randn(1, 2, 6, 4), is_causal=True)
        above = torch.ones(6, 6, dtype=torch.bool).triu(1)
        assert (weights[..., above] == 0).all()
        assert (weights[..., ~above] > 0).all()

    def test_every_row_of_003s_weights_sums_to_one(self):
        weights = split_attention_weights(*(torch.randn(2, 2, 9, 4, dtype=torch.float64) for _ in range(3)))
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 9, dtype=torch.float64))


def test_subtracting_the_diagonal_cannot_split_keys():
    """Plain attention minus its diagonal term plus the new one: fine on paper, garbage in float32.

    Kept so that nobody tries again: the merge errs by rounding where the subtraction errs without bound.
    """
    q, k, v, own_k, own_v = (torch.randn(1, 1, 64, 16) * 4 for _ in range(5))
    k = q.clone()  # a dominant diagonal, which the subtraction must cancel
    exact = split_attention(*(t.double() for t in (q, k, v, own_k, own_v)), backend="reference")

    scale = 1 / math.sqrt(16)
    lse = torch.logsumexp(q @ k.mT * scale, -1)
    plain = scaled_dot_product_attention(q, k, v)
    old, new = (q * k).sum(-1) * scale, (q * own_k).sum(-1) * scale
    others = torch.exp(lse - lse) - torch.exp(old - lse)
    total = others + torch.exp(new - lse)
    subtracted = (plain - torch.exp(old - lse)[..., None] * v + torch.exp(new - lse)[..., None] * own_v) / total[
        ..., None
    ]

    merged = split_attention(q, k, v, own_k, own_v, backend="shifted")
    assert (merged - exact).abs().max() < 1e-4
    assert not (subtracted - exact).abs().max() < 1.0


@pytest.mark.parametrize("normaliser", ["sigmoid", "sparsemax", "entmax15"])
class TestOtherNormalisers:
    """000 allows functions other than softmax; the reference takes them."""

    def call(self, **options):
        return check(*(torch.randn(2, 2, 7, 4, dtype=torch.float64) for _ in range(5)), **options)

    def test_weights_are_used_for_own_and_others(self, normaliser):
        call = self.call(is_causal=True)
        weights = reference.weights(call, normaliser)
        own = weights.diagonal(dim1=-2, dim2=-1)[..., None]
        expected = weights @ call.value + own * (call.self_value - call.value)
        torch.testing.assert_close(reference.forward(call, normaliser), expected)
        assert (weights.triu(1) == 0).all()

    def test_an_empty_row_stays_empty(self, normaliser):
        mask = torch.ones(7, 7, dtype=torch.bool)
        mask[3] = False
        assert (reference.forward(self.call(attn_mask=mask), normaliser)[:, :, 3] == 0).all()

    def test_has_exact_gradients(self, normaliser):
        scores = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(reference.normaliser_of(normaliser), scores)


@pytest.mark.parametrize("number", [-1e7, 1e30, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("normaliser", ["softmax", "sparsemax", "entmax15"])
def test_a_large_number_on_a_whole_row_hides_no_score(normaliser, number):
    inputs = [torch.randn(2, 2, 7, 4) for _ in range(5)]
    mask = torch.zeros(7, 7)
    mask[2], mask[4, 1:] = number, -math.inf
    small = mask.clone()
    small[2] = 0.0
    found, expected = (reference.forward(check(*inputs, attn_mask=one), normaliser) for one in (mask, small))
    torch.testing.assert_close(found, expected)


def test_sparsemax_and_entmax_are_distributions_with_true_zeros():
    scores = torch.randn(100, 12, dtype=torch.float64) * 4
    for name in ("sparsemax", "entmax15"):
        weights = reference.normaliser_of(name)(scores)
        torch.testing.assert_close(weights.sum(-1), torch.ones(100, dtype=torch.float64))
        assert (weights == 0).any()
        assert (weights >= 0).all()


def test_a_function_is_a_normaliser_and_an_unknown_name_is_refused():
    call = check(*(torch.randn(1, 1, 3, 4) for _ in range(5)))
    uniform = reference.weights(call, lambda scores: torch.full_like(scores, 1 / 3))
    assert (uniform == 1 / 3).all()
    with pytest.raises(ValueError, match=r"normaliser must be one of softmax, .* got 'hardmax'"):
        reference.forward(call, "hardmax")
