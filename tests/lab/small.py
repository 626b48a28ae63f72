"""Small standard configurations of every family, and batches for them."""

import torch

from twofold.lab.arms import ARMS
from twofold.models import (
    DecoderConfig,
    DecoderForCausalLM,
    EncoderConfig,
    EncoderForMaskedLM,
    Seq2SeqConfig,
    Seq2SeqForConditionalGeneration,
)

# Those that differ in how they start, or in width, compute alike.
ALIKE = ("wide", "split_key_aligned", "split_kv_patent", "split_kv_aligned", "split_kv_independent", "self_start")
CALCULATIONS = [name for name in ARMS if name not in ALIKE]
VOCABULARY = 37
FAMILIES = {
    "decoder": (DecoderConfig, DecoderForCausalLM),
    "encoder": (EncoderConfig, EncoderForMaskedLM),
    "seq2seq": (Seq2SeqConfig, Seq2SeqForConditionalGeneration),
}


def standard(family="decoder", **changes):
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    return FAMILIES[family][0](**{**sizes, "attention": "standard", **changes})


def tokens(B=2, T=9, seed=1):
    return torch.randint(3, VOCABULARY, (B, T), generator=torch.Generator().manual_seed(seed))


def batch(family, T=9):
    """Two rows, of which the second is padded on the right, with labels."""
    ids = tokens(T=T)
    mask = torch.ones_like(ids)
    mask[1, T - 3 :] = 0
    ids = ids * mask
    labels = tokens(T=5, seed=2) if family == "seq2seq" else ids.masked_fill(mask == 0, -100)
    told = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    return told if family == "encoder" else told | {"use_cache": False}


def shaken(model, seed=3, scale=0.3):
    """Every parameter moved off where it starts, so that zeros and copies hide nothing."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype) * scale)
    return model
