"""Which model a task trains. Imports no torch: a command reads it for help."""

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from twofold_runtime.checked import at_least, below, check_fields, within


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelOptions:
    """Which model to train."""

    model: Literal["transformer", "rnn", "lstm", "gru"] = "transformer"
    """A transformer, or recurrent layers where the task offers them: without split, recipe, init, heads or matching."""
    attention: Literal["standard", "split_key", "split_value", "split_kv"] = "split_kv"
    """Which of key and value a token has twice: one for itself, one for the others."""
    size: Literal["tiny", "small", "base"] = "tiny"
    """tiny: 2 layers of width 128; small: 4 of 256; base: 6 of 512."""
    width: Annotated[int, within(1, 65_536)] | None = None
    """Width of the layers, where it is not to be that of the size."""
    layers: Annotated[int, within(1, 1024)] | None = None
    """How many layers; with an encoder and a decoder, in each of the two."""
    heads: Annotated[int, within(1, 1024)] | None = None
    """Attention heads of a layer; they share its width."""
    recipe: Literal["modern", "classic"] = "modern"
    """modern: RMSNorm first, rotary positions, QK-norm. classic: as in 2017."""
    init: Literal["copy", "patent", "aligned", "independent"] = "copy"
    """How a token's own weights start."""
    matched: bool = True
    """Narrow the feed-forward until the model has as many parameters as the standard one."""
    dropout: Annotated[float, at_least(0), below(1)] = 0.1
    """Of hidden features, while training."""
    attention_dropout: Annotated[float, at_least(0), below(1)] = 0.0
    """Of attention weights, while training: slower on a CPU."""

    def __post_init__(self) -> None:
        check_fields(self)

    def check_meant(self) -> None:
        """Refuse options that would have no effect; `standard` attention may be given for any model."""
        defaults = {field.name: field.default for field in fields(self)}
        if self.attention == "standard" and self.init != defaults["init"]:
            raise ValueError(
                f"init must be left out where attention is standard, which has no own weights, got {self.init!r}"
            )
        if self.model == "transformer":
            return
        for name in ("attention", "heads", "recipe", "init", "attention_dropout"):
            value = getattr(self, name)
            if value not in (defaults[name], "standard"):
                raise ValueError(f"{name} must be left out where model is {self.model}, got {value!r}")
