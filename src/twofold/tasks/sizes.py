"""How large a task's model is, and of which kind: from a few options to a configuration."""

from collections.abc import Sequence
from typing import Any, TypeVar

from twofold.models.configs import TransformerConfig
from twofold.models.matching import matched
from twofold.models.recurrent_config import RecurrentConfig
from twofold.tasks.options import ModelOptions

# Width, layers and heads.
SIZES = {"tiny": (128, 2, 4), "small": (256, 4, 4), "base": (512, 6, 8)}
# Learning rates that suit most tasks.
RATES = {"tiny": 2e-3, "small": 1e-3, "base": 5e-4}

Config = TypeVar("Config", bound=TransformerConfig)


def sized(config: type[Config], options: ModelOptions, vocab_size: int, **more: Any) -> Config:
    """A configuration of that kind, size and attention."""
    if options.model != "transformer":
        raise ValueError(f"model must be transformer for this task, got {options.model!r}")
    width, layers, heads = measures(options)
    made = config(
        vocab_size=vocab_size,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        attention="standard" if options.matched else options.attention,
        recipe=options.recipe,
        init=options.init,
        hidden_dropout=options.dropout,
        attention_dropout=options.attention_dropout,
        **more,
    )
    return matched(made, options.attention) if options.matched else made


def named(labels: Sequence[str]) -> dict[str, Any]:
    """What transformers knows labels by."""
    return {"id2label": dict(enumerate(labels)), "label2id": {label: place for place, label in enumerate(labels)}}


def recurrent(options: ModelOptions, vocab_size: int) -> RecurrentConfig:
    """The same of recurrent layers."""
    width, layers, _ = measures(options)
    return RecurrentConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        num_hidden_layers=layers,
        cell=options.model,
        hidden_dropout=options.dropout,
    )


def measures(options: ModelOptions) -> tuple[int, int, int]:
    """Width, layers and heads: those of the size, but for what is said apart."""
    usual = SIZES[options.size]
    width, layers, heads = options.width or usual[0], options.layers or usual[1], options.heads or usual[2]
    if options.model == "transformer" and width % heads:
        raise ValueError(f"width must be a multiple of heads ({heads}), got {width}")
    return width, layers, heads
