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


@pytest.mark.parametrize(
    ("theirs", "qk_norm"),
    [
        (lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, rms_norm_eps=1e-6, rope_theta=10_000.0)), True),
        (lambda: LlamaForCausalLM(LlamaConfig(**SIZES, rms_norm_eps=1e-6, rope_theta=10_000.0)), False),
    ],
    ids=["qwen3", "llama"],
)
def test_equal_logits(theirs, qk_norm):
    torch.manual_seed(0)
    theirs = theirs().eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, mean=0.0 if parameter.dim() > 1 else 1.0, std=0.2)
    config = DecoderConfig(**SIZES, attention="standard", hidden_act="swiglu", qk_norm=qk_norm)
    ours = DecoderForCausalLM(config).eval()
    ours.load_state_dict({renamed(name): tensor for name, tensor in theirs.state_dict().items()})
    ids = torch.randint(60, (2, 11))
    torch.testing.assert_close(ours(ids).logits, theirs(ids).logits, atol=1e-5, rtol=1e-5)
