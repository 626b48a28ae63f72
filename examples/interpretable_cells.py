"""What single units of a character LSTM stand for: quotes, comments, `if` conditions, depth, the place in a line.

A language model reads Python's own standard library, a character at a time. Every character gets labels from Python's
tokenizer, which the model never sees. For each label the best single unit is chosen on some files and scored on others.
The same with untrained weights is printed beside it: what is not above that was not learned.
"""

import argparse
import io
import json
import platform
import random
import sys
import sysconfig
import tokenize
from itertools import pairwise
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from twofold.models import RecurrentConfig, RecurrentForCausalLM, unit_activations

# Numbers 0 to 2 are pad, start and stop; 3 stands for every character that is none of these.
CHARACTERS = "\n\t" + "".join(chr(code) for code in range(32, 127))
OTHER, FIRST = 3, 4
NUMBER = {character: FIRST + place for place, character in enumerate(CHARACTERS)}
OPENING, CLOSING = "([{", ")]}"
QUIET = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENCODING)


def encoded(text: str) -> Tensor:
    return torch.tensor([NUMBER.get(character, OTHER) for character in text])


def labelled(text: str) -> dict[str, Tensor]:
    """What is true once each character was read, from the first after an opening sign to the last before its end."""
    starts = [0]
    # As the tokenizer does, and unlike splitlines(), lines end at "\n" alone.
    for row in io.StringIO(text):
        starts.append(starts[-1] + len(row))
    names = ("quote", "comment", "if", "brackets", "indent", "column")
    # One place more, for what changes at the very end. Depths are written down as steps up and down.
    found = {name: torch.zeros(len(text) + 1, dtype=torch.long) for name in names}
    brackets, condition, string, before = 0, None, None, tokenize.NEWLINE
    f_start, f_end = getattr(tokenize, "FSTRING_START", None), getattr(tokenize, "FSTRING_END", None)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        start, end = (
            min(starts[min(row, len(starts)) - 1] + column, len(text)) for row, column in (token.start, token.end)
        )
        if token.type == tokenize.STRING:
            found["quote"][start : end - 1] = 1
        elif token.type == f_start:
            string = start if string is None else string
        elif token.type == f_end and string is not None:
            found["quote"][string : end - 1] = 1
            string = None
        elif token.type == tokenize.COMMENT:
            found["comment"][start:end] = 1
        elif token.type in (tokenize.INDENT, tokenize.DEDENT):
            found["indent"][end] += 1 if token.type == tokenize.INDENT else -1
        elif token.type == tokenize.OP and token.string in OPENING + CLOSING:
            step = 1 if token.string in OPENING else -1
            found["brackets"][start] += step
            brackets += step
        if token.type == tokenize.NAME and token.string in ("if", "elif") and before in QUIET and brackets == 0:
            condition = end
        elif condition is not None and token.type == tokenize.OP and token.string == ":" and brackets == 0:
            found["if"][condition:start] = 1
            condition = None
        before = token.type
    for depth in ("brackets", "indent"):
        found[depth] = found[depth].cumsum(0)
    for start, end in pairwise(starts):
        found["column"][start:end] = torch.arange(end - start)
    return {name: label[:-1] for name, label in found.items()}


def corpus(sizes: list[int], seed: int) -> list[list[str]]:
    """Files of the standard library in a drawn order: for each size as many as hold so many characters."""
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    random.Random(seed).shuffle(paths)  # noqa: S311
    parts = []
    for size in sizes:
        parts.append([])
        while sum(map(len, parts[-1])) < size:
            if not paths:
                raise SystemExit(f"the standard library is too small for {sum(sizes):,} characters: ask for fewer")
            parts[-1].append(paths.pop().read_text(encoding="utf-8"))
    return parts


def rows_of(texts: list[str], width: int, count: int) -> tuple[Tensor, dict[str, Tensor]]:
    """`count` rows of `width` characters, drawn from all the files, and their labels."""
    ids = torch.cat([encoded(text) for text in texts])
    labels = [labelled(text) for text in texts]
    rows = len(ids) // width
    drawn = torch.randperm(rows)[:count]
    cut = {name: torch.cat([one[name] for one in labels])[: rows * width].view(rows, width) for name in labels[0]}
    return ids[: rows * width].view(rows, width)[drawn], {name: label[drawn] for name, label in cut.items()}


def train(model: RecurrentForCausalLM, ids: Tensor, args: argparse.Namespace) -> None:
    """Each row of the batch reads on where it stopped: states go on, gradients do not."""
    width = len(ids) // args.rows
    ids = ids[: width * args.rows].view(args.rows, width)
    optimiser = torch.optim.Adam(model.parameters(), lr=args.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, args.rate, total_steps=args.steps, pct_start=0.05)
    past, start = None, 0
    for _ in track(range(args.steps), "training", console=Console(file=sys.stderr)):
        if start + args.window + 1 > width:
            past, start = None, 0
        window = ids[:, start : start + args.window + 1]
        out = model(window[:, :-1], past_key_values=past)
        loss = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), window[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        past, start = out.past_key_values, start + args.window
        past.states = [tuple(part.detach() for part in state) for state in past.states]


@torch.no_grad()
def bits(model: RecurrentForCausalLM, ids: Tensor) -> float:
    """A character, on what it has not read."""
    logits = model(ids[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).item() / 0.6931471805599453


def ranks(values: Tensor) -> Tensor:
    """(units, N) of (units, N), from 1 up in each row; equal values share their mean rank."""
    inorder = values.sort(dim=1).values
    below, upto = (torch.searchsorted(inorder, values, right=right) for right in (False, True))
    return (below + upto + 1).double() / 2


def auroc(places: Tensor, truth: Tensor) -> Tensor:
    """(units,) of ranks (units, N) and truth (N,): the chance that a true one ranks above a false one."""
    true = truth.sum()
    return (places @ truth.to(places.dtype) - true * (true + 1) / 2) / (true * (len(truth) - true))


def line(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Slope and height of the least-squares line of y over each row of x (units, N)."""
    centred = x - x.mean(1, keepdim=True)
    slope = (centred * (y - y.mean())).sum(1) / (centred**2).sum(1).clamp(min=1e-12)
    return slope, y.mean() - slope * x.mean(1)


def explained(x: Tensor, y: Tensor, slope: Tensor, height: Tensor) -> Tensor:
    """R^2 of each row's line, which may have been fitted elsewhere."""
    return 1 - ((y - slope[:, None] * x - height[:, None]) ** 2).mean(1) / y.var(correction=0)


def questions(labels: dict[str, Tensor]) -> dict[str, Tensor]:
    asked = {name: labels[name] > 0 for name in ("quote", "comment", "if")}
    asked |= {f"brackets > {depth}": labels["brackets"] > depth for depth in (0, 1)}
    return asked | {f"indent > {depth}": labels["indent"] > depth for depth in (1, 2)}


def best_units(model: RecurrentForCausalLM, choosing: tuple, scoring: tuple, warm_up: int) -> dict[str, dict]:
    """For every question the unit that answers best on `choosing`, and how well it does on `scoring`."""

    def seen(ids: Tensor, labels: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        units = torch.cat([unit_activations(model, ids, part=part) for part in ("hidden", "cell")], dim=-1)
        kept = {name: label[:, warm_up:].flatten() for name, label in labels.items()}
        return units[:, warm_up:].flatten(0, 1).T.contiguous(), kept

    (chosen_on, truth), (scored_on, held_out) = seen(*choosing), seen(*scoring)
    places = ranks(chosen_on)
    width = len(chosen_on) // 2

    def named(unit: int) -> str:
        return f"{'c' if unit >= width else 'h'}{unit % width}"

    found = {}
    answers = questions(held_out)
    for name, true in questions(truth).items():
        scores = auroc(places, true)
        unit = int((scores - 0.5).abs().argmax())
        sign = 1 if scores[unit] >= 0.5 else -1
        score = auroc(ranks(sign * scored_on[[unit]]), answers[name]).item()
        share = answers[name].double().mean().item()
        found[name] = {"measure": "AUROC", "unit": named(unit), "score": score, "share": share}
    x, y = chosen_on.double(), truth["column"].double()
    slope, height = line(x, y)
    unit = int(explained(x, y, slope, height).argmax())
    fitted = explained(scored_on[[unit]].double(), held_out["column"].double(), slope[[unit]], height[[unit]])
    found["column"] = {"measure": "R^2", "unit": named(unit), "score": fitted.item(), "share": None}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--characters", type=int, default=2_000_000, help="to train on")
    parser.add_argument(
        "--held-out", type=int, default=400_000, help="characters to draw rows from, to choose, to score"
    )
    parser.add_argument("--hidden", type=int, default=256, help="units of a layer")
    parser.add_argument("--layers", type=int, default=1, help="one above the other")
    parser.add_argument("--steps", type=int, default=1500, help="of training")
    parser.add_argument("--rows", type=int, default=32, help="texts read side by side")
    parser.add_argument("--window", type=int, default=100, help="characters between two steps of learning")
    parser.add_argument("--rate", type=float, default=0.005, help="the highest learning rate")
    parser.add_argument("--watched", type=int, default=50, help="rows to choose units on, and to score them on")
    parser.add_argument("--width", type=int, default=1000, help="characters in such a row")
    parser.add_argument("--warm-up", type=int, default=200, help="of these, the first that do not count")
    parser.add_argument("--seed", type=int, default=0, help="of first weights and texts")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    choose, score, read = corpus([args.held_out, args.held_out, args.characters], args.seed)
    parts = [rows_of(texts, args.width, args.watched) for texts in (choose, score)]
    text = torch.cat([encoded(one) for one in read])[: args.characters]
    config = RecurrentConfig(
        vocab_size=FIRST + len(CHARACTERS), hidden_size=args.hidden, num_hidden_layers=args.layers, cell="lstm"
    )
    model = RecurrentForCausalLM(config).eval()
    untrained = best_units(model, *parts, args.warm_up)
    train(model.train(), text, args)
    trained = best_units(model.eval(), *parts, args.warm_up)
    loss = bits(model, parts[1][0])

    if args.json:
        machine = {"torch": torch.__version__, "python": platform.python_version(), "machine": platform.machine()}
        result = {"trained": trained, "untrained": untrained, "bits_per_character": loss}
        print(json.dumps({"settings": vars(args), **machine, **result}, indent=2))
        return
    table = Table(title=f"the best unit on held-out files; {loss:.2f} bits a character there")
    for column in ("label", "share of characters", "measure", "trained", "unit", "untrained"):
        table.add_column(
            column, justify="right" if column in ("share of characters", "trained", "untrained") else "left"
        )
    for name, one in trained.items():
        share = "" if one["share"] is None else f"{100 * one['share']:.1f} %"
        old = untrained[name]["score"]
        table.add_row(name, share, one["measure"], f"{one['score']:.3f}", one["unit"], f"{old:.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()
