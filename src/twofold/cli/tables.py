"""Tables for people."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table


def scores_table(scores: Mapping[str, float], title: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, show_header=False)
    for name, value in scores.items():
        table.add_row(name.replace("_", " "), f"{value:.4g}")
    return table


def show(table: Any) -> None:
    # Names are a user's, and brackets in them mean nothing.
    Console(markup=False).print(table)
