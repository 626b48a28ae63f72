"""Which model a task trains. Imports no torch: a command reads it for help."""

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelOptions:
    """Which model to train."""

    model: Literal["transformer", "rnn", "lstm", "gru"] = "transformer"
    """A transformer, or recurrent layers where the task offers them: without split, recipe, init, heads or matching."""
    attention: Literal["standard", "split_key", "split_value", "split_kv"] = "split_kv"
    """Which of key and value a token has twice: one for itself, one for the others."""
    size: Literal["tiny", "small", "base"] = "tiny"
    """tiny: 2 layers of width 128; small: 4 of 256; base: 6 of 512."""
    width: int | None = None
    """Width of the layers, where it is not to be that of the size."""
    layers: int | None = None
    """How many layers; with an encoder and a decoder, in each of the two."""
    heads: int | None = None
    """Attention heads of a layer; they share its width."""
    recipe: Literal["modern", "classic"] = "modern"
    """modern: RMSNorm first, rotary positions, QK-norm. classic: as in 2017."""
    init: Literal["copy", "patent", "aligned", "independent"] = "copy"
    """How a token's own weights start."""
    matched: bool = True
    """Narrow the feed-forward until the model has as many parameters as the standard one."""
    dropout: float = 0.1
    """Of hidden features, while training."""
    attention_dropout: float = 0.0
    """Of attention weights, while training: slower on a CPU."""

    def __post_init__(self) -> None:
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be from 0 to below 1, got {getattr(self, name)}")
        check_choices(self)
        for name in ("width", "layers", "heads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")

    def check_meant(self) -> None:
        """Refuse options that would be ignored; `standard` attention may be said of any model."""
        usual = {field.name: field.default for field in fields(self)}
        if self.attention == "standard" and self.init != usual["init"]:
            raise ValueError(
                f"init must be left out where attention is standard, which has no own weights, got {self.init!r}"
            )
        if self.model == "transformer":
            return
        for name in ("attention", "heads", "recipe", "init", "attention_dropout"):
            value = getattr(self, name)
            if value not in (usual[name], "standard"):
                raise ValueError(f"{name} must be left out where model is {self.model}, got {value!r}")


def check_choices(options: Any) -> None:
    """Raise where a field that takes one of several words has another."""
    for name, hint in get_type_hints(type(options)).items():
        if get_origin(hint) is Literal and getattr(options, name) not in get_args(hint):
            raise ValueError(f"{name} must be one of {', '.join(get_args(hint))}, got {getattr(options, name)!r}")
