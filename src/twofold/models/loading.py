"""Models back from where they were saved. A config.json chooses among the names below, and runs no code."""

import json
import math
from collections.abc import Generator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils import logging

from twofold.models import AUTO
from twofold.models.layers import SelfAttention

ARCHITECTURES: dict[str, type[PreTrainedModel]] = {
    model.__name__: model for classes in AUTO.values() for model in classes.values()
}
# What transformers raises for a folder whose files say what cannot be.
UNREADABLE = (
    StrictDataclassError, AssertionError, AttributeError, ImportError, LookupError, OSError, RuntimeError, TypeError,
)  # fmt: skip
CONFIG, WEIGHTS, SHARDS = "config.json", "model.safetensors", "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
# Ways to compute attention that are part of torch and transformers.
ATTENTIONS = ("eager", "sdpa")


def load(path: Path | str, *, attention_class: type[SelfAttention] | None = None) -> PreTrainedModel:
    """The model that `twofold train` or `save_pretrained` wrote into a folder, ready to predict.

    attention_class: the class that computed attention, where that was one of your own; config.json has its name.
    """
    folder = Path(path)
    names = json_of(_folder(folder) / CONFIG).get("architectures")
    if not isinstance(names, list) or len(names) != 1 or str(names[0]) not in ARCHITECTURES:
        raise ValueError(
            f"{folder / CONFIG}: architectures must name one of ours, as DecoderForCausalLM, got {names!r}"
        )
    return load_as(folder, ARCHITECTURES[names[0]], attention_class=attention_class)


def load_as(
    path: Path | str, model_class: type[PreTrainedModel], *, attention_class: type[SelfAttention] | None = None
) -> PreTrainedModel:
    """The model in a folder, known to be of a class. Its file must hold all its weights and no others."""
    folder = Path(path)
    fields = json_of(_folder(folder) / CONFIG)
    _check_attention(fields, folder / CONFIG)
    if (folder / ADAPTER).exists():
        raise ValueError(f"{folder} holds an adapter ({ADAPTER}): open it with peft, or merge it into its model")
    shapes: dict[str, list[int]] = {}
    for file in _weight_files(folder):
        shapes |= _shapes(file)
    _check_counts(fields, shapes, folder / CONFIG)
    # Recurrent models do not take the argument.
    parts: dict[str, Any] = {} if attention_class is None else {"attention_class": attention_class}
    config_class: Any = model_class.config_class
    try:
        # The class is known. Goals and embeddings had the encoder's model_type before November 2026.
        config = config_class.from_dict(fields | {"model_type": config_class.model_type})
        _check_size(model_class, config, parts, shapes, folder / CONFIG)
        with without_bars():
            loaded: Any = model_class.from_pretrained(
                folder, config=config, local_files_only=True, use_safetensors=True, output_loading_info=True, **parts
            )
    except UNREADABLE as error:
        raise ValueError(f"{folder} holds no {model_class.__name__}: {error}") from error
    model, info = loaded
    for what, problem in (("missing_keys", "lacks"), ("unexpected_keys", "has, beyond the model,")):
        if names := sorted(info[what]):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise ValueError(f"{folder / WEIGHTS} {problem} {names[0]}{more}: {CONFIG} is that of another model")
    return model.eval()


def device_named(name: str) -> torch.device:
    """ "cpu", "cuda", or "auto": a GPU if there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device must be one of auto, cpu, cuda, got {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be cpu or auto where torch sees no GPU, got 'cuda'")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


@contextmanager
def without_bars() -> Generator[None]:
    """transformers draws bars while it reads and writes; a library does not."""
    were_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if were_on:
            logging.enable_progress_bar()


def _folder(folder: Path) -> Path:
    if not folder.is_dir():
        raise ValueError(f"path must be a folder with a saved model, got {folder}, which is none")
    return folder


def json_of(file: Path) -> dict[str, Any]:
    """What a JSON file of a saved model holds."""
    if not file.is_file():
        raise ValueError(f"{file.parent} holds no model: it has no {file.name}")
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not readable: {error}") from error
    if not isinstance(fields, dict):
        raise ValueError(f"{file} must hold a JSON object, got {type(fields).__name__}")
    return fields


def _check_attention(fields: Any, file: Path) -> None:
    """What computes attention is chosen by name, also inside of parts; a name of the hub's would be fetched and run."""
    parts = [fields]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts.extend(part)
        elif isinstance(part, dict):
            for name, value in part.items():
                if name.endswith("attn_implementation") and value not in (None, *ATTENTIONS):
                    raise ValueError(f"{file}: {name} must be one of {', '.join(ATTENTIONS)}, got {value!r}")
            parts.extend(part.values())


def _weight_files(folder: Path) -> list[Path]:
    """The file with the weights, or all of them where they are several."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if not (folder / SHARDS).is_file():
        raise ValueError(f"{folder} holds no weights: it has no {WEIGHTS}")
    parts = json_of(folder / SHARDS).get("weight_map")
    if not isinstance(parts, dict) or not parts:
        raise ValueError(f"{folder / SHARDS} has no weight_map")
    for name in parts.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise ValueError(f"{folder / SHARDS} must name files of its own folder, got {name!r}")
    return [folder / name for name in sorted(set(parts.values()))]


def _shapes(file: Path) -> dict[str, list[int]]:
    """Shapes of a file's tensors, from its header alone. It says how long the file must be, so a cut one is noticed."""
    if not file.is_file():
        raise ValueError(f"{file.parent} has no {file.name}, which its {SHARDS} names")
    try:
        with safe_open(file, framework="pt") as weights:
            return {name: weights.get_slice(name).get_shape() for name in weights.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{file} is damaged or cut off: {error}") from error


def _check_counts(config: Any, shapes: dict[str, list[int]], file: Path) -> None:
    """Refuse counts of layers and labels that the weights cannot bear: merely to read them would take all memory.

    Each layer has a tensor at least, and each label a row of one.
    """
    longest = max((size for shape in shapes.values() for size in shape), default=0)
    limits = {"layer": len(shapes), "depth": len(shapes), "label": longest, "expert": max(len(shapes), longest)}
    parts = [("", config)]
    while parts:
        name, part = parts.pop()
        if isinstance(part, dict):
            # Names of labels and of modules are no counts.
            parts.extend((key, value) for key, value in part.items() if key not in ("label2id", "split_attention"))
        elif isinstance(part, list):
            parts.extend((name, value) for value in part)
        elif isinstance(part, int):
            for word, limit in limits.items():
                if word in name and part > limit:
                    raise ValueError(f"{file}: {name} must be at most {limit}, as the weights are, got {part}")


def _check_size(
    model_class: type[PreTrainedModel], config: Any, parts: dict[str, Any], shapes: dict[str, list[int]], file: Path
) -> None:
    """Refuse a configuration of a far greater model than the weights, before any memory is taken for it.

    Smaller differences are told in detail once the weights are read, and cost no more memory than those.
    """
    with torch.device("meta"), init.meta_device_safe_creation_ops(), init.no_init_weights():
        model = model_class(deepcopy(config), **parts)
        model.tie_weights()
    needed, held = model.num_parameters(), sum(math.prod(shape) for shape in shapes.values())
    if needed > 2 * held:
        raise ValueError(f"{file} is that of a model of {needed} parameters, its weights are of {held}")
