"""How far a bag of words gets on goals: logistic regression on words, word pairs and pieces of words.

    python examples/goal_baseline.py [--data FOLDER]

A yardstick for models, and a check that the set is neither trivial nor hopeless.
"""

import argparse
import hashlib
import itertools
import json
import re
import time
from pathlib import Path

import torch

from twofold.data.goals import goals
from twofold.data.readers import read_goals

BUCKETS = 1 << 14


def features(text):
    """Words, pairs of words and runs of four characters, each hashed to a number."""
    words = re.findall(r"\w+", text.lower())
    pieces = words + [f"{a} {b}" for a, b in itertools.pairwise(words)]
    for word in words:
        padded = f"<{word}>"
        pieces += [padded[at : at + 4] for at in range(len(padded) - 3)]
    return [
        int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=4).digest(), "big") % BUCKETS for piece in pieces
    ]


def tensors(utterances, labels):
    bags = [features(utterance.text) or [0] for utterance in utterances]
    offsets = torch.tensor([0, *map(len, bags)]).cumsum(0)[:-1]
    return (
        torch.tensor(list(itertools.chain(*bags))),
        offsets,
        torch.tensor([labels[utterance.goal] for utterance in utterances]),
    )


def accuracy(model, bias, utterances, labels):
    """Of the goal, out of scope being one; and of the goal where there is one."""
    found, offsets, wanted = tensors(utterances, labels)
    right = (model(found, offsets) + bias).argmax(-1) == wanted
    known = wanted != labels[None]
    return {"all": right.float().mean().item(), "in_scope": right[known].float().mean().item()}


def baseline(seed=0, epochs=30, data=None):
    """Accuracy on dev and test of a linear model trained on train: the embedded set, or one's own."""
    splits = goals(seed) if data is None else read_goals(data)
    known = sorted({one.goal for one in splits.train if one.goal})
    labels = {goal: place for place, goal in enumerate([*known, None])}
    torch.manual_seed(seed)
    model = torch.nn.EmbeddingBag(BUCKETS, len(labels), mode="mean")
    torch.nn.init.zeros_(model.weight)
    bias = torch.zeros(len(labels), requires_grad=True)
    optimizer = torch.optim.Adam([*model.parameters(), bias], lr=0.05)
    start = time.perf_counter()
    batches = [tensors(splits.train[at : at + 500], labels) for at in range(0, len(splits.train), 500)]
    for _ in range(epochs):
        for found, offsets, wanted in batches:
            loss = torch.nn.functional.cross_entropy(model(found, offsets) + bias, wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    seconds = time.perf_counter() - start
    with torch.no_grad():
        scores = {name: accuracy(model, bias, getattr(splits, name), labels) for name in ("train", "dev", "test")}
    return scores | {"seconds": seconds}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--data", type=Path, help="files with goals, as docs/data.md has them; the embedded set unless given"
    )
    told = parser.parse_args()
    print(json.dumps(baseline(told.seed, data=told.data), indent=1))
