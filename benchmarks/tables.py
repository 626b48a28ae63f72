"""The results files as the Markdown tables of README.md and docs/results/speed.md.

    .venv/bin/python benchmarks/tables.py benchmarks/results/h200-*.json

Of attention and layers: what `auto` takes, ratio of split to standard time, forward + backward (attention: forward
alone in brackets), with the spread. Of training and generation: ratio of tokens a second. Files of one bench and one
machine are one table; where two have the same case, the later run counts.
"""

import json
import sys
from itertools import groupby
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


def table_of(results):
    """What a file's rows are put together by."""
    machine, row = results["machine"], results["rows"][0]
    return f"{row['bench']}: {machine['gpu'] or machine['cpu']}, torch {machine['torch']}, {row['dtype']}"


if __name__ == "__main__":
    files = [json.loads(Path(path).read_text()) for path in sys.argv[1:]]
    files.sort(key=lambda results: (table_of(results), results["machine"]["date"]))
    for title, together in groupby(files, table_of):
        print(f"\n{title}\n")
        rows = [row for results in together for row in results["rows"]]
        (times if "standard_ms" in rows[0] else speeds)(rows)
