"""AdamW, what of a model decays, and the learning rate of every step."""

import math
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW

from twofold.training.settings import Settings


def optimizer_of(model: nn.Module, settings: Settings) -> AdamW:
    """AdamW in which matrices decay; norms, gains and biases do not, nor do embeddings unless settings say so."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    decays: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    # A tied parameter comes once.
    for parameter in model.parameters():
        if parameter.requires_grad:
            is_embedding = id(parameter) in embeddings and not settings.decay_embeddings
            decays[parameter.ndim > 1 and not is_embedding].append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": parameters, "weight_decay": settings.weight_decay if decay else 0.0}
        for decay, parameters in decays.items()
        if parameters
    ]
    if not groups:
        raise ValueError("model must have parameters to train, and none requires a gradient")
    on_gpu = next(model.parameters()).device.type == "cuda"
    return AdamW(groups, lr=settings.learning_rate, betas=settings.betas, fused=True if on_gpu else None)


def rate(settings: Settings, step: int, total: int) -> float:
    """The learning rate of a step, counted from 1. It depends on nothing else, so there is no scheduler to save."""
    rising = math.ceil(settings.warmup * total)
    if step <= rising:
        return settings.learning_rate * step / rising
    # From 0 right after the warm-up to just below 1: the last step, too, moves something.
    top = max(rising, 1)
    done = (step - top) / (total - top + 1)
    if settings.schedule == "cosine":
        left = (1 + math.cos(math.pi * done)) / 2
    elif settings.schedule == "linear":
        left = 1 - done
    else:
        left = 1.0
    return settings.learning_rate * (left + (1 - left) * settings.final_rate)


def set_rate(optimizer: torch.optim.Optimizer, value: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = value
