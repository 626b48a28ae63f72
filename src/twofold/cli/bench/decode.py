"""`twofold bench decode`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch

from twofold.bench.decode import rows_of
from twofold.bench.models import standard_config
from twofold.cli.arguments import parse
from twofold.cli.bench.results import BenchOptions, check_positive, measure, speeds_table


@dataclass(frozen=True, kw_only=True)
class Decode(BenchOptions):
    """Measure how many tokens per second a small decoder generates with a cache, split against standard.

    Parameters and the cache, a static one of transformers, are equal. Standard is the faster of two: run as the split
    model is, or by torch's fastest attention without a mask. The GPU results use --device cuda
    --dtype bfloat16 --layers 12 --heads 12 --context 1024 4096 32768, with --batch 1 and with --batch 32.
    """

    layers: int = 2
    """Transformer layers."""
    batch: tuple[int, ...] = (1,)
    """Sequences B generated at once."""
    context: tuple[int, ...] = (256,)
    """Tokens already in the cache."""
    vocabulary: int = 32_768
    """Different tokens."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(layers=(self.layers,), batch=self.batch, context=self.context, vocabulary=(self.vocabulary,))


def run(words: Sequence[str]) -> int:
    chosen = parse(Decode, words, "twofold bench decode")
    config = standard_config(
        heads=chosen.heads, kv_heads=chosen.key_heads, head_width=chosen.head_width, layers=chosen.layers,
        vocabulary=chosen.vocabulary,
    )  # fmt: skip
    options: dict[str, Any] = {"dtype": chosen.dtype, "device": torch.device(chosen.device), "rounds": chosen.rounds}
    works = [
        (f"B={batch} context={context}", partial(rows_of, config, batch=batch, context=context, kind=kind, **options))
        for batch, context, kind in product(chosen.batch, chosen.context, chosen.kinds)
    ]
    measure(chosen, works, partial(speeds_table, fields=("B", "context")))
    return 0
