"""`twofold bench layer`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Literal

import torch
import tyro

from twofold.bench.layer import LayerCase, rows_of
from twofold.bench.models import standard_config
from twofold.cli.arguments import parse
from twofold.cli.bench.attention import SUITE
from twofold.cli.bench.results import BenchOptions, check_named, check_positive, measure, times_table


@dataclass(frozen=True, kw_only=True)
class Layer(BenchOptions):
    """Measure one compiled transformer layer, split against standard at equal parameters.

    A layer is norm, projections, QK-norm, rotary positions, attention and output, then norm and a feed-forward of two
    matrices. Standard has a feed-forward four times as wide as the model; the split one's is narrower by what its own
    keys and values cost, so both have the same number of parameters.
    """

    tokens: tuple[int, ...] = (1024,)
    """Sequence lengths T."""
    batch: int = 1
    """Sequences B."""
    patterns: tuple[Literal["causal", "full"], ...] = ("causal", "full")
    """Who sees whom."""
    suite: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Measure the shapes of the GPU results, with as many key/value heads as query heads: 16k tokens a batch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(tokens=self.tokens, batch=(self.batch,))
        check_named(patterns=self.patterns)

    def cases(self) -> list[LayerCase]:
        shapes = [(self.batch, self.heads, self.key_heads, tokens, self.head_width) for tokens in self.tokens]
        if self.suite:
            shapes = [shape for shape in SUITE if shape[1] == shape[2]]
        return [
            LayerCase(
                batch=batch,
                config=standard_config(heads=heads, kv_heads=kv_heads, head_width=width),
                tokens=tokens,
                causal=pattern == "causal",
                kind=kind,
                dtype=self.dtype,
                device=torch.device(self.device),
            )
            for (batch, heads, kv_heads, tokens, width), pattern, kind in product(shapes, self.patterns, self.kinds)
        ]


def run(words: Sequence[str]) -> int:
    chosen = parse(Layer, words, "twofold bench layer")
    works = [
        (f"T={case.tokens} {'causal' if case.causal else 'full'}", partial(rows_of, case, rounds=chosen.rounds))
        for case in chosen.cases()
    ]
    measure(chosen, works, times_table)
    return 0
