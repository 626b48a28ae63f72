"""The models of `layer`, `training` and `decode`: the toolkit's own decoder, at equal parameters."""

from typing import Any

import torch
from torch import nn

from twofold.models.configs import DecoderConfig
from twofold.models.decoder import DecoderForCausalLM
from twofold.models.matching import matched


def standard_config(
    *, heads: int, kv_heads: int, head_width: int, layers: int = 1, vocabulary: int = 32_768
) -> DecoderConfig:
    """Standard attention and a squared ReLU between two matrices, four times as wide as the model.

    The rest is the modern recipe: pre-RMSNorm, rotary positions, QK-norm with gain, tied embeddings, no biases.
    """
    return DecoderConfig(
        attention="standard",
        vocab_size=vocabulary,
        hidden_size=heads * head_width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_width,
        # Tokens are drawn at random: none is special.
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )


def decoder(
    config: DecoderConfig, kind: str, device: torch.device, dtype: torch.dtype = torch.float32
) -> DecoderForCausalLM:
    """A decoder with this kind of attention and as many parameters as `config` has with standard attention."""
    torch.manual_seed(0)
    with device:
        model: Any = DecoderForCausalLM(matched(config, kind))
    return model.to(dtype)


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
