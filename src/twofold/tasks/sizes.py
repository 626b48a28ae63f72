"""How large a task's model is, and of which kind: from a few options to a configuration."""

from typing import Any, TypeVar

from twofold.models.configs import TransformerConfig
from twofold.models.matching import matched
from twofold.tasks.options import ModelOptions

# Width, layers and heads.
SIZES = {"tiny": (128, 2, 4), "small": (256, 4, 4), "base": (512, 6, 8)}

Config = TypeVar("Config", bound=TransformerConfig)


def sized(config: type[Config], options: ModelOptions, vocab_size: int, **more: Any) -> Config:
    """A configuration of that kind, size and attention."""
    width, layers, heads = SIZES[options.size]
    made = config(
        vocab_size=vocab_size,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        attention="standard" if options.matched else options.attention,
        recipe=options.recipe,
        init=options.init,
        hidden_dropout=options.dropout,
        attention_dropout=0.0,
        **more,
    )
    return matched(made, options.attention) if options.matched else made
