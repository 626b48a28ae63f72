"""Own projections of a trained attention module: copies of what makes its keys and values.

A module keeps its projections under one of a few names, apart or fused into one, and may normalise keys and apply
rotary positions. Which of the layouts below is the right one is not concluded from names alone: a conversion is tried
and then checked against the module's own keys and values.
"""

import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

# Names of the projections of keys and values where they are apart.
APART = (("k_proj", "v_proj"), ("key", "value"), ("k", "v"), ("key_proj", "value_proj"), ("k_lin", "v_lin"))
# Names of one projection of queries, keys and values.
FUSED = ("c_attn", "Wqkv", "query_key_value", "qkv_proj", "qkv")


class Heads(NamedTuple):
    """Sizes of a module's keys and values, as they were seen in a call."""

    query_heads: int
    kv_heads: int
    key_width: int
    value_width: int


class Layout(NamedTuple):
    """Where a module's keys and values come from."""

    key: str  # name of a projection
    value: str
    arrangement: str = "apart"  # "apart", or how queries, keys and values lie in one projection: "blocks", "by_head"

    def rows(self, heads: Heads) -> tuple[Tensor | None, Tensor | None]:
        """Which outputs of the projections are keys and values; None: all."""
        width = heads.key_width
        keys, queries = heads.kv_heads * width, heads.query_heads * width
        if self.arrangement == "blocks":
            return torch.arange(queries, queries + keys), torch.arange(queries + keys, queries + 2 * keys)
        if self.arrangement == "by_head":
            # One key head after another, each with its queries in front.
            by_head = torch.arange(queries + 2 * keys).view(heads.kv_heads, -1, width)
            return by_head[:, -2].flatten(), by_head[:, -1].flatten()
        return None, None


def layouts(module: nn.Module, heads: Heads) -> list[Layout]:
    """Every layout that the module's names and sizes allow, the likeliest first."""
    keys, values = heads.kv_heads * heads.key_width, heads.kv_heads * heads.value_width
    found = [
        Layout(key, value)
        for key, value in APART
        if _outputs(module, key) == keys and _outputs(module, value) == values
    ]
    if keys == values:
        whole = heads.query_heads * heads.key_width + keys + values
        names = [name for name in FUSED if _outputs(module, name) == whole]
        found += [Layout(name, name, arrangement) for name in names for arrangement in ("blocks", "by_head")]
    return found


def _outputs(module: nn.Module, name: str) -> int | None:
    """How many outputs a plain linear part of this name has; None: there is no such part."""
    part = getattr(module, name, None)
    if type(part) is nn.Linear:
        return part.out_features
    return part.nf if type(part) is Conv1D else None


def own_projection(module: nn.Module, name: str, rows: Tensor | None) -> nn.Module:
    """A copy of a projection, or of some of its outputs."""
    part = getattr(module, name)
    if rows is None:
        return deepcopy(part)
    is_conv = isinstance(part, Conv1D)
    rows = rows.to(part.weight.device)
    # As a linear layer whatever it was: transformers' Conv1D keeps its weight the other way round.
    made = nn.Linear(part.weight.shape[0] if is_conv else part.in_features, len(rows), bias=part.bias is not None)
    made = made.to(part.weight.device, part.weight.dtype)
    if not part.weight.is_meta:
        with torch.no_grad():
            made.weight.copy_(part.weight[:, rows].T if is_conv else part.weight[rows])
            if part.bias is not None:
                made.bias.copy_(part.bias[rows])
    return made


def own_states(
    module: Any, x: Tensor, position_embeddings: tuple[Tensor, Tensor] | None, heads: Heads, rotate: Any
) -> tuple[Tensor | None, Tensor | None]:
    """k' and v' of hidden states x (B, T, C), (B, Hkv, T, D) each, with the module's key norm and positions."""
    key = value = None
    if module.self_key is not None:
        norm: Any = getattr(module, "k_norm", None) or getattr(module, "k_layernorm", None) or nn.Identity()
        key = module.self_key(x)
        # Over all heads at once, or over each by itself.
        is_whole = _width(norm) == heads.kv_heads * heads.key_width != heads.key_width
        key = norm(key) if is_whole else key
        key = key.view(*x.shape[:-1], heads.kv_heads, heads.key_width)
        key = (key if is_whole else norm(key)).transpose(1, 2)
        if position_embeddings is not None and rotate is not None:
            key = rotate(key, key, *position_embeddings)[1]
    if module.self_value is not None:
        value = module.self_value(x).view(*x.shape[:-1], heads.kv_heads, heads.value_width).transpose(1, 2)
    return key, value


def rotation_of(module_class: type[nn.Module]) -> Callable[..., Any] | None:
    """The family's own way to apply rotary positions."""
    return getattr(sys.modules[module_class.__module__], "apply_rotary_pos_emb", None)


def _width(norm: nn.Module) -> int:
    return next((parameter.numel() for parameter in norm.parameters()), 0)
