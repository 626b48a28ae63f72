"""Runs of a task on a part of its embedded set, small enough for a test."""

from dataclasses import replace

from twofold.tasks.options import ModelOptions
from twofold.tasks.runs import task_class
from twofold.training.run import train_task
from twofold.training.settings import Settings


def train_small(name, folder, monkeypatch, *, train=300, dev=60, steps=60, **settings):
    """Trained on the first examples; gives them back with the folder's scores."""
    kind = task_class(name)
    whole = kind.examples(None)
    part = replace(whole, train=whole.train[:train], dev=whole.dev[:dev])
    monkeypatch.setattr(kind, "examples", classmethod(lambda cls, data, seed=0: part))
    given = {"steps": steps, "batch_size": 32, "learning_rate": 3e-3, "evaluate_steps": steps, "device": "cpu"}
    trained = train_task(
        name, folder=folder, options=ModelOptions(), settings=Settings(**{**given, **settings}), force=True
    )
    return part, trained.scores
