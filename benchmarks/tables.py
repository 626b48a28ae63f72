"""The results files as the Markdown tables of README.md and docs/results.md.

    .venv/bin/python benchmarks/tables.py benchmarks/results/*.json

Prints what `auto` takes: ratio of split to standard, forward + backward (forward alone in brackets), with the spread.
"""

import json
import sys
from pathlib import Path


def table(path):
    results = json.loads(Path(path).read_text())
    rows = [row for row in results["rows"] if row["chosen"]]
    lengths = sorted({row["T"] for row in rows})
    machine = results["machine"]
    print(f"\n{machine['gpu'] or machine['cpu']}, torch {machine['torch']}, {rows[0]['dtype']} ({Path(path).name})\n")
    print("| T |", " | ".join(map(str, lengths)), "|")
    print("|---" * (len(lengths) + 1) + "|")
    groups = sorted({row["H"] // row["Hkv"] for row in rows})
    for causal in (True, False):
        for group in groups:
            cells = []
            for length in lengths:
                found = {
                    row["pass"]: row
                    for row in rows
                    if (row["causal"], row["T"], row["H"] // row["Hkv"]) == (causal, length, group)
                }
                both, forward = found["fwd+bwd"], found["fwd"]
                cells.append(f"{both['ratio']:.2f} ± {both['spread']:.2f} ({forward['ratio']:.2f})")
            name = ("causal" if causal else "full") + (f", {group} query heads a key head" if group > 1 else "")
            print(f"| {name} |", " | ".join(cells), "|")


if __name__ == "__main__":
    for path in sys.argv[1:]:
        table(path)
