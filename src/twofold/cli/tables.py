"""Tables for people."""

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from twofold.cli import output

# A file or another program has no width to break lines at.
WIDE = 1000


def scores_table(scores: Mapping[str, float], title: str) -> Group:
    """A line and the scores below it. A table's own title would be broken to the table's width."""
    table = Table(box=None, show_header=False)
    for name, value in scores.items():
        table.add_row(name.replace("_", " "), f"{value:.4g}")
    return Group(Text(title, style="italic"), table)


def show(table: Any) -> None:
    # Names are a user's, and brackets in them mean nothing.
    with output() as file:
        Console(markup=False, width=None if sys.stdout.isatty() else WIDE, file=file).print(table)
