"""Comparisons of a second: few characters, few steps, the smallest of models."""

import re

from twofold.lab.plan import Plan
from twofold.training.progress import Progress

SIZE = {"width": 16, "layers": 1, "heads": 2, "context_length": 16, "batch_size": 8, "evaluations": 2}
# Steps of such a model see 8 times 16 tokens, every one of them, because the texts below are 28 batches.
STEP = 128
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "the", "dog", "ran", "to", "the", "sun", "where", "ants", "are")

TOML = f"""
experiment = "registered"
question = "Does it run?"
hypothesis = "Es läuft: 是的"
task = "lm"
data = "a few words"
metric = "nats_per_token"
lower_is_better = true
arms = ["standard", "split_kv"]
baseline = "standard"
primary = [["split_kv", "standard"]]
seeds = [0, 1, 2, 3, 4, 5, 6, 7]
lrs = [1e-3, 2e-3, 4e-3, 1e-2]
budgets = [{2 * STEP}]
analysis = "by the fixed words"
stop_rule = "all runs"

[size]
{chr(10).join(f"{name} = {value}" for name, value in SIZE.items())}
"""


def texts(folder, shift=0):
    """train, dev and test, made by a rule; another shift makes others."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, start, count in (("train", 0, 916), ("dev", 5, 60), ("test", 7, 60)):
        words = [WORDS[(start + shift + place * place // 3) % len(WORDS)] for place in range(count)]
        (folder / f"{name}.txt").write_text(" ".join(words), encoding="utf-8")
    return folder


def plan(**changes):
    told = {
        "experiment": "quick",
        "question": "Does it run?",
        "hypothesis": "none",
        "task": "lm",
        "data": "a few words",
        "metric": "nats_per_token",
        "lower_is_better": True,
        "arms": ("standard", "split_kv"),
        "baseline": "standard",
        "primary": (),
        "seeds": (0, 1),
        "lrs": (1e-3, 1e-2),
        "budgets": (6 * STEP,),
        "analysis": "none",
        "stop_rule": "all runs",
        "exploratory": True,
        "size": SIZE,
    }
    return Plan(**told | changes)


class Heard(Progress):
    """A progress that remembers which runs began, with `begins` called before each, and what else was noted."""

    def __init__(self):
        self.begun, self.notes = [], []

    def begins(self, key):
        self.begun.append(key)

    def note(self, text):
        if not re.match(r"(grid|final) .* to go\)$|  \w+ (diverged|\d)", text):
            self.notes.append(text)
