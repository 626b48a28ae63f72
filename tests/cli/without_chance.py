"""The command `twofold`, in which batches of goals hide and renew nothing.

What is hidden is drawn by every process for itself, so that only without it two processes can be compared with one.
"""

import sys

from twofold.cli import main
from twofold.tasks import goals, words

goals.RENEWED = words.HIDDEN_WHOLLY = words.HIDDEN_WORDS = words.HIDDEN_CUES = 0.0

if __name__ == "__main__":
    sys.exit(main())
