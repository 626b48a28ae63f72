"""Twofold: split key/value self-attention.

Every token has one key and value for itself and another for everyone else. This file names what is public and
knows nothing else: a name imports its module (and with it torch) on first use, so `import twofold` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from twofold.extras import OF_NAMES, library_of, not_installed

if TYPE_CHECKING:
    from twofold.attention.split import SplitSelfAttention as SplitSelfAttention
    from twofold.kernels.api import self_weight as self_weight
    from twofold.kernels.api import split_attention as split_attention
    from twofold.kernels.api import split_attention_weights as split_attention_weights
    from twofold.retrofit.convert import convert as convert
    from twofold.retrofit.loading import load as load
    from twofold.tasks.runs import open_run as open_run
    from twofold.training.run import train as train

__version__ = "0.1.0"

_HOMES = {
    "split_attention": "twofold.kernels.api",
    "split_attention_weights": "twofold.kernels.api",
    "self_weight": "twofold.kernels.api",
    "SplitSelfAttention": "twofold.attention.split",
    "convert": "twofold.retrofit.convert",
    "load": "twofold.retrofit.loading",
    "open_run": "twofold.tasks.runs",
    "train": "twofold.training.run",
}

__all__ = [
    "SplitSelfAttention",
    "convert",
    "load",
    "open_run",
    "self_weight",
    "split_attention",
    "split_attention_weights",
    "train",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'twofold' has no attribute {name!r}")
    try:
        found = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        library = library_of(error)
        if name not in OF_NAMES or library == "twofold":
            raise
        raise ImportError(not_installed(library, OF_NAMES[name])) from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
