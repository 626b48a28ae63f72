"""The modern recipe with attention="standard" against transformers' own Qwen3 and Llama, weights copied."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from twofold.models import DecoderConfig, DecoderForCausalLM

SIZES = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "tie_word_embeddings": False,
}
NAMES = {
    "embed_tokens": "embedding.tokens",
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "o_proj": "output",
    "q_norm": "query_norm",
    "k_norm": "key_norm",
    "mlp.gate_proj": "feed_forward.gate",
    "mlp.up_proj": "feed_forward.up",
    "mlp.down_proj": "feed_forward.down",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "feed_forward_norm",
}


def renamed(name):
    for theirs, ours in NAMES.items():
        name = name.replace(theirs, ours)
    return name


def ours_with_weights_of(theirs, **options):
    config = DecoderConfig(**SIZES, attention="standard", hidden_act="swiglu", **options)
    ours = DecoderForCausalLM(config).eval()
    ours.load_state_dict({renamed(name): tensor for name, tensor in theirs.state_dict().items()})
    return ours


def drawn(theirs):
    torch.manual_seed(0)
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, mean=0.0 if parameter.dim() > 1 else 1.0, std=0.2)
    return theirs.eval()


@pytest.mark.parametrize(
    ("theirs", "qk_norm"),
    [
        (lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, rms_norm_eps=1e-6, rope_theta=10_000.0)), True),
        (lambda: LlamaForCausalLM(LlamaConfig(**SIZES, rms_norm_eps=1e-6, rope_theta=10_000.0)), False),
    ],
    ids=["qwen3", "llama"],
)
def test_equal_logits(theirs, qk_norm):
    theirs = drawn(theirs())
    ids = torch.randint(60, (2, 11))
    ours = ours_with_weights_of(theirs, qk_norm=qk_norm)
    torch.testing.assert_close(ours(ids).logits, theirs(ids).logits, atol=1e-5, rtol=1e-5)


YARN = {"rope_type": "yarn", "rope_theta": 5e5, "factor": 8.0, "original_max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "default", "rope_theta": 5e5},
        {"rope_type": "linear", "factor": 4.0},
        {**LLAMA3, "rope_theta": 5e5, "original_max_position_embeddings": 64},
        # The original length is the longest one where it is not told.
        {**LLAMA3},
        YARN,
        {**YARN, "beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.25},
        {**YARN, "mscale": 0.7, "mscale_all_dim": 1.0},
        {**YARN, "truncate": False},
    ],
    ids=str,
)
def test_equal_logits_with_stretched_positions(rope):
    # Scores are sharp and positions far apart, so that a wrong angle shows.
    places = {"max_position_embeddings": 512}
    theirs = drawn(LlamaForCausalLM(LlamaConfig(**SIZES, **places, rms_norm_eps=1e-6, rope_parameters=dict(rope))))
    ours = ours_with_weights_of(theirs, qk_norm=False, rope_parameters=rope, **places)
    ids, positions = torch.randint(60, (2, 40)), torch.arange(0, 480, 12)[None]
    found, expected = (model(ids, position_ids=positions).logits for model in (ours, theirs))
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-5)
    if rope["rope_type"] != "default":
        plain = ours_with_weights_of(theirs, qk_norm=False, rope_theta=rope.get("rope_theta"), **places)
        assert (plain(ids, position_ids=positions).logits - expected).abs().max() > 1e-2
