"""Runs that take seconds, for tests of tasks."""

import math
from collections import Counter

from twofold.tasks.options import ModelOptions
from twofold.training import Settings
from twofold.training.run import train_task

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


def unigram_nats(train, text):
    """Of a model that knows how often each character comes, and nothing else."""
    counts = Counter(train)
    total = sum(counts.values()) + len(set(text) | set(counts))
    return -sum(math.log((counts[one] + 1) / total) for one in text) / len(text)
