"""From transformers' `rope_parameters` to rotary positions: their base, and how they are stretched beyond a length."""

import math
from typing import Any

from twofold.attention.rotary import Interpolation, Llama3, Rotary, Scaling, Yarn

# Parameters that a type must have, and those it may have.
REQUIRED: dict[str, set[str]] = {
    "default": set(),
    "linear": {"factor"},
    "llama3": {"factor", "low_freq_factor", "high_freq_factor"},
    "yarn": {"factor"},
}
OPTIONAL: dict[str, set[str]] = {
    "default": set(),
    "linear": set(),
    "llama3": {"original_max_position_embeddings"},
    "yarn": {
        *("original_max_position_embeddings", "beta_fast", "beta_slow", "truncate"),
        *("attention_factor", "mscale", "mscale_all_dim"),
    },
}


def rotary_of(config: Any) -> Rotary:
    """The rotary positions that a config asks for; whatever cannot be done exactly as asked for is a ValueError."""
    parameters = {name: value for name, value in (config.rope_parameters or {}).items() if value is not None}
    # The old name, kept beside the new one by transformers.
    old = parameters.pop("type", "default")
    kind = parameters.pop("rope_type", old)
    if not isinstance(kind, str) or kind not in REQUIRED:
        raise ValueError(f"rope_type must be one of {', '.join(REQUIRED)}, got {kind!r}")
    base = parameters.pop("rope_theta", config.rope_theta)
    for name, value in {"rope_theta": base, **parameters}.items():
        if name != "truncate" and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"{name} of rope_parameters must be a number, got {value!r}")
    if base != config.rope_theta:
        raise ValueError(f"rope_theta must be the same in rope_parameters ({base}) and beside, got {config.rope_theta}")
    if lacking := REQUIRED[kind] - parameters.keys():
        raise ValueError(f"rope_parameters of type {kind} must have {_list(lacking)}, got {_list(parameters)}")
    if unknown := parameters.keys() - REQUIRED[kind] - OPTIONAL[kind]:
        allowed = REQUIRED[kind] | OPTIONAL[kind]
        raise ValueError(f"rope_parameters of type {kind} may have {_list(allowed)}, got {_list(unknown)}")
    return Rotary(width=config.head_dim, base=base, scaling=_scaling(kind, parameters, config.max_position_embeddings))


def _scaling(kind: str, parameters: dict[str, Any], longest: int) -> Scaling | None:
    length = parameters.get("original_max_position_embeddings", longest)
    match kind:
        case "linear":
            return Interpolation(factor=parameters["factor"])
        case "llama3":
            low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
            return Llama3(factor=parameters["factor"], original_length=length, low=low, high=high)
        case "yarn":
            options = {name: parameters[name] for name in ("beta_fast", "beta_slow", "truncate") if name in parameters}
            return Yarn(
                factor=parameters["factor"], original_length=length, attention_factor=_sharpness(parameters), **options
            )
    return None


def _sharpness(parameters: dict[str, Any]) -> float | None:
    """YaRN's scale of cos and sin: as given, or DeepSeek's quotient of two, or None for the paper's."""
    if "attention_factor" in parameters or not (parameters.get("mscale") and parameters.get("mscale_all_dim")):
        return parameters.get("attention_factor")
    over, under = (0.1 * parameters[name] * math.log(parameters["factor"]) + 1 for name in ("mscale", "mscale_all_dim"))
    return over / under


def _list(names: Any) -> str:
    return ", ".join(sorted(names)) or "nothing"
