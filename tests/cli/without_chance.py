"""The command `twofold`, in which batches of goals hide and substitute nothing.

What is hidden is drawn by every process for itself, so that only without it two processes can be compared with one.
"""

import sys

from twofold.cli import main
from twofold.tasks import goals, hiding

goals.SUBSTITUTED = hiding.HIDDEN_WHOLLY = hiding.HIDDEN_WORDS = hiding.HIDDEN_FEATURES = 0.0

if __name__ == "__main__":
    sys.exit(main())
