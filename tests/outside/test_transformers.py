"""Our rotary positions, YaRN, ALiBi and sliding windows against those of transformers."""

import pytest
import torch
from transformers import BloomConfig, LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding, apply_rotary_pos_emb

from twofold import SplitSelfAttention, split_attention
from twofold.attention import Alibi, Interpolation, Llama3, Rotary, Yarn


def llama(**options):
    return LlamaConfig(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=8, attn_implementation="eager", **options
    )


YARN = {"rope_type": "yarn", "rope_theta": 5e5, "factor": 8.0, "original_max_position_embeddings": 64}
LLAMA3 = {**YARN, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize(
    ("config", "rotary"),
    [
        (llama(), Rotary(width=8)),
        (llama(rope_parameters={"rope_type": "default", "rope_theta": 5e5}), Rotary(width=8, base=5e5)),
        (
            llama(rope_parameters=YARN, max_position_embeddings=512),
            Rotary(width=8, base=5e5, scaling=Yarn(factor=8.0, original_length=64)),
        ),
        (
            llama(rope_parameters={**YARN, "beta_fast": 16.0, "attention_factor": 1.25}, max_position_embeddings=512),
            Rotary(
                width=8,
                base=5e5,
                scaling=Yarn(factor=8.0, original_length=64, beta_fast=16.0, attention_factor=1.25),
            ),
        ),
        (
            llama(rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}),
            Rotary(width=8, scaling=Interpolation(factor=4.0)),
        ),
        (
            llama(rope_parameters=LLAMA3, max_position_embeddings=512),
            Rotary(width=8, base=5e5, scaling=Llama3(factor=8.0, original_length=64, low=1.0, high=4.0)),
        ),
    ],
    ids=["plain", "base", "yarn", "yarn with its options", "interpolation", "llama 3"],
)
def test_rotary_equals_llamas(config, rotary):
    positions = torch.tensor([[0, 1, 2, 3, 50, 51, 200]])
    q, k = torch.randn(1, 4, 7, 8), torch.randn(1, 2, 7, 8)
    theirs = apply_rotary_pos_emb(q, k, *LlamaRotaryEmbedding(config)(q, positions))
    turn = rotary.at(positions, q.dtype)
    torch.testing.assert_close(turn(q), theirs[0])
    torch.testing.assert_close(turn(k), theirs[1])


def test_a_standard_layer_equals_llamas():
    config = llama()
    theirs = LlamaAttention(config, layer_idx=0).eval()
    ours = SplitSelfAttention(32, 4, kv_heads=2, kind="standard", rotary=Rotary(width=8)).eval()
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
    ours.load_state_dict({f"{our}.weight": getattr(theirs, their).weight for our, their in names.items()})
    x, positions = torch.randn(2, 9, 32), torch.arange(9)[None]
    mask = torch.full((1, 1, 9, 9), -torch.inf).triu(1)
    expected, _ = theirs(x, LlamaRotaryEmbedding(config)(x, positions), mask)
    torch.testing.assert_close(ours(x, is_causal=True)[0], expected)


@pytest.mark.parametrize("heads", [1, 4, 6, 12, 16])
def test_alibi_equals_blooms(heads):
    theirs = build_alibi_tensor(torch.ones(1, 5, dtype=torch.int64), heads, torch.float32).view(heads, 5)
    assert BloomConfig(n_head=heads).n_head == heads
    # Bloom adds slope * position; softmax does not see the difference, which is constant along a row.
    ours = Alibi(heads).bias(1, 5)[0, :, 0]
    torch.testing.assert_close(ours - ours[:, :1], theirs - theirs[:, :1])


@pytest.mark.parametrize("window", [0, 1, 3])
def test_window_equals_sliding_window_plus_one(window):
    from transformers.masking_utils import create_sliding_window_causal_mask

    config = llama()
    config.sliding_window = window + 1
    x = torch.randn(1, 9, 32)
    mask = create_sliding_window_causal_mask(
        config, inputs_embeds=x, attention_mask=None, past_key_values=None, position_ids=torch.arange(9)[None]
    )
    q, k, v = (torch.randn(1, 2, 9, 8) for _ in range(3))
    ours = split_attention(q, k, v, is_causal=True, window=window)
    torch.testing.assert_close(ours, split_attention(q, k, v, attn_mask=mask))
