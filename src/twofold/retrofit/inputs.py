"""A small input for one pass through a model of any family, for looking at how it attends."""

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

# Lengths of what is read and of what is written: different, so that cross-attention can be told from self-attention.
READ, WRITTEN = 7, 5


def small_inputs(model: PreTrainedModel) -> dict[str, Any]:
    """Keyword arguments of the model's forward; ValueError where its kind of input is not known here."""
    config: Any = model.config
    text: Any = config.get_text_config(decoder=True) if config.is_encoder_decoder else config.get_text_config()
    match model.main_input_name:
        case "input_ids":
            inputs = {"input_ids": _tokens(text, READ)}
        case "pixel_values":
            size = config.image_size if hasattr(config, "image_size") else config.vision_config.image_size
            height, width = (size, size) if isinstance(size, int) else size
            inputs = {"pixel_values": _numbers(1, getattr(config, "num_channels", 3), height, width)}
        case "input_features" if hasattr(config, "num_mel_bins") and hasattr(config, "max_source_positions"):
            inputs = {"input_features": _numbers(1, config.num_mel_bins, 2 * config.max_source_positions)}
        case "input_values":
            inputs = {"input_values": _numbers(1, 4000)}
        case name:
            raise ValueError(f"inputs must be given for a {type(model).__name__}, which reads {name}")
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = _tokens(text, WRITTEN)
    return {
        name: tensor.to(model.device, model.dtype if tensor.is_floating_point() else None)
        for name, tensor in inputs.items()
    }


def _tokens(config: Any, length: int) -> Tensor:
    """Tokens of the upper half of the vocabulary, where hardly any special one is."""
    half = config.vocab_size // 2
    return (torch.arange(length) * 7919 % max(config.vocab_size - half, 1) + half)[None]


def _numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))
