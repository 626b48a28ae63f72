"""The ratio of split to standard time against the length, of the function and of a layer: docs/images/ratio.svg.

    .venv/bin/python benchmarks/plot.py benchmarks/results/h200-*.json

Where two files have the same case, the later run counts.
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

OUT = Path(__file__).parent.parent / "docs" / "images" / "ratio.svg"


def lines(rows):
    """(name, lengths, ratios, spreads) of every pattern and grouping."""
    rows = [row for row in rows if (row["chosen"], row["pass"], row["kind"]) == (True, "fwd+bwd", "split_kv")]
    for causal in (True, False):
        for group in sorted({row["H"] // row["Hkv"] for row in rows}):
            found = {
                row["T"]: (row["T"], row["ratio"], row["spread"])
                for row in rows
                if (row["causal"], row["H"] // row["Hkv"]) == (causal, group)
            }
            if not found:
                continue
            name = ("causal" if causal else "bidirectional") + (
                f", {group} query heads a key head" if group > 1 else ""
            )
            yield name, *zip(*sorted(found.values()), strict=True)


def main(*paths):
    files = sorted((json.loads(Path(path).read_text()) for path in paths), key=lambda file: file["machine"]["date"])
    # Text stays text, and the same numbers make the same file.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "twofold", "font.size": 9})
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    for axis, bench, title in zip(axes, ("attention", "layer"), ("attention", "one compiled layer"), strict=True):
        rows = [row for file in files for row in file["rows"] if row["bench"] == bench]
        for name, lengths, ratios, spreads in lines(rows):
            axis.errorbar(lengths, ratios, [spread / 2 for spread in spreads], label=name, marker="o", capsize=2)
        axis.axhline(1.0, color="grey", linewidth=0.8)
        axis.set_xscale("log", base=2)
        axis.set_xticks(lengths, [str(length) for length in lengths])
        axis.set_xlabel("tokens T (16k a batch)")
        axis.set_title(f"{title}, {rows[0]['gpu']}, {rows[0]['dtype']}")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, loc="lower left")
    # Room for the legend under the lines.
    axes[0].set_ylim(bottom=0.85)
    axes[0].set_ylabel("split / standard, forward + backward")
    figure.tight_layout()
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
