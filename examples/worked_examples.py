"""The sources' worked examples, computed with split attention. `make demo` runs this."""

import torch
from rich.console import Console
from rich.table import Table

from twofold import SplitSelfAttention, self_weight, split_attention, split_attention_weights
from twofold.attention.positions import sinusoidal

console = Console()
torch.manual_seed(0)


def table(title, columns, rows):
    console.print(f"[bold]{title}[/]")
    shown = Table()
    for column in columns:
        shown.add_column(column, justify="right")
    for row in rows:
        shown.add_row(*(cell if isinstance(cell, str) else f"{cell:.2f}" for cell in row))
    console.print(shown)


def scaled_scores():
    """Transformer notes, appendix: scores (6, 4) and (3, 8) with d = 16."""
    query = torch.zeros(1, 1, 2, 16)
    query[0, 0, :, :2] = torch.tensor([[6.0, 4.0], [3.0, 8.0]])
    key = torch.eye(2, 16)[None, None]
    weights = split_attention_weights(query, key)[0, 0]
    table(
        "1. Weights from scores (6, 4) and (3, 8), d = 16",
        ["token", "to 1", "to 2"],
        [["1", *weights[0].tolist()], ["2", *weights[1].tolist()]],
    )


def positions():
    """Transformer notes, section 3.2, in radians."""
    code = sinusoidal(torch.arange(3), 4)
    table(
        "2. Sinusoidal positions, d = 4, in radians",
        ["position", "sin", "cos", "sin", "cos"],
        [[str(i), *row.tolist()] for i, row in enumerate(code)],
    )


def the_split():
    """Patent application, figure 4: the diagonal has a key and a value of its own."""
    words = ["turn", "the", "lights", "off"]
    query, key, value, self_key, self_value = (torch.randn(1, 1, 4, 8) for _ in range(5))
    standard = split_attention_weights(query, key, is_causal=True)[0, 0]
    split = split_attention_weights(query, key, self_key, is_causal=True)[0, 0]
    rows = [
        [word, *(f"{a:.2f} | {b:.2f}" if j <= i else "." for j, (a, b) in enumerate(zip(*pair, strict=True)))]
        for i, (word, pair) in enumerate(zip(words, zip(standard, split, strict=True), strict=True))
    ]
    table("3. Causal weights, standard | split key", ["", *words], rows)
    gates = self_weight(query, key, self_key, is_causal=True)[0, 0]
    table("4. What each token keeps of itself, g = p(own)", words, [gates.tolist()])

    tied = split_attention(query, key, value, key, value, is_causal=True)
    plain = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    off = (tied - plain).abs().max()
    console.print(f"[bold]5. With k' = k and v' = v the split is standard attention[/]\n   difference {off:.1g}")
    exact = split_attention(
        *(t.double() for t in (query, key, value, self_key, self_value)), is_causal=True, backend="reference"
    )
    for backend in ("columns", "shifted"):
        out = split_attention(query, key, value, self_key, self_value, is_causal=True, backend=backend)
        console.print(f"   {backend:8} against the float64 reference: {(out - exact).abs().max():.1g}")


def prefill_and_decode():
    layer = SplitSelfAttention(32, 4, kv_heads=2, init="independent").eval()
    x = torch.randn(1, 6, 32)
    whole, _ = layer(x, is_causal=True)
    past, steps = None, []
    for t in range(6):
        step, past = layer(x[:, t : t + 1], past)
        steps.append(step)
    off = (torch.cat(steps, dim=1) - whole).abs().max()
    console.print(
        f"[bold]6. Six tokens at once or one by one, caching the others' k and v only[/]\n   difference {off:.1g}\n"
    )


if __name__ == "__main__":
    with torch.no_grad():
        scaled_scores()
        positions()
        the_split()
        prefill_and_decode()
    console.print("Next: .venv/bin/twofold bench attention (what the split costs on this machine)")
