"""The arms of an experiment: what is compared with what, where each idea comes from, and how a model of one is built.

An arm is a part, not a flag: it changes the configuration of the standard model, replaces the attention of its layers,
or both. `build` makes its model, paired with those of all other arms by the seed, at equal parameters or not.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.lab import rivals
from twofold.lab.arm_table import RAW, TABLE, Row
from twofold.lab.paired_weights import generator, pair
from twofold.models.captioner import CaptionerConfig
from twofold.models.configs import TransformerConfig
from twofold.models.layers import SelfAttention, record_attention
from twofold.models.matching import matched as matched_kind


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to do self-attention."""

    name: str
    source: str
    """Where the idea comes from."""
    attention: type[SelfAttention] = SelfAttention
    """What replaces the self-attention of every layer."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What the configuration has otherwise than the standard one."""
    can_match: bool = True
    """Whether the feed-forward may be fitted to equal parameters; not where its width is what the arm is about."""

    def config(self, standard: TransformerConfig) -> TransformerConfig:
        """The configuration of a model of this arm, made from the standard one, which stays as it is."""
        made = deepcopy(standard)
        for name, value in self.fields.items():
            setattr(made, name, value)
        return made


class Wide(Arm):
    """Standard attention and the feed-forward that brings it to the size of split_kv."""

    def config(self, standard: TransformerConfig) -> TransformerConfig:
        split = deepcopy(standard)
        split.attention = "split_kv"
        return matched_kind(split, "standard")


def _of_this_package(name: str, row: Row) -> Arm:
    attention = SelfAttention if row.attention is None else getattr(rivals, row.attention)
    if row.wider:
        return Wide(name=name, source=row.source, can_match=False)
    return Arm(name=name, source=row.source, attention=attention, fields=row.fields)


OURS = tuple(_of_this_package(name, row) for name, row in TABLE.items())
# By name, and with them those that `load_arms` read from a file of the user's.
ARMS: dict[str, Arm] = {arm.name: arm for arm in OURS}


def arm_named(name: str) -> tuple[Arm, bool]:
    """An arm by its name, and whether its feed-forward is to be fitted to equal parameters; `:raw` says no."""
    plain = name.removesuffix(RAW)
    if plain not in ARMS:
        raise ValueError(
            f"arms must be known by name (one of your own needs --arms-from FILE), got {name!r}; "
            f"there are, each with {RAW} or without: {', '.join(ARMS)}"
        )
    return ARMS[plain], ARMS[plain].can_match and not name.endswith(RAW)


def build(
    arm: Arm, standard_config: PreTrainedConfig, model_class: type[PreTrainedModel], *, matched: bool, seed: int
) -> PreTrainedModel:
    """A model of an arm, on the CPU, in training mode.

    Args:
        arm: one of `ARMS`, or one's own.
        standard_config: that of the standard model it is compared with.
        model_class: what is built of it.
        matched: fit the feed-forward until the model has as many parameters as the standard one; else its width stays.
        seed: tensors that models of two arms share by name and shape start equal where their seeds are.
    """
    config = config_of(arm, standard_config, model_class, matched=matched)
    # A model class of transformers, by its hints, takes a configuration alone.
    construct: Any = model_class
    # What a part draws when it is made, and no `start` draws again, hangs on the seed as well.
    with generator(seed, "made"), torch.device("cpu"):
        model = construct(config, attention_class=arm.attention)
        pair(model, seed)
    return model.train()


def config_of(
    arm: Arm, standard_config: PreTrainedConfig, model_class: type[PreTrainedModel], *, matched: bool
) -> PreTrainedConfig:
    """The configuration that `build` gives the model of an arm."""
    standard = transformer_of(standard_config)
    if standard.attention != "standard" or standard.attention_part is not None:
        raise ValueError(
            f"standard_config must have standard attention, got {standard.attention_part or standard.attention!r}"
        )
    if matched and not arm.can_match:
        raise ValueError(f"matched must be False for {arm.name}: its size is what it tests")
    mine = arm.config(standard)
    record_attention(mine, arm.attention)
    mine.validate_architecture()
    config = _with_transformer(standard_config, mine)
    if matched:
        _fit(arm, config, parameters(standard_config, model_class), model_class)
    return config


def parameters(
    config: PreTrainedConfig, model_class: type[PreTrainedModel], attention_class: type[SelfAttention] = SelfAttention
) -> int:
    """How many a model has, tied ones once, without ever making it."""
    construct: Any = model_class
    with torch.device("meta"):
        return construct(deepcopy(config), attention_class=attention_class).num_parameters()


def transformer_of(config: PreTrainedConfig) -> TransformerConfig:
    """The configuration of a model's transformer: its own or, of a captioner, that of what writes."""
    found = config.decoder if isinstance(config, CaptionerConfig) else config
    if not isinstance(found, TransformerConfig):
        raise ValueError(f"standard_config must be of a transformer of this package, got {type(found).__name__}")
    return found


def _with_transformer(config: PreTrainedConfig, transformer: TransformerConfig) -> PreTrainedConfig:
    if not isinstance(config, CaptionerConfig):
        return transformer
    made = deepcopy(config)
    made.decoder = transformer
    return made


def _fit(arm: Arm, config: PreTrainedConfig, wanted: int, model_class: type[PreTrainedModel]) -> None:
    """Set the feed-forward's width so that the model has the parameters wanted, to half a column in every layer.

    Parameters grow evenly with the width, so two counts tell how many a column has in all layers together.
    """
    inner = transformer_of(config)
    width = inner.intermediate_size or 0
    found = parameters(config, model_class, arm.attention)
    inner.intermediate_size = width + 1
    column = parameters(config, model_class, arm.attention) - found
    if found != wanted and column == 0:
        raise ValueError("a bare layer has no feed-forward that could be fitted")
    fitted = width + (round((wanted - found) / column) if column else 0)
    if fitted < 1:
        raise ValueError(f"intermediate_size must leave room for the arm: {width} and {fitted - width} more")
    inner.intermediate_size = fitted
