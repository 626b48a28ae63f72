"""Runs a command of twofold in forks of a process that has imported all it needs: a fork begins at once.

`python -m tests.cli.forked kill N WORD ...` begins it N times and kills it after a while, another one each time.
`python -m tests.cli.forked beside N WORD ...` begins it N times at once, and prints the exit codes.
"""

import json
import os
import random
import signal
import sys
import time

import twofold.lab.runner
import twofold.report.lab.page  # noqa: F401
from twofold.cli import main


def begun(words):
    if child := os.fork():
        return child
    os._exit(main(words))


def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    how, count, *words = sys.argv[1:]
    chance = random.Random(0)  # noqa: S311
    if how == "kill":
        codes = []
        # The first so soon that none can be done, however fast the machine.
        for after in [0.05, *sorted(chance.uniform(0.05, 0.4) for _ in range(int(count) - 1))]:
            child = begun(words)
            time.sleep(after)
            os.kill(child, signal.SIGKILL)
            codes.append(ended(child))
    else:
        codes = [ended(child) for child in [begun(words) for _ in range(int(count))]]
    sys.stderr.write(json.dumps(codes) + "\n")
