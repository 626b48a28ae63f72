"""Equal parameters: how wide the feed-forward must be for one kind of attention to cost what another costs."""

from copy import deepcopy
from typing import Any, TypeVar

from twofold.attention.split import Kind
from twofold.models.configs import GATED, TransformerConfig

Config = TypeVar("Config", bound=TransformerConfig)


def matched(config: Config, attention: str) -> Config:
    """`config` with another kind of attention and the feed-forward that keeps the number of parameters.

    Each own projection of every layer is paid for by its feed-forward. Widths are whole numbers, so the counts may
    differ by up to half a column of a feed-forward a layer: some 0.1 % at a width of 64, and less above.
    """
    if config.recipe == "bare":
        raise ValueError("a bare layer has no feed-forward that could be narrowed")
    change = _own_parameters(config, attention) - _own_parameters(config, config.attention)
    column = (3 if config.hidden_act in GATED else 2) * config.hidden_size
    if config.mlp_bias:
        column += 2 if config.hidden_act in GATED else 1
    width = (config.intermediate_size or 0) - round(change / column)
    if width < 1:
        raise ValueError(
            f"intermediate_size must leave room for own keys and values: {config.intermediate_size} less "
            f"{round(change / column)}"
        )
    narrowed = deepcopy(config)
    narrowed.attention, narrowed.intermediate_size = attention, width
    return narrowed


def _own_parameters(config: Any, attention: str) -> int:
    """Of one layer's own projections."""
    kind = Kind(attention)
    rows = config.num_key_value_heads * config.head_dim
    return (kind.splits_key + kind.splits_value) * rows * (config.hidden_size + bool(config.attention_bias))
