"""Pairing: for one seed, models that differ in a part start from the same numbers wherever they have the same tensor.

Every module draws its weights as its model has it, each from a generator of its own that starts from the seed and the
module's name. A feed-forward is drawn by its neurons, in blocks, so that a wider one begins with all those of a
narrower one: what two widths can share, they share.
"""

from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256

import torch
from torch import nn
from transformers import PreTrainedModel

from twofold.models.layers import FeedForward

# Neurons drawn at once. Another number is another draw.
BLOCK = 64


@torch.no_grad()
def pair(model: PreTrainedModel, seed: int) -> None:
    """Draw all weights of a model on the CPU again, by their names. Other generators are left as they were."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0, got {seed!r}")
    if model.device.type != "cpu":
        raise ValueError(f"model must be on the cpu, where draws are the same on every machine, got {model.device}")
    _draw(model, "", model, seed)


def _draw(module: nn.Module, name: str, owner: PreTrainedModel, seed: int) -> None:
    owner = module if isinstance(module, PreTrainedModel) else owner
    # Parts first, since how a whole starts may depend on them. The last first, as a head that is tied to the
    # embedding is the embedding's.
    for part, child in reversed(list(module.named_children())):
        _draw(child, f"{name}.{part}", owner, seed)
    with generator(seed, name):
        owner._init_weights(module)
    if isinstance(module, FeedForward):
        for part, child in module.named_children():
            if isinstance(child, nn.Linear):
                with generator(seed, f"{name}.{part}"):
                    _draw_neurons(child, owner, is_last=child is module.down)


def _draw_neurons(linear: nn.Linear, owner: PreTrainedModel, *, is_last: bool) -> None:
    """Whole blocks, however many neurons of the last are wanted. Only weights: biases start at 0."""
    weight = linear.weight.T if is_last else linear.weight  # (neurons, width)
    for start in range(0, len(weight), BLOCK):
        sizes = (BLOCK, weight.shape[1]) if is_last else (weight.shape[1], BLOCK)
        block = nn.Linear(*sizes, bias=False, dtype=weight.dtype)
        owner._init_weights(block)
        drawn = block.weight.T if is_last else block.weight
        weight[start : start + BLOCK] = drawn[: len(weight) - start]


@contextmanager
def generator(seed: int, name: str) -> Generator[None]:
    """What is drawn inside on the CPU depends on seed and name alone, and nothing outside on it."""
    number = int.from_bytes(sha256(f"{seed} {name}".encode()).digest()[:8], "little")
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed, which would seed every GPU as well.
        torch.default_generator.manual_seed(number)
        yield
