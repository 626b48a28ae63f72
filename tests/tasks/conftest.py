"""One small run of the goals, trained once a worker."""

import json

import pytest

from twofold.data.goals import goals
from twofold.tasks.options import ModelOptions
from twofold.training.run import train_task
from twofold.training.settings import Settings

SETTINGS = Settings(steps=160, batch_size=32, learning_rate=3e-3, evaluate_steps=80)
KEPT = ("lights_on", "alarm_set", "call_start", "weather_ask", None)


def written(utterances, path):
    """As one's own JSONL."""
    lines = [
        {
            "text": one.text,
            "goal": one.goal,
            "slots": [{"name": slot.name, "start": slot.start, "end": slot.end} for slot in one.slots],
        }
        for one in utterances
    ]
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture(scope="session")
def goal_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("goals")
    splits = goals()
    for name, most in (("train", 500), ("dev", 80), ("test", 80)):
        written([one for one in getattr(splits, name) if one.goal in KEPT][:most], folder / f"{name}.jsonl")
    return folder


@pytest.fixture(scope="session")
def goal_run(goal_files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "goals"
    train_task("goals", folder=folder, options=ModelOptions(), settings=SETTINGS, data=goal_files)
    return folder
