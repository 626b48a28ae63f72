"""`twofold bench attention`: the function alone, the choice of a backend, and the table behind that choice."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from twofold.bench.attention import Case, explain, rows_of
from twofold.bench.tune import lines_of, merged
from twofold.cli import say
from twofold.cli.arguments import parse
from twofold.cli.bench.results import BenchOptions, check_file, check_named, check_positive, measure, times_table
from twofold.kernels.choices import BACKENDS, LINES, write

# batch, query heads, key/value heads, tokens, head width
SUITE = [
    (16384 // tokens, heads, heads // group, tokens, width)
    for tokens, heads, width in (
        (256, 12, 64),
        (512, 12, 64),
        (1024, 12, 64),
        (2048, 16, 128),
        (4096, 16, 128),
        (8192, 16, 128),
        (16384, 16, 128),
    )
    for group in (1, 4)
]


@dataclass(frozen=True, kw_only=True)
class Attention(BenchOptions):
    """Measure split attention against the fastest standard attention of this machine.

    Every combination of the lists is measured, forward alone and forward with backward. A ratio is the split's time
    divided by the standard's in the same run. On a GPU "ratio" is the device's time, and "eager" the wall time of calls
    from Python, with the launching of kernels.
    """

    tokens: tuple[int, ...] = (1024, 4096)
    """Sequence lengths T."""
    batch: int = 1
    """Sequences B."""
    patterns: tuple[Literal["causal", "full"], ...] = ("causal", "full")
    """Who sees whom."""
    backends: tuple[Literal["reference", "columns", "dense", "shifted", "triton", "flex"], ...] = (
        "shifted",
        "dense",
        "columns",
        "flex",
    )
    """Backends to measure, besides the one that `auto` takes; one that cannot serve a case is left out. flex: PyTorch's
    FlexAttention, compiled, on GPUs."""
    suite: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Measure the shapes of the GPU results, 256 to 16384 tokens, whatever --tokens, --batch and --heads say."""
    explain: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Measure nothing; print which backend `auto` takes for each case, and why."""
    tune: Path | None = None
    """Write the table that `auto` chooses by, updated by this run, to this file. TWOFOLD_CHOICES=FILE uses it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(tokens=self.tokens, batch=(self.batch,))
        check_named(patterns=self.patterns)
        if self.tune is not None and "split_kv" not in self.kinds:
            raise ValueError(f"kinds must hold split_kv, which --tune compares, got {', '.join(self.kinds)}")
        check_file("tune", self.tune)
        for name in ("tune", "out"):
            if self.explain and getattr(self, name) is not None:
                raise ValueError(f"{name} must be left out beside --explain, which measures nothing")

    def cases(self) -> list[Case]:
        shapes = [(self.batch, self.heads, self.key_heads, tokens, self.head_width) for tokens in self.tokens]
        return [
            Case(
                batch=batch,
                heads=heads,
                kv_heads=kv_heads,
                tokens=tokens,
                head_width=head_width,
                causal=pattern == "causal",
                kind=kind,
                dtype=self.dtype,
                device=torch.device(self.device),
            )
            for (batch, heads, kv_heads, tokens, head_width), pattern, kind in product(
                SUITE if self.suite else shapes, self.patterns, self.kinds
            )
        ]


def run(words: Sequence[str]) -> int:
    chosen = parse(Attention, words, "twofold bench attention")
    if chosen.explain:
        return _explain(chosen)
    # --tune compares every backend that the table may name.
    backends = [*chosen.backends, *(BACKENDS if chosen.tune is not None else ())]
    left_out: list[str] = []
    works = [
        (
            f"T={case.tokens} {'causal' if case.causal else 'full'} {case.kind}",
            partial(rows_of, case, rounds=chosen.rounds, backends=backends, left_out=left_out.append),
        )
        for case in chosen.cases()
    ]
    results = measure(chosen, works, times_table, left_out)
    if chosen.tune is not None:
        write(chosen.tune, merged(LINES, lines_of(results["rows"], chosen.device)))
    return 0


def _explain(chosen: Attention) -> int:
    rows = [{**_shape(case), "choice": explain(case)} for case in chosen.cases()]
    if chosen.json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return 0
    for row in rows:
        pattern = "causal" if row["causal"] else "full"
        say(f"{row['kind']} {pattern} T={row['T']} {row['dtype']} -> {row['choice']}")
    return 0


def _shape(case: Case) -> dict[str, object]:
    return {
        "kind": case.kind,
        "B": case.batch,
        "H": case.heads,
        "Hkv": case.kv_heads,
        "T": case.tokens,
        "D": case.head_width,
        "causal": case.causal,
        "dtype": case.dtype,
    }
