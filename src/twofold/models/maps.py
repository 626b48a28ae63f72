"""How much every token keeps of itself in every layer and head of a model, without ever holding T x T weights."""

from threading import Lock, get_ident
from typing import Any

import torch
from torch import Tensor, nn

from twofold.kernels.api import self_weight
from twofold.models.layers import SelfAttention, check_shown

_looking = Lock()


@torch.no_grad()
def self_weights(model: nn.Module, *args: Any, **kwargs: Any) -> list[Tensor]:
    """(B, heads, T) for each self-attention layer, in the order in which they run; an encoder's before its decoder's.

    Args:
        model: any model of this package; arguments are those of its forward, without a cache.
    """
    weights: list[Tensor] = []

    mine = get_ident()

    def look(module: Any, inputs: tuple, _options: dict | None = None) -> None:
        # Hooks hear every thread that uses the model, and while they come and go without what they asked for.
        if get_ident() != mine:
            return
        x, rotary_table, mask, _ = inputs
        check_shown(module)
        new = module.project(x, rotary_table)
        causal = module.is_causal and mask is None
        grouped = module.heads != module.kv_heads
        weights.append(
            self_weight(new.query, new.key, new.self_key, attn_mask=mask, is_causal=causal, enable_gqa=grouped)
        )

    layers = [module for module in model.modules() if isinstance(module, SelfAttention)]
    if not layers:
        raise ValueError(f"model must have split self-attention layers of this package, got {type(model).__name__}")
    # One at a time: torch's tables of hooks are not made for two threads.
    with _looking:
        handles = [layer.register_forward_pre_hook(look, with_kwargs=True) for layer in layers]
        try:
            # A compiled model would not see hooks that came later.
            with torch.compiler.set_stance("force_eager"):
                model(*args, **{**kwargs, "use_cache": False})
        finally:
            for handle in handles:
                handle.remove()
    return weights
