"""Cross-attention and additive attention, each against a plain loop or torch's own."""

import pytest
import torch
from torch import nn

from twofold.attention import AdditiveAttention, CrossAttention


class TestCrossAttention:
    def test_equals_torchs_multihead_attention(self):
        theirs = nn.MultiheadAttention(12, 3, bias=False, batch_first=True, kdim=8, vdim=8)
        ours = CrossAttention(12, 3, context_width=8)
        with torch.no_grad():
            for part, weight in (
                (ours.query, theirs.q_proj_weight),
                (ours.key, theirs.k_proj_weight),
                (ours.value, theirs.v_proj_weight),
                (ours.output, theirs.out_proj.weight),
            ):
                part.weight.copy_(weight)
        x, context = torch.randn(2, 9, 12), torch.randn(2, 4, 8)
        keep = torch.tensor([[True] * 4, [True, True, False, False]])
        expected, _ = theirs(x, context, context, key_padding_mask=~keep)
        torch.testing.assert_close(ours(x, context, attn_mask=keep[:, None, None]), expected)

    @pytest.mark.parametrize("tokens", [3, 9])
    def test_projected_context_serves_again(self, tokens):
        layer = CrossAttention(12, 4, kv_heads=2, context_width=8, bias=True)
        x, context = torch.randn(2, tokens, 12), torch.randn(2, 5, 8)
        seen = layer.keys_and_values(context)
        torch.testing.assert_close(layer(x, seen), layer(x, context))
        torch.testing.assert_close(layer(x[:, 2:3], seen), layer(x, context)[:, 2:3])

    def test_dropout_only_while_training(self):
        layer, x = CrossAttention(12, 3, dropout=0.5), torch.randn(2, 5, 12)
        assert not torch.equal(layer(x, x), layer(x, x))
        layer.eval()
        assert torch.equal(layer(x, x), layer(x, x))

    def test_bad_arguments(self):
        with pytest.raises(ValueError, match=r"dropout must be a number from 0 to 1, got 2\.0"):
            CrossAttention(12, 3, dropout=2.0)
        with pytest.raises(ValueError, match=r"context must have shape \(B, T, 8\), got \(2, 5, 12\)"):
            CrossAttention(12, 3, context_width=8)(torch.randn(2, 5, 12), torch.randn(2, 5, 12))


class TestAdditiveAttention:
    def test_is_the_published_formula(self):
        layer = AdditiveAttention(5, 7, 6)
        query, memory = torch.randn(2, 3, 5), torch.randn(2, 4, 7)
        context, weights = layer(query, memory)
        for b in range(2):
            for t in range(3):
                scores = torch.stack(
                    [layer.score(torch.tanh(layer.query(query[b, t]) + layer.memory(m)))[0] for m in memory[b]]
                )
                torch.testing.assert_close(weights[b, t], scores.softmax(0))
                torch.testing.assert_close(context[b, t], scores.softmax(0) @ memory[b])

    def test_masks_and_empty_rows(self):
        layer = AdditiveAttention(5, 5, 6)
        x = torch.randn(2, 4, 5, requires_grad=True)
        mask = torch.ones(2, 1, 4, dtype=torch.bool)
        mask[0, :, 2:] = False
        mask[1] = False
        context, weights = layer(x, x, attn_mask=mask)
        assert (weights[0, :, 2:] == 0).all()
        assert (context[1] == 0).all()
        torch.testing.assert_close(weights[0].sum(-1), torch.ones(4))
        (grad,) = torch.autograd.grad(context.sum(), x)
        assert grad.isfinite().all()

    @pytest.mark.parametrize(
        ("mask", "message"),
        [
            (torch.zeros(2, 2), r"attn_mask must be a bool tensor \(True = may attend\), got torch.float32"),
            ([True], "attn_mask must be a bool tensor .* got list"),
            (torch.ones(1, 1, 2, 2, dtype=torch.bool), r"attn_mask must broadcast to \(1, 2, 2\), got \(1, 1, 2, 2\)"),
            (torch.ones(1, 2, 3, dtype=torch.bool), r"attn_mask must broadcast to \(1, 2, 2\), got \(1, 2, 3\)"),
        ],
    )
    def test_a_wrong_mask_is_refused(self, mask, message):
        with pytest.raises(ValueError, match=message):
            AdditiveAttention(5, 5, 6)(torch.randn(1, 2, 5), torch.randn(1, 2, 5), attn_mask=mask)

    def test_another_batch_is_refused(self):
        with pytest.raises(ValueError, match=r"memory must have shape \(B, S, width\) with query's batch"):
            AdditiveAttention(5, 5, 6)(torch.randn(2, 2, 5), torch.randn(1, 2, 5))
