"""The results files as the Markdown tables of README.md and docs/results.md.

    .venv/bin/python benchmarks/tables.py benchmarks/results/*.json

Of attention and layers: what `auto` takes, ratio of split to standard time, forward + backward (attention: forward
alone in brackets), with the spread. Of training and generation: ratio of tokens a second.
"""

import json
import sys
from pathlib import Path


def times(rows):
    rows = [row for row in rows if row["chosen"] and row["kind"] == "split_kv"]
    lengths = sorted({row["T"] for row in rows})
    print("| T |", " | ".join(map(str, lengths)), "|")
    print("|---" * (len(lengths) + 1) + "|")
    for causal in (True, False):
        for group in sorted({row["H"] // row["Hkv"] for row in rows}):
            cells = []
            for length in lengths:
                found = {
                    row["pass"]: row
                    for row in rows
                    if (row["causal"], row["T"], row["H"] // row["Hkv"]) == (causal, length, group)
                }
                both, forward = found.get("fwd+bwd"), found.get("fwd")
                if both is None:
                    cells.append("")
                    continue
                alone = f" ({forward['ratio']:.2f})" if forward else ""
                cells.append(f"{both['ratio']:.2f} ± {both['spread']:.2f}{alone}")
            name = ("causal" if causal else "full") + (f", {group} query heads a key head" if group > 1 else "")
            print(f"| {name} |", " | ".join(cells), "|")


def speeds(rows):
    fields = [field for field in ("layers", "B", "T", "context") if field in rows[0]]
    print("|", " | ".join([*fields, "standard, tokens/s", "split, tokens/s", "ratio"]), "|")
    print("|---" * (len(fields) + 3) + "|")
    for row in rows:
        cells = [str(row[field]) for field in fields]
        cells += [f"{row['standard_tokens_per_s']:,.0f}", f"{row['split_tokens_per_s']:,.0f}"]
        print("|", " | ".join([*cells, f"{row['ratio']:.3f} ± {row['spread']:.3f}"]), "|")


if __name__ == "__main__":
    for path in sys.argv[1:]:
        results = json.loads(Path(path).read_text())
        machine, rows = results["machine"], results["rows"]
        where = f"{machine['gpu'] or machine['cpu']}, torch {machine['torch']}"
        print(f"\n{rows[0]['bench']}: {where}, {rows[0]['dtype']} ({Path(path).name})\n")
        (times if "standard_ms" in rows[0] else speeds)(rows)
