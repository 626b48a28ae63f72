"""What the benches share: options, a progress bar, a results file, and JSON or a table as output."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from twofold.machine import machine
from twofold_runtime.folder import write_whole

Rows = Iterator[dict[str, object]]


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """Options of every bench."""

    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    """Number format of the tensors."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where to run."""
    rounds: int = 10
    """How often each contender is timed; the median is reported."""
    out: Path | None = None
    """Write machine and rows to this JSON file."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print JSON instead of a table."""

    heads: int = 8
    """Query heads H; the model is H x D wide."""
    kv_heads: int | None = None
    """Key/value heads Hkv; as many as query heads unless given."""
    head_width: int = 64
    """Width D of a head."""
    kinds: tuple[Literal["split_key", "split_value", "split_kv"], ...] = ("split_kv",)
    """What is split."""

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device cuda was asked for, but torch finds no GPU here")
        check_file("out", self.out)
        check_named(kinds=self.kinds)
        check_positive(heads=(self.heads,), head_width=(self.head_width,))
        if self.key_heads < 1 or self.heads % self.key_heads:
            raise ValueError(f"kv-heads must divide heads {self.heads}, got {self.key_heads}")

    @property
    def key_heads(self) -> int:
        """Key/value heads with their default filled in."""
        return self.heads if self.kv_heads is None else self.kv_heads


def check_file(name: str, path: Path | None) -> None:
    """Checked before measuring, which may take hours: ValueError unless this file can be written."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise ValueError(f"{name} must be a file in an existing folder, got {path}")


def check_named(**options: tuple[str, ...]) -> None:
    """ValueError for an option without any value: there would be nothing to measure."""
    for name, values in options.items():
        if not values:
            raise ValueError(f"{name} must name at least one, got none")


def check_positive(**options: tuple[int, ...]) -> None:
    for name, numbers in options.items():
        if not numbers or min(numbers) < 1:
            raise ValueError(f"{name} must be at least 1, got {', '.join(map(str, numbers)) or 'none'}")


def measure(
    chosen: BenchOptions,
    works: Sequence[tuple[str, Callable[[], Rows]]],
    show: Callable[[Iterable[dict]], Table],
    left_out: Sequence[str] = (),
) -> dict:
    """Run every (name, work) under a progress bar; write and print the rows.

    left_out: what the works could not measure and why, filled by them; printed to stderr.
    """
    rows: list[dict] = []
    columns = (*Progress.get_default_columns(), TimeElapsedColumn(), TextColumn("{task.fields[now]}"))
    results = {"machine": machine(torch.device(chosen.device)), "rows": rows}
    try:
        console = Console(stderr=True)
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("measuring", total=len(works), now="")
            for name, work in works:
                progress.update(task, now=name)
                try:
                    rows.extend(work())
                except torch.OutOfMemoryError as error:
                    raise ValueError(f"out of memory at {name}: {error}") from None
                progress.advance(task)
    finally:
        # The rows so far are kept whatever stops it.
        if chosen.out is not None and rows:
            write_whole(chosen.out, json.dumps(results, indent=1) + "\n")
    if chosen.json:
        sys.stdout.write(json.dumps(results, indent=1) + "\n")
    else:
        shown = show(rows)
        where = results["machine"]
        shown.title = f"{where['gpu'] or where['cpu']}, {where['threads']} threads, torch {where['torch']}"
        Console().print(shown)
    for reason in dict.fromkeys(left_out):
        sys.stderr.write(f"twofold: {reason}\n")
    return results


def table(caption: str, *columns: str) -> Table:
    """An empty table; columns whose names begin with "-" are aligned left, the others right."""
    empty = Table(caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in columns:
        empty.add_column(name.lstrip("-"), justify="left" if name.startswith("-") else "right", no_wrap=True)
    return empty


def times_table(rows: Iterable[dict]) -> Table:
    """Milliseconds of attention or layers; with a column of eager ratios where they differ from the device's."""
    rows = list(rows)
    has_eager = any("gpu" in row and "eager_ratio" in row for row in rows)
    caption = (
        "milliseconds. ratio: split / standard, ± distance between quartiles. MB: split's peak. *: what auto takes."
    )
    columns = ["T", "-pattern", "-kind", "-pass", "-backend", "standard", "split", "ratio", "MB"]
    times = table(caption, *columns, *(["eager"] if has_eager else []))
    for row in rows:
        times.add_row(
            str(row["T"]) if row["H"] == row["Hkv"] else f"{row['T']} {row['H']}:{row['Hkv']}",
            "causal" if row["causal"] else "full",
            row["kind"],
            row["pass"],
            row["split_backend"] + ("*" if row["chosen"] else ""),
            f"{row['standard_ms']:.2f}",
            f"{row['split_ms']:.2f}",
            f"{row['ratio']:.2f} ±{row['spread']:.2f}",
            f"{row['peak_bytes'] / 1e6:.0f}",
            *([f"{row['eager_ratio']:.2f} ±{row['eager_spread']:.2f}"] if has_eager else []),
        )
    return times


def speeds_table(rows: Iterable[dict], fields: tuple[str, ...]) -> Table:
    """Tokens per second of training or generation."""
    caption = "tokens per second. ratio: split / standard, ± distance between quartiles."
    speeds = table(caption, *fields, "-kind", "standard", "split", "ratio")
    for row in rows:
        speeds.add_row(
            *(str(row[field]) for field in fields),
            row["kind"],
            f"{row['standard_tokens_per_s']:,.0f}",
            f"{row['split_tokens_per_s']:,.0f}",
            f"{row['ratio']:.3f} ±{row['spread']:.3f}",
        )
    return speeds
