"""`twofold bench training`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import torch
import tyro

from twofold.bench.models import standard_config
from twofold.bench.training import rows_of
from twofold.cli.arguments import parse
from twofold.cli.bench.results import BenchOptions, check_positive, measure, speeds_table


@dataclass(frozen=True, kw_only=True)
class Training(BenchOptions):
    """Measure how many tokens per second a small decoder trains on, split against standard at equal parameters.

    Forward, backward and AdamW, compiled, in mixed precision unless --dtype is float32. The GPU results use
    --device cuda --dtype bfloat16 --layers 12 --heads 12 --tokens 1024 --batch 16.
    """

    layers: int = 2
    """Transformer layers."""
    tokens: int = 256
    """Sequence length T."""
    batch: int = 4
    """Sequences B of a step."""
    vocabulary: int = 32_768
    """Different tokens."""
    eager: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Compile nothing and take the wall time of steps, with the time in which Python launches kernels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(layers=(self.layers,), batch=(self.batch,))
        if self.dtype not in ("float32", "bfloat16"):
            raise ValueError(f"dtype must be float32 or, for mixed precision, bfloat16, got {self.dtype}")
        if self.tokens < 2 or self.vocabulary < 2:
            raise ValueError(f"tokens and vocabulary must be at least 2, got {self.tokens} and {self.vocabulary}")


def run(words: Sequence[str]) -> int:
    chosen = parse(Training, words, "twofold bench training")
    config = standard_config(
        heads=chosen.heads, kv_heads=chosen.key_heads, head_width=chosen.head_width, layers=chosen.layers,
        vocabulary=chosen.vocabulary,
    )  # fmt: skip
    options: dict[str, Any] = {
        "batch": chosen.batch, "tokens": chosen.tokens, "dtype": chosen.dtype, "device": torch.device(chosen.device),
        "rounds": chosen.rounds, "eager": chosen.eager,
    }  # fmt: skip
    works = [(kind, partial(rows_of, config, kind=kind, **options)) for kind in chosen.kinds]
    measure(chosen, works, partial(speeds_table, fields=("T", "B")))
    return 0
