"""Run by test_distribution in two processes.

torchrun --nproc-per-node 2 tests/training/two_processes.py FOLDER '{"changes": {...}, "resume": false}' EXIT_STEP

Trains the tiny model; with EXIT_STEP above 0 the first process gets SIGTERM there, as a batch system would send it.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.training import tiny
from twofold.training import Stopped, leave
from twofold.training.progress import Silent


class SignalAt(Silent):
    def __init__(self, step):
        self.at = step

    def step(self, step):
        if step.step == self.at:
            os.kill(os.getpid(), signal.SIGTERM)


def main(folder, options, exit_step):
    torch.set_num_threads(1)
    options = json.loads(options)
    # What differs between the processes must not matter: all begin with the first one's weights.
    model = tiny.model(**options.pop("config", {}))
    if os.environ["RANK"] == "1":
        with torch.no_grad():
            model.model.embedding.tokens.weight.add_(1)
    code = 0
    try:
        tiny.train(Path(folder), model=model, progress=SignalAt(int(exit_step)), **options)
    except Stopped as stopped:
        # torchrun counts everything but 0 as a failure.
        code = 0 if stopped.exit_code == 143 and int(exit_step) else 1
    leave(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
