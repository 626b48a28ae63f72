"""Converting a trained transformers model: its self-attention gets keys and values for oneself, k' and v'.

Own projections start as copies, so that the model starts as it was. A conversion is tried: one pass before it shows
which modules attend to themselves, one pass after it whether k' and v' of every converted module are the module's own
keys and values, and whether the model says the same. A model that does not pass is left as it was and refused with the
reason.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from twofold.attention.split import Kind
from twofold.retrofit.attend import NAMES, Observed, observed
from twofold.retrofit.attention import OWN_NAMES, SplitAttention, restore_module, split_module
from twofold.retrofit.inputs import small_inputs
from twofold.retrofit.models import SplitModel, config_class, model_class, register
from twofold.retrofit.projections import Heads, Layout, layouts

# What may go wrong in a pass through a model that does not attend as expected.
FAILURES = (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError)


def convert(
    model: PreTrainedModel,
    kind: str = "split_kv",
    *,
    layers: Sequence[int] | None = None,
    init: str = "copy",
    inputs: Mapping[str, Any] | None = None,
) -> PreTrainedModel:
    """Convert a transformers model in place and return it.

    Args:
        model: any model whose attention goes through transformers' AttentionInterface, with attn_implementation "eager"
            or "sdpa".
        kind: "split_key", "split_value" or "split_kv".
        layers: numbers of the layers to convert, counted from 0 on each side; None: all.
        init: how own projections start; "copy" is the one there is: as those for the others.
        inputs: keyword arguments for one pass through the model; None: a small input is made.

    Raises:
        ValueError: the model cannot be converted, and is as it was.
    """
    chosen = _check_arguments(model, kind, init)
    implementation: Any = model.config._attn_implementation
    given = small_inputs(model) if inputs is None else dict(inputs)
    split: dict[str, tuple[nn.Module, Heads, list[Layout]]] = {}
    with _undisturbed(model):
        try:
            model.set_attn_implementation(NAMES[implementation])
            expected, calls = _pass(model, given)
            split = _modules(model, calls, layers)
            _convert_modules(model, split, chosen, given)
            _check_output(expected, _pass(model, given)[0])
        except FAILURES as error:
            for module, *_ in split.values():
                if isinstance(module, SplitAttention):
                    restore_module(module)
            model.set_attn_implementation(implementation)
            raise ValueError(f"{type(model).__name__} cannot be converted: {error}") from error
    _become_split(model, chosen, {name: module for name, (module, *_) in split.items()})
    return model


def revert(model: PreTrainedModel) -> PreTrainedModel:
    """Make a converted model the standard one again, in place: own projections are dropped."""
    if not isinstance(model, SplitModel):
        raise ValueError(f"model must be a converted one, got {type(model).__name__}")
    for module in split_modules(model):
        restore_module(module)
    back = {mine: theirs for theirs, mine in NAMES.items()}
    implementation = back[model.config._attn_implementation]
    original: Any = model.original_class
    _replace_config(model, original.config_class)
    del model.config.split_attention
    model.__class__ = original
    model.set_attn_implementation(implementation)
    return model


def split_modules(model: nn.Module) -> list[SplitAttention]:
    return [module for module in model.modules() if isinstance(module, SplitAttention)]


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was converted."""

    modules: int  # attention modules with own keys or values
    own_parameters: int  # of own projections
    parameters: int  # of the whole model, own projections included
    trainable: int  # those that require a gradient

    def __str__(self) -> str:
        share = 100 * self.own_parameters / max(self.parameters, 1)
        return (
            f"{self.modules} attention modules, {self.own_parameters:,} own parameters of {self.parameters:,} "
            f"({share:.1f} %), {self.trainable:,} trainable"
        )


def report(model: PreTrainedModel) -> Report:
    modules = split_modules(model)
    return Report(
        modules=len(modules),
        own_parameters=sum(parameter.numel() for module in modules for parameter in own_parameters(module)),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        trainable=sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
    )


def own_parameters(module: nn.Module) -> list[nn.Parameter]:
    """Of the own projections of one converted module."""
    parts = [getattr(module, name) for name in OWN_NAMES]
    return [parameter for part in parts if part is not None for parameter in part.parameters()]


def freeze_all_but_self(model: PreTrainedModel) -> PreTrainedModel:
    """Leave nothing trainable but own keys and values, in place."""
    modules = split_modules(model)
    if not modules:
        raise ValueError(f"model must be a converted one, got {type(model).__name__}")
    model.requires_grad_(False)
    for module in modules:
        for parameter in own_parameters(module):
            parameter.requires_grad_(True)
    return model


def _check_arguments(model: Any, kind: str, init: str) -> Kind:
    if not isinstance(model, PreTrainedModel):
        raise ValueError(f"model must be a transformers model, got {type(model).__name__}")
    if isinstance(model, SplitModel) or split_modules(model):
        raise ValueError(f"model must be one that is not converted yet, got {type(model).__name__}")
    if not type(model).__module__.startswith("transformers."):
        raise ValueError(f"model must be of a class of transformers', got {type(model).__name__}")
    kinds = [one for one in Kind if one != Kind.STANDARD]
    if kind not in kinds:
        raise ValueError(f"kind must be one of {', '.join(kinds)}, got {kind!r}")
    if init != "copy":
        raise ValueError(f'init must be "copy", got {init!r}')
    if model.config._attn_implementation not in NAMES:
        raise ValueError(
            f"attn_implementation must be one of {', '.join(NAMES)}, got {model.config._attn_implementation!r}"
        )
    if getattr(model, "hf_quantizer", None) is not None or hasattr(model, "peft_config"):
        raise ValueError(f"model must be neither quantised nor adapted, got a {type(model).__name__} that is")
    devices: Any = getattr(model, "hf_device_map", {})
    if len(set(devices.values())) > 1:
        raise ValueError("model must be on one device, got one that is spread over several")
    return Kind(kind)


@contextmanager
def _undisturbed(model: nn.Module) -> Generator[None]:
    """In eval mode and without gradients; every module is in its own mode again afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def output_of(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Tensor:
    """The first tensor of a model's output, without a cache, dropout and gradients."""
    with _undisturbed(model):
        return _pass(model, inputs)[0]


def _pass(model: PreTrainedModel, inputs: Mapping[str, Any]) -> tuple[Tensor, list[Observed]]:
    """One pass: the model's first output, and every call of its attention function."""
    calls: list[Observed] = []
    token = observed.set(calls)
    try:
        output: Any = model(**inputs, **({"use_cache": False} if hasattr(model.config, "use_cache") else {}))
    finally:
        observed.reset(token)
    first = next((value for value in output.values() if isinstance(value, Tensor)), None)
    if first is None:
        raise ValueError("its output has no tensor to compare")
    return first, calls


def _modules(
    model: PreTrainedModel, calls: Sequence[Observed], layers: Sequence[int] | None
) -> dict[str, tuple[nn.Module, Heads, list[Layout]]]:
    """The modules that attend to themselves, by name, with their sizes and the layouts to try."""
    if not calls:
        raise ValueError("its attention does not go through transformers' AttentionInterface")
    names = {module: name for name, module in model.base_model.named_modules()}
    # With a text of its own length on either side, cross-attention has other keys than queries.
    selves = {call.module: call for call in calls if call.query.shape[2] == call.key.shape[2]}
    found: dict[str, tuple[nn.Module, Heads, list[Layout]]] = {}
    numbers = set()
    for module, call in selves.items():
        if module not in names:
            raise ValueError(f"a {type(module).__name__} lies outside of the base model")
        number = _number(names[module])
        numbers.add(number)
        if layers is not None and number not in layers:
            continue
        heads = Heads(call.query.shape[1], call.key.shape[1], call.key.shape[3], call.value.shape[3])
        possible = layouts(module, heads)
        if not possible:
            raise ValueError(f"{type(module).__name__} has no plain projections of keys and values that are known")
        found[names[module]] = (module, heads, possible)
    if layers is not None and (unknown := sorted(set(layers) - numbers)):
        raise ValueError(f"layers must be numbers of layers that attend to themselves, got {unknown[0]}")
    if not found:
        raise ValueError("none of its layers attends to itself")
    return found


def _number(name: str) -> int:
    """The layer's number in a module's name; 0 where it has none."""
    match = re.search(r"\.(\d+)\.", f".{name}.")
    return int(match.group(1)) if match else 0


def _convert_modules(
    model: PreTrainedModel,
    split: dict[str, tuple[nn.Module, Heads, list[Layout]]],
    kind: Kind,
    inputs: dict[str, Any],
) -> None:
    """Convert every module by the first of its layouts that gives its own keys and values."""
    remaining = {module: (heads, list(possible)) for module, heads, possible in split.values()}
    while remaining:
        for module, (heads, possible) in remaining.items():
            split_module(module, kind, heads, possible.pop(0))
        try:
            _, calls = _pass(model, inputs)
        except FAILURES as error:
            raise ValueError(f"own keys and values cannot be computed in its modules: {error}") from error
        problems = {call.module: _problem(call) for call in calls if call.own is not None}
        for module in list(remaining):
            problem = problems.get(module, "it does not hand keyword arguments on to its attention function")
            if problem is None:
                del remaining[module]
                continue
            if not remaining[module][1]:
                raise ValueError(f"{type(module).__name__.removeprefix('Split')}: {problem}")
            restore_module(module)


def _problem(call: Observed) -> str | None:
    """Why own states are not those of the module itself, with own projections that are copies; None: they are."""
    own: Any = call.own
    for name, mine, theirs in (("keys", own.key, call.key), ("values", own.value, call.value)):
        if mine is not None and not _is_same(mine, theirs):
            return f"its {name} are made in a way that is not understood"
    return None


def _is_same(own: Tensor, other: Tensor) -> bool:
    """Bit for bit, or, of a part of a fused projection, up to the rounding of another order of sums."""
    if own.shape != other.shape:
        return False
    room = 16 * torch.finfo(other.dtype).eps * other.abs().amax()
    return torch.equal(own, other) or bool((own - other).abs().amax() <= room)


def room_for(dtype: torch.dtype) -> float:
    """The relative error up to which two outputs are the same: rounding, summed over layers."""
    return 1e-3 if torch.finfo(dtype).bits >= 32 else 0.1


def _check_output(expected: Tensor, output: Tensor) -> None:
    """The converted model must say what the original did, up to rounding."""
    error = float((output.double() - expected.double()).norm() / expected.double().norm().clamp(min=1e-30))
    if not error <= room_for(expected.dtype):
        raise ValueError(f"converted, it gives another output (relative error {error:.1e})")


def _become_split(model: PreTrainedModel, kind: Kind, modules: dict[str, Any]) -> None:
    """Give a model whose modules are converted its class, its configuration and what that says of it."""
    original: Any = type(model)
    register(original.config_class)
    _replace_config(model, config_class(original.config_class))
    model.config.split_attention = {
        "kind": str(kind),
        "model_type": original.config_class.model_type,
        "modules": {name: [list(module.self_heads), list(module.self_layout)] for name, module in modules.items()},
    }
    model.__class__ = model_class(original)


def _replace_config(model: PreTrainedModel, new_class: type) -> None:
    """Another class for the model's configuration. It is a copy's, for other models may share the one there was."""
    old = model.config
    new = deepcopy(old)
    new.__class__ = new_class
    parts: Any = model.modules()
    for module in parts:
        if getattr(module, "config", None) is old:
            module.config = new
