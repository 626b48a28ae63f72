"""Run by test_distribution in two processes: trains the tiny model, in one run after the other.

torchrun --nproc-per-node 2 tests/training/two_processes.py '[{"folder": ..., "changes": {...}, "stop": 3}, ...]'

With "stop" the first process gets a SIGTERM after that step, as a batch system would send it.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
from torch.distributed.tensor import DTensor

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.training import tiny
from twofold.training import Stopped, leave
from twofold.training.progress import Progress


class SignalAt(Progress):
    def __init__(self, step):
        self.at = step

    def step(self, step):
        if step.step == self.at:
            os.kill(os.getpid(), signal.SIGTERM)


def evaluate_shared(how):
    def evaluate(model):
        # FSDP that is silently something else would pass every other check.
        is_cut = [isinstance(parameter, DTensor) for parameter in model.parameters()]
        if is_cut != [how == "fsdp"] * len(is_cut):
            raise AssertionError(f"{sum(is_cut)} of {len(is_cut)} parameters are shared out under {how}")
        return tiny.evaluate(model)

    return evaluate


def train(folder, changes, config, kind="model", stop=0, **options):
    model = getattr(tiny, kind)(**config)
    # What differs between the processes must not matter: all begin with the first one's weights.
    if os.environ["RANK"] == "1":
        with torch.no_grad():
            model.get_input_embeddings().weight.add_(1)
    try:
        evaluate = evaluate_shared(changes.get("distribution"))
        tiny.train(Path(folder), model=model, changes=changes, progress=SignalAt(stop), evaluate=evaluate, **options)
    except Stopped as stopped:
        if not stop or stopped.exit_code != 143:
            raise


if __name__ == "__main__":
    torch.set_num_threads(1)
    for job in json.loads(sys.argv[1]):
        train(**job)
    leave(0)
