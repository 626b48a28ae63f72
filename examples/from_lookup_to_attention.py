"""From a hash table to split attention, a rung at a time: what each changes, and what can be learned through it."""

import argparse
import json
import math
import statistics
from functools import partial

import torch
from rich.console import Console
from rich.table import Table

from twofold import SplitSelfAttention
from twofold.attention.additive import AdditiveAttention

TOP = 4

# Rungs of the ladder: queries (B, D), keys (N, D) and values (N, C) to (B, C).


def exact(query, keys, values):
    """A hash table: the value whose key the query is, or nothing."""
    return (query[:, None] == keys).all(-1).to(values.dtype) @ values


def nearest(query, keys, values):
    return values[(query @ keys.T).argmax(-1)]


def mean_of_top(query, keys, values, top=TOP):
    return values[(query @ keys.T).topk(top).indices].mean(1)


def weighted_top(query, keys, values, top=TOP):
    """Each of them as often as it is similar."""
    found = (query @ keys.T).topk(top)
    return (found.values[..., None] * values[found.indices]).sum(1)


def softmax(query, keys, values):
    """All of them, by weights that are positive and sum to one."""
    return (query @ keys.T).softmax(-1) @ values


RUNGS = {
    "exact match": exact,
    "nearest": nearest,
    f"mean of the top {TOP}": mean_of_top,
    f"top {TOP}, weighted": weighted_top,
    "softmax over all": softmax,
}


def learned(look_up, seed, entries=32, width=16, noise=0.1, steps=500, rows=64):
    """Whether a query can be learned through a lookup: shares of right values before and after.

    Of entry i a turned and noisy copy of its key is shown; the query is a matrix times that, and must find value i.
    """
    chance = torch.Generator().manual_seed(seed)

    def drawn(*shape):
        return torch.randn(shape, generator=chance)

    keys, values = 4 * torch.nn.functional.normalize(drawn(entries, width), dim=-1), torch.eye(entries)
    turn = torch.linalg.qr(drawn(width, width)).Q
    matrix = (drawn(width, width) / math.sqrt(width)).requires_grad_()

    def answers(count):
        wanted = torch.randint(entries, (count,), generator=chance)
        shown = keys[wanted] @ turn + noise * drawn(count, width)
        return wanted, look_up(shown @ matrix, keys, values)

    @torch.no_grad()
    def share_right():
        wanted, found = answers(2000)
        return (found.any(-1) & (found.argmax(-1) == wanted)).float().mean().item()

    before, reaches_query = share_right(), answers(1)[1].requires_grad
    optimiser = torch.optim.Adam([matrix], lr=0.03)
    for _ in range(steps if reaches_query else 0):
        wanted, found = answers(rows)
        optimiser.zero_grad()
        (found - values[wanted]).square().sum(-1).mean().backward()
        optimiser.step()
    return {"gradient": reaches_query, "before": before, "after": share_right()}


def sharpness(width, keys=64, rows=2000):
    """The largest of softmax's weights on average, of raw and of scaled dot products of random vectors."""
    torch.manual_seed(0)
    scores = (torch.randn(rows, 1, width) @ torch.randn(rows, keys, width).mT)[:, 0]
    return [one.softmax(-1).amax(-1).mean().item() for one in (scores, scores / math.sqrt(width))]


# Steps of the attention layer: a query (D,) or queries (T, D), inputs x (N, D), weights (D, D).


def one_state_asks(q, x, network):
    """A small network scores every input; the mean of them by softmax."""
    return network(q[None, None], x[None]).context[0, 0]


def dot_product(q, x):
    """The score is q . x."""
    return (x @ q).softmax(-1) @ x


def scaled(q, x):
    """Over the square root of the width."""
    return (x @ q / math.sqrt(len(q))).softmax(-1) @ x


def many_queries(Q, x):
    """A matrix of them at once."""
    return (Q @ x.T / math.sqrt(Q.shape[1])).softmax(-1) @ x


def keys_and_values(Q, x, W_k, W_v):
    """What is compared and what is returned, apart."""
    K, V = x @ W_k, x @ W_v
    return (Q @ K.T / math.sqrt(Q.shape[1])).softmax(-1) @ V


def self_attention(x, W_q, W_k, W_v):
    """The inputs ask, each of all."""
    return keys_and_values(x @ W_q, x, W_k, W_v)


def masked(x, W_q, W_k, W_v):
    """Each of itself and its past."""
    Q, K, V = x @ W_q, x @ W_k, x @ W_v
    scores = Q @ K.T / math.sqrt(Q.shape[1])
    return scores.masked_fill(~_past(x), -math.inf).softmax(-1) @ V


def heads(x, *weights, count=2, head=masked):
    """Several narrow ones side by side."""
    return torch.cat([head(x, *parts) for parts in zip(*(W.chunk(count, 1) for W in weights), strict=True)], dim=-1)


def split(x, W_q, W_k, W_v, W_k_own, W_v_own, is_causal=True):
    """One's own key and value on the diagonal."""
    Q, K, V, K_own, V_own = (x @ W for W in (W_q, W_k, W_v, W_k_own, W_v_own))
    scores = (Q @ K.T).diagonal_scatter((Q * K_own).sum(-1)) / math.sqrt(Q.shape[1])
    weights = (scores.masked_fill(~_past(x), -math.inf) if is_causal else scores).softmax(-1)
    own = weights.diagonal()[:, None]
    return weights @ V + own * (V_own - V)


def _past(x):
    return torch.ones(len(x), len(x), dtype=torch.bool).tril()


@torch.no_grad()
def layer_by_steps(width=8, count=5):
    """Of every step: what it gives, in which case that is the step before, and by how much it is off."""
    torch.manual_seed(0)
    x, q = torch.randn(count, width, dtype=torch.float64), torch.randn(width, dtype=torch.float64)
    W = list(torch.randn(5, width, width, dtype=torch.float64) / math.sqrt(width))
    _, W_k, W_v = three = W[:3]
    one, network = torch.eye(width, dtype=torch.float64), AdditiveAttention(width, width, width).double()
    layer, order = SplitSelfAttention(width, 2).double(), torch.randperm(count)
    parts = (layer.query, layer.key, layer.value, layer.self_key, layer.self_value, layer.output)
    for part, weight in zip(parts, (*W, one), strict=True):
        part.weight.copy_(weight.T)

    def halves(x, *weights, **options):
        return heads(x, *weights, head=partial(split, **options))

    def ours(x):
        """The layer of this package."""
        return layer(x[None], is_causal=True)[0][0]

    def unordered(x):
        """The split without a mask, inputs in another order."""
        return halves(x, *W, is_causal=False)

    return [
        (one_state_asks, one_state_asks(q, x, network), "", None),
        (dot_product, dot_product(q, x), "", None),
        (scaled, scaled(q, x), "q * sqrt(width)", scaled(q * math.sqrt(width), x) - dot_product(q, x)),
        (many_queries, many_queries(x, x), "one query", many_queries(q[None], x)[0] - scaled(q, x)),
        (
            keys_and_values,
            keys_and_values(x, x, W_k, W_v),
            "W_K = W_V = 1",
            keys_and_values(x, x, one, one) - many_queries(x, x),
        ),
        (
            self_attention,
            self_attention(x, *three),
            "W_Q = 1",
            self_attention(x, one, W_k, W_v) - keys_and_values(x, x, W_k, W_v),
        ),
        (masked, masked(x, *three), "the last row", masked(x, *three)[-1] - self_attention(x, *three)[-1]),
        (heads, heads(x, *three), "one head", heads(x, *three, count=1) - masked(x, *three)),
        (split, halves(x, *W), "k' = k, v' = v", halves(x, *three, W_k, W_v) - heads(x, *three)),
        (ours, ours(x), "the same weights", ours(x) - halves(x, *W)),
        (unordered, unordered(x[order]), "back in order", unordered(x[order]) - unordered(x)[order]),
    ]


def picture(path):
    """What every rung returns while a query goes once round a circle of five keys."""
    # For those alone who want a picture.
    import matplotlib

    matplotlib.use("agg")
    # The same picture in the same bytes.
    matplotlib.rcParams["svg.hashsalt"] = "twofold"
    from matplotlib import pyplot

    places = 2 * math.pi * torch.tensor([0.1, 0.25, 0.45, 0.7, 0.9])
    angles = torch.linspace(0, 2 * math.pi, 1441)
    values = torch.tensor([1.0, 3.0, 2.0, 5.0, 4.0])[:, None]

    def around(angle):
        return torch.stack([angle.cos(), angle.sin()], dim=-1)

    shown = {
        "nearest": nearest(around(angles), around(places), values),
        "mean of the top 2": mean_of_top(around(angles), around(places), values, top=2),
        "softmax over all": softmax(8 * around(angles), around(places), values),
    }
    figure, axes = pyplot.subplots(1, len(shown), figsize=(11, 3), sharey=True)
    for axis, (name, found) in zip(axes, shown.items(), strict=True):
        axis.plot(angles, found[:, 0], color="#c05010")
        axis.plot(places, values[:, 0], "o", color="#2050d0")
        axis.set(title=name, xlabel="the query's angle", xticks=[0, math.pi, 2 * math.pi], xticklabels=["0", "π", "2π"])
    axes[0].set(ylabel="what is returned")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if str(path).endswith(".svg") else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="of what is learned through each rung")
    parser.add_argument("--picture", metavar="FILE", help="draw what rungs return instead")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON instead of tables")
    args = parser.parse_args()
    if args.picture:
        picture(args.picture)
        return
    # What is so small, threads would only make wait for each other.
    torch.set_num_threads(1)
    ladder = {name: [learned(rung, seed) for seed in range(args.seeds)] for name, rung in RUNGS.items()}
    widths = {width: sharpness(width) for width in (4, 64, 1024)}
    layer = layer_by_steps()
    if args.json:
        built = [{"step": step.__name__, "shape": list(out.shape), "off": off(gap)} for step, out, _, gap in layer]
        print(json.dumps({"ladder": ladder, "sharpness": widths, "layer": built}, indent=2))
        return
    show(
        "1. A query learned through a lookup, % of 32 values found",
        ["rung", "gradient", "before", "after"],
        [
            [
                name,
                "yes" if runs[0]["gradient"] else "none",
                *(share([run[when] for run in runs]) for when in ("before", "after")),
            ]
            for name, runs in ladder.items()
        ],
    )
    show(
        "2. The largest of softmax's weights over 64 random keys",
        ["width", "q . k", "over sqrt(width)"],
        [[str(width), *(f"{one:.2f}" for one in both)] for width, both in widths.items()],
    )
    show(
        "3. The attention layer, a step at a time",
        ["step", "what it is", "gives", "the one before in case of", "off by"],
        [
            [
                step.__name__.replace("_", " "),
                step.__doc__.rstrip("."),
                " x ".join(map(str, out.shape)),
                when,
                "" if gap is None else f"{off(gap):.0e}",
            ]
            for step, out, when, gap in layer
        ],
    )


def off(gap):
    return None if gap is None else gap.abs().max().item()


def share(values):
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{spread}"


def show(title, columns, rows):
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
