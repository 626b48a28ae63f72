"""Classes of converted models and their configurations: subclasses of the originals', made when first asked for.

A converted `LlamaForCausalLM` is a `SplitLlamaForCausalLM` with a `SplitLlamaConfig`. All converted configurations
share one model_type, "twofold_split", which transformers knows once `twofold.retrofit` is imported. Without this
package the Auto classes refuse a saved model rather than open it as a standard one.

A configuration keeps what was converted in `split_attention`: the kind, the original's model_type, and the names of the
modules with the sizes and places of their projections, so that a model can be built without being tried out.
"""

import re
from functools import cache
from typing import Any, cast

import transformers
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

from twofold.attention.split import Kind
from twofold.retrofit.attend import EAGER, NAMES, SPLIT
from twofold.retrofit.attention import OWN_NAMES, PREFIX, split_module
from twofold.retrofit.projections import Heads, Layout, layouts

MODEL_TYPE = "twofold_split"
# What `split_attention` of a configuration holds.
FIELDS = ("kind", "model_type", "modules")


class SplitConfig(PreTrainedConfig):
    """What transformers finds under "twofold_split": from the fields of a file to the configuration of its class."""

    model_type = MODEL_TYPE

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **options: Any) -> Any:
        original = original_type(config_dict)
        register(original)
        return config_class(original).from_dict(config_dict, **options)


def original_type(fields: dict[str, Any]) -> type[PreTrainedConfig]:
    """The class of the original's configuration, one of transformers' own."""
    split = fields.get("split_attention")
    name = split.get("model_type") if isinstance(split, dict) else None
    original = (
        transformers.CONFIG_MAPPING[name] if isinstance(name, str) and name in transformers.CONFIG_MAPPING else None
    )
    # Others may have been registered, this package's own among them.
    if original is None or not original.__module__.startswith("transformers."):
        raise ValueError(f"split_attention must name the original's model_type, one of transformers', got {name!r}")
    return original


class SplitModel:
    """Mixed into the class of a model: its attention modules are converted once they are built."""

    original_class: type[PreTrainedModel]
    config: Any

    def __init__(self, config: Any, *args: Any, **options: Any) -> None:
        split = getattr(config, "split_attention", None)
        if not isinstance(config, PreTrainedConfig) or not isinstance(split, dict) or set(split) != set(FIELDS):
            raise ValueError(
                f"config must be a converted model's, with split_attention, got {type(config).__name__}: load the "
                "original, then convert it"
            )
        super().__init__(config, *args, **options)  # type: ignore[call-arg]
        install(cast("PreTrainedModel", self), split)
        choose_attention(cast("PreTrainedModel", self))

    def save_pretrained(self, *args: Any, **options: Any) -> Any:
        """As in transformers, but by the names of the weights as they are here, not those of an older checkpoint.

        transformers renames weights by the class and model_type, which are no longer the original's.
        """
        self._weight_conversions: list[Any] = []
        return super().save_pretrained(*args, **options)  # type: ignore[misc]

    @classmethod
    def from_pretrained(cls, *args: Any, output_loading_info: bool = False, **options: Any) -> Any:
        """As in transformers, except that own projections which the checkpoint lacks are an error."""
        loaded: Any = super().from_pretrained(*args, output_loading_info=True, **options)  # type: ignore[misc]
        model, info = loaded
        lacking = sorted(name for name in info["missing_keys"] if name.split(".")[-2] in OWN_NAMES)
        if lacking:
            raise ValueError(
                f"the checkpoint has no weights for own keys and values ({lacking[0]} and {len(lacking) - 1} more): "
                "load the original, then convert it"
            )
        return loaded if output_loading_info else model


def install(model: PreTrainedModel, split: dict[str, Any]) -> None:
    """Convert the modules that a configuration names. They are named relative to the base model, without heads."""
    if split["kind"] not in set(Kind) - {Kind.STANDARD} or not isinstance(split["modules"], dict):
        raise ValueError(f"split_attention must have a kind that splits and modules, got {split['kind']!r}")
    base = model.base_model
    for name, (sizes, places) in split["modules"].items():
        module, heads, layout = base.get_submodule(name), Heads(*sizes), Layout(*places)
        if layout not in layouts(module, heads):
            raise ValueError(f"split_attention does not fit {name}, a {type(module).__name__}: {sizes}, {places}")
        split_module(module, Kind(split["kind"]), heads, layout)


def choose_attention(model: PreTrainedModel) -> None:
    """Set the attention function of a converted model that goes with the one it has."""
    name: Any = model.config._attn_implementation
    if name not in (*NAMES, SPLIT, EAGER):
        raise ValueError(f"attn_implementation must be one of {', '.join(NAMES)} for split attention, got {name!r}")
    model.set_attn_implementation(NAMES.get(name, name))


@cache
def config_class(original: type[PreTrainedConfig]) -> type[PreTrainedConfig]:
    """The configuration class of converted models."""
    plan = getattr(original, "base_model_tp_plan", None) or {}
    own = {
        re.sub(rf"\.{name}$", f".{own_name}", part): how
        for part, how in plan.items()
        for name, own_name in (("k_proj", "self_key"), ("v_proj", "self_value"))
        if part.endswith(f".{name}")
    }
    fields = {"model_type": MODEL_TYPE, "base_model_tp_plan": {**plan, **own} or None, "__module__": __name__}
    return type(PREFIX + original.__name__, (original,), fields)


@cache
def model_class(original: type[PreTrainedModel]) -> type[PreTrainedModel]:
    """The class of converted models of a class."""
    fields = {
        "original_class": original,
        "config_class": config_class(cast("Any", original.config_class)),
        "__module__": __name__,
    }
    if original.__name__ in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        # By this Trainer knows whose labels it has to shift when it smooths them.
        name = PREFIX + original.__name__
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[name] = name
    return cast("type[PreTrainedModel]", type(PREFIX + original.__name__, (SplitModel, original), fields))


@cache
def register(original: type[PreTrainedConfig]) -> None:
    """Tell every Auto class that knows an original model of its converted form."""
    for auto in vars(modeling_auto).values():
        mapping = getattr(auto, "_model_mapping", None)
        if isinstance(auto, type) and mapping is not None and original in mapping:
            model = mapping[original]
            if isinstance(model, type) and issubclass(model, PreTrainedModel) and model.config_class is original:
                cast("Any", auto).register(config_class(original), model_class(model))


def class_named(name: str, original: type[PreTrainedConfig]) -> type[PreTrainedModel]:
    """The class that a file names, as SplitLlamaForCausalLM."""
    found = getattr(transformers, name.removeprefix(PREFIX), None) if name.startswith(PREFIX) else None
    if not isinstance(found, type) or not issubclass(found, PreTrainedModel) or found.config_class is not original:
        raise ValueError(f"architectures must name a converted model of {original.__name__}, got {name!r}")
    return model_class(found)


AutoConfig.register(MODEL_TYPE, SplitConfig)
