"""From measured rows to the table that `auto` chooses by: `twofold bench attention --tune`."""

import statistics
from collections import defaultdict

from twofold.kernels.choices import BACKENDS, Line

Key = tuple[str, str, str, bool, int]  # the first five fields of a line


def lines_of(rows: list[dict], device: str) -> list[Line]:
    """For every (dtype, causal, head width), the fastest backend at each length, forward + backward.

    If a length was measured with several groupings of heads, the mean of their ratios to standard attention decides.
    """
    ratios: dict[Key, dict[int, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in rows:
        if (row["pass"], row["kind"]) == ("fwd+bwd", "split_kv") and row["split_backend"] in BACKENDS:
            machine = row.get("gpu", row.get("cpu"))
            line = (machine, device, row["dtype"], row["causal"], row["D"])
            ratios[line][row["T"]][row["split_backend"]].append(row["ratio"])
    lines = []
    for line, lengths in sorted(ratios.items()):
        tokens = sorted(lengths)
        best = [
            min(lengths[length], key=lambda name, at=lengths[length]: statistics.mean(at[name])) for length in tokens
        ]
        lines.append(Line(*line, tuple(tokens), tuple(best)))
    return lines


def merged(old: list[Line], new: list[Line]) -> list[Line]:
    """The lines of both; a length in both takes the new backend."""
    lengths: dict[Key, dict[int, str]] = defaultdict(dict)
    for line in (*old, *new):
        lengths[line[:5]].update(zip(line.tokens, line.backends, strict=True))
    return [
        Line(*line, tuple(sorted(backends)), tuple(backends[length] for length in sorted(backends)))
        for line, backends in sorted(lengths.items())
    ]
