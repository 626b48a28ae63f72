"""Attention modules of converted models: subclasses of the family's own, which bring k' and v' along."""

import inspect
from functools import cache
from typing import Any, cast

from torch import Tensor, nn

from twofold.attention.split import Kind
from twofold.retrofit.attend import EAGER, OWN, SPLIT, OwnStates
from twofold.retrofit.projections import Heads, Layout, own_projection, own_states, rotation_of

PREFIX = "Split"
OWN_NAMES = ("self_key", "self_value")


class SplitAttention(nn.Module):
    """Mixed into the class of an attention module. Everything else the module does stays the family's."""

    # Set by `attention_class`.
    original_class: type[nn.Module]
    argument_names: tuple[str, ...]
    rotate: Any

    # Set by `split_module`.
    self_heads: Heads
    self_layout: Layout

    def forward(self, *args: Any, **options: Any) -> Any:
        config: Any = self.config
        if config._attn_implementation not in (SPLIT, EAGER):
            raise ValueError(
                f'attn_implementation of a converted model must be "{SPLIT}" or "{EAGER}", '
                f'got "{config._attn_implementation}": choose one of them by set_attn_implementation'
            )
        named = dict(zip(self.argument_names, args, strict=False)) | options
        past = named.get("past_key_values", named.get("layer_past"))
        past = getattr(past, "self_attention_cache", past)
        # Read before the module updates its cache, and copied: a static cache counts in place.
        seen = 0 if past is None else past.get_seq_length(self.layer_idx)
        seen = seen.clone() if isinstance(seen, Tensor) else seen
        x, positions = named[self.argument_names[0]], named.get("position_embeddings")
        key, value = own_states(self, x, positions, self.self_heads, type(self).rotate)
        return super().forward(*args, **options, **{OWN: OwnStates(key, value, seen)})


@cache
def attention_class(original: type[nn.Module]) -> type[SplitAttention]:
    """The class of converted modules of a class."""
    rotate = rotation_of(original)
    fields = {
        "original_class": original,
        "argument_names": tuple(inspect.signature(original.forward).parameters)[1:],
        "rotate": None if rotate is None else staticmethod(rotate),
        "__module__": __name__,
    }
    return cast("type[SplitAttention]", type(PREFIX + original.__name__, (SplitAttention, original), fields))


def split_module(module: Any, kind: Kind, heads: Heads, layout: Layout) -> None:
    """Turn an attention module into a converted one, in place. Own projections start as copies."""
    key_rows, value_rows = layout.rows(heads)
    own = own_projection(module, layout.key, key_rows) if kind.splits_key else None
    module.self_value = own_projection(module, layout.value, value_rows) if kind.splits_value else None
    module.self_key = own
    module.self_heads, module.self_layout = heads, layout
    module.__class__ = attention_class(type(module))


def restore_module(module: Any) -> None:
    """The way back: own projections are dropped."""
    module.__class__ = module.original_class
    for name in (*OWN_NAMES, "self_heads", "self_layout"):
        delattr(module, name)
