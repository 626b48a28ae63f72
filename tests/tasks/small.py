"""Runs that take seconds, for tests of tasks."""

import math
from collections import Counter
from dataclasses import replace

from twofold.tasks.options import ModelOptions
from twofold.tasks.registry import task_class
from twofold.training.run import train_task
from twofold.training.settings import Settings

SETTINGS = {"learning_rate": 4e-3, "log_steps": 50, "save_seconds": None, "device": "cpu"}


def trained(name, folder, *, choices=None, data=None, options=None, **settings):
    """One look at dev, at the end, unless settings say otherwise."""
    steps = settings.get("steps", 60)
    return train_task(
        name,
        folder=folder,
        options=ModelOptions(**(options or {})),
        settings=Settings(**{**SETTINGS, "steps": steps, "evaluate_steps": steps, **settings}),
        choices=choices,
        data=data,
    )


def train_small(name, folder, monkeypatch, *, train=300, dev=60, steps=60, **settings):
    """On the first examples of the embedded set; gives them back with the folder's scores."""
    kind = task_class(name)
    whole = kind.examples(None)
    part = replace(whole, train=whole.train[:train], dev=whole.dev[:dev])
    monkeypatch.setattr(kind, "examples", classmethod(lambda cls, data, seed=0: part))
    made = trained(name, folder, **{"steps": steps, "batch_size": 32, "learning_rate": 3e-3, **settings})
    return part, made.scores


def unigram_nats(train, text):
    """Of a model that knows how often each character comes, and nothing else."""
    counts = Counter(train)
    total = sum(counts.values()) + len(set(text) | set(counts))
    return -sum(math.log((counts[one] + 1) / total) for one in text) / len(text)
