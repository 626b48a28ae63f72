"""`twofold bench`: measure on this machine; a table for people, JSON for programs."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from twofold.bench.attention import Case, explain, rows_of
from twofold.bench.machine import machine
from twofold.cli.arguments import parse

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
BENCHES = {"attention": "the attention function alone"}


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Measure split attention against the fastest standard attention of this machine.

    Every combination of the lists is measured, forward alone and forward with backward. A ratio is the split's time
    divided by the standard's, both taken in turn in the same run.
    """

    tokens: tuple[int, ...] = (1024, 4096)
    """Sequence lengths T."""
    batch: int = 1
    """Sequences B."""
    heads: int = 8
    """Query heads H."""
    kv_heads: int | None = None
    """Key/value heads Hkv; as many as query heads unless given."""
    head_width: int = 64
    """Width D of a head."""
    kinds: tuple[Literal["split_key", "split_value", "split_kv"], ...] = ("split_kv",)
    """What is split."""
    patterns: tuple[Literal["causal", "full"], ...] = ("causal", "full")
    """Who sees whom."""
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    """Number format of the tensors."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where to run."""
    backends: tuple[Literal["reference", "columns", "shifted", "triton"], ...] = ("shifted", "columns")
    """Backends to measure, besides the one that `auto` takes; one that cannot serve a case is left out."""
    suite: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Measure the shapes of the GPU results instead of --tokens, --batch, --heads and --head-width: 16k tokens a batch,
    from 64 sequences of 256 to one of 16384, with as many key/value heads as query heads and with a quarter."""
    rounds: int = 10
    """How often everything is timed; the median is reported."""
    out: Path | None = None
    """Write machine and rows to this JSON file."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print JSON instead of a table."""
    explain: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Measure nothing; say which backend `auto` takes for each case, and why."""

    def __post_init__(self) -> None:
        for name in ("batch", "heads", "head_width", "rounds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.tokens or min(self.tokens) < 1:
            raise ValueError(f"tokens must be at least 1, got {self.tokens}")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device cuda was asked for, but torch finds no GPU here")
        kv_heads = self.heads if self.kv_heads is None else self.kv_heads
        if kv_heads < 1 or self.heads % kv_heads:
            raise ValueError(f"kv-heads must divide heads {self.heads}, got {kv_heads}")
        if self.out is not None and not self.out.parent.is_dir():
            raise ValueError(f"out must lie in an existing folder, got {self.out}")

    def cases(self) -> list[Case]:
        kv_heads = self.heads if self.kv_heads is None else self.kv_heads
        shapes = [(self.batch, self.heads, kv_heads, tokens, self.head_width) for tokens in self.tokens]
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
    if not words or words[0] in ("-h", "--help"):
        lines = "\n".join(f"  {name:<12} {what}" for name, what in BENCHES.items())
        sys.stdout.write(f"usage: twofold bench WHAT ...\n\n{lines}\n\n`twofold bench WHAT --help` explains one.\n")
        return 0 if words else 2
    if words[0] not in BENCHES:
        raise ValueError(f"unknown bench {words[0]!r}; there are: {', '.join(BENCHES)}")
    try:
        chosen = parse(Attention, words[1:], "twofold bench attention")
    except SystemExit:
        return 0
    return _explain(chosen) if chosen.explain else _measure(chosen)


def _explain(chosen: Attention) -> int:
    found = [{**_shape(case), "choice": explain(case)} for case in chosen.cases()]
    if chosen.json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return 0
    for row in found:
        pattern = "causal" if row["causal"] else "full"
        sys.stdout.write(f"{row['kind']} {pattern} T={row['T']} {row['dtype']} -> {row['choice']}\n")
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


def _measure(chosen: Attention) -> int:
    cases, rows = chosen.cases(), []
    columns = (*Progress.get_default_columns(), TimeElapsedColumn(), TextColumn("{task.fields[case]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=len(cases), case="")
        for case in cases:
            progress.update(task, case=f"T={case.tokens} {'causal' if case.causal else 'full'} {case.kind}")
            try:
                rows.extend(rows_of(case, rounds=chosen.rounds, backends=list(chosen.backends)))
            except torch.OutOfMemoryError as error:
                raise ValueError(f"out of memory at T={case.tokens}: {error}") from None
            progress.advance(task)
    results = {"machine": machine(torch.device(chosen.device)), "rows": rows}
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(results, indent=1) + "\n")
    if chosen.json:
        sys.stdout.write(json.dumps(results, indent=1) + "\n")
    else:
        _show(results)
    return 0


def _show(results: dict) -> None:
    where = results["machine"]
    table = Table(
        title=f"{where['gpu'] or where['cpu']}, {where['threads']} threads, torch {where['torch']}, milliseconds",
        caption="ratio: split / standard, ± distance between quartiles. MB: split's peak. *: what auto takes.",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for name in ("T", "pattern", "kind", "pass", "backend", "standard", "split", "ratio", "MB"):
        justify = "left" if name in ("pattern", "kind", "pass", "backend") else "right"
        table.add_column(name, justify=justify, no_wrap=True)
    for row in results["rows"]:
        table.add_row(
            str(row["T"]) if row["H"] == row["Hkv"] else f"{row['T']} {row['H']}:{row['Hkv']}",
            "causal" if row["causal"] else "full",
            row["kind"],
            row["pass"],
            row["split_backend"] + ("*" if row["chosen"] else ""),
            f"{row['standard_ms']:.2f}",
            f"{row['split_ms']:.2f}",
            f"{row['ratio']:.2f} ±{row['spread']:.2f}",
            f"{row['peak_bytes'] / 1e6:.0f}",
        )
    Console().print(table)
