"""From a context vector to split attention: encoder-decoders learn to copy and to reverse.

Every run sees fresh random sequences, as many as any other, and is scored on new ones that it writes by itself.
"""

import argparse
import json
import multiprocessing
import platform
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from transformers import AutoModelForSeq2SeqLM

from twofold.models import RecurrentConfig, Seq2SeqConfig, matched

# In the order in which they were found.
RECURRENT = {
    "context once": {"attention": "none", "context": "once"},
    "context every": {"attention": "none", "context": "every"},
    "additive, asked before": {"attention": "additive", "asks": "before"},
    "additive": {"attention": "additive"},
    "dot": {"attention": "dot"},
    "scaled dot": {"attention": "scaled_dot"},
}
TRANSFORMERS = {"transformer": "standard", "split transformer": "split_kv"}
ARMS = [*RECURRENT, *TRANSFORMERS]
PAD, START, STOP, FIRST = 0, 1, 2, 3


def batch(task, rows, args):
    ids = torch.randint(FIRST, FIRST + args.alphabet, (rows, args.length))
    answer = ids if task == "copy" else ids.flip(1)
    return ids, torch.cat([answer, torch.full((rows, 1), STOP)], dim=1)


def config_of(arm, args):
    """One layer a side."""
    sizes = {"vocab_size": FIRST + args.alphabet, "hidden_size": args.hidden, "num_hidden_layers": 1}
    if arm in RECURRENT:
        return RecurrentConfig(cell=args.cell, **RECURRENT[arm], **sizes)
    plain = Seq2SeqConfig(num_attention_heads=4, intermediate_size=args.hidden, **sizes)
    return matched(plain, TRANSFORMERS[arm])


def trained(task, arm, seed, args):
    """One model, taught by the truth."""
    torch.manual_seed(seed)
    model = AutoModelForSeq2SeqLM.from_config(config_of(arm, args)).train()
    rate = args.rate if arm in RECURRENT else args.transformer_rate
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=args.steps, pct_start=0.1)
    for _ in range(args.steps):
        ids, labels = batch(task, args.rows, args)
        optimiser.zero_grad()
        model(ids, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return model.eval()


def run(task, arm, seed, args):
    torch.set_num_threads(1)
    start = time.perf_counter()
    model = trained(task, arm, seed, args)
    ids, labels = batch(task, args.tests, args)
    said = model.generate(ids, max_new_tokens=args.length + 1, do_sample=False)[:, 1:]
    right = torch.nn.functional.pad(said, (0, labels.shape[1] - said.shape[1]), value=PAD) == labels
    return {
        "task": task,
        "arm": arm,
        "seed": seed,
        "tokens": right.float().mean().item(),
        "sequences": right.all(1).float().mean().item(),
        "parameters": model.num_parameters(),
        "seconds": time.perf_counter() - start,
    }


def picture(path, args):
    """Where an additive model looks while it writes: one alignment for each task."""
    # For those alone who want a picture.
    import matplotlib

    matplotlib.use("agg")
    # The same picture in the same bytes.
    matplotlib.rcParams["svg.hashsalt"] = "twofold"
    from matplotlib import pyplot

    figure, places = pyplot.subplots(1, len(args.tasks), figsize=(4 * len(args.tasks), 4), squeeze=False)
    for place, task in zip(places[0], args.tasks, strict=True):
        model = trained(task, "additive", 0, args)
        ids, labels = batch(task, 1, args)
        weights = model(ids, labels=labels, output_attentions=True).cross_attentions[0]
        place.imshow(weights[0, 0].detach(), cmap="Greys", vmin=0, vmax=1)
        place.set(title=task, xlabel="read", ylabel="written")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if str(path).endswith(".svg") else None)


def shown(values):
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{spread}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument(
        "--tasks", nargs="+", choices=["copy", "reverse"], default=["copy", "reverse"], help="what is learned"
    )
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS), metavar="ARM", help=", ".join(ARMS))
    parser.add_argument("--cell", choices=["rnn", "lstm", "gru"], default="lstm", help="of encoder and decoder")
    parser.add_argument("--length", type=int, default=30, help="symbols in a sequence")
    parser.add_argument("--alphabet", type=int, default=10, help="how many symbols there are")
    parser.add_argument("--hidden", type=int, default=64, help="units of a cell")
    parser.add_argument("--steps", type=int, default=600, help="of training")
    parser.add_argument("--rows", type=int, default=32, help="sequences in a step")
    parser.add_argument("--tests", type=int, default=500, help="sequences to be scored on")
    parser.add_argument("--rate", type=float, default=0.01, help="the highest learning rate of recurrent models")
    parser.add_argument("--transformer-rate", type=float, default=0.003, help="that of transformers")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each arm")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, on a core each")
    parser.add_argument("--picture", metavar="FILE", help="draw alignments of additive attention instead")
    parser.add_argument("--json", action="store_true", help="print every run as JSON instead of a table")
    args = parser.parse_args()
    if args.picture:
        picture(args.picture, args)
        return

    jobs = [(task, arm, seed) for task in args.tasks for arm in args.arms for seed in range(args.seeds)]
    # What computes in threads must not be forked.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.workers, mp_context=spawn) as pool:
        waiting = [pool.submit(run, *job, args) for job in jobs]
        progress = track(as_completed(waiting), "training", len(jobs), console=Console(file=sys.stderr))
        runs = [done.result() for done in progress]
    runs.sort(key=lambda one: jobs.index((one["task"], one["arm"], one["seed"])))

    if args.json:
        machine = {"torch": torch.__version__, "machine": platform.machine(), "system": platform.system()}
        print(json.dumps({"settings": vars(args), **machine, "runs": runs}, indent=2))
        return
    table = Table(
        title=f"{args.cell}, length {args.length}, {args.steps} steps, {args.seeds} seeds: % right, mean ± deviation"
    )
    for column in ("task", "arm", "tokens", "sequences", "parameters", "seconds a run"):
        table.add_column(column, justify="left" if column in ("task", "arm") else "right")
    for task in args.tasks:
        for arm in args.arms:
            those = [one for one in runs if (one["task"], one["arm"]) == (task, arm)]
            tokens, whole = ([one[name] for one in those] for name in ("tokens", "sequences"))
            seconds = statistics.mean(one["seconds"] for one in those)
            table.add_row(task, arm, shown(tokens), shown(whole), f"{those[0]['parameters']:,}", f"{seconds:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
