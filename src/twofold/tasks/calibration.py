"""What is tuned on the dev split after training: a temperature for honest confidences, a threshold of evidence."""

import math
from collections.abc import Sequence

import numpy as np


def best_temperature(logits: np.ndarray, truth: np.ndarray) -> float:
    """What to divide logits (N, classes) by so that the truth (N,) is likeliest, to within 2 %; between 0.05 and 20.

    After Platt: as if of two examples more one were wrong, so that a few that are all right make nobody sure.
    """
    candidates = np.logspace(-1.3, 1.3, 261)
    # Of what is spread over all classes the right one has a share, too.
    classes = logits.shape[1]
    doubt = min(1.0, classes / max(classes - 1, 1) / (len(truth) + 2))
    logits = logits.astype(np.float64)
    logits = logits - logits.max(1, keepdims=True)
    # The loss is linear in the logits but for the log of the sum of their exponentials.
    target = (1 - doubt) * logits[np.arange(len(truth)), truth] + doubt * logits.mean(1)
    losses = [np.log(np.exp(logits / one).sum(1)).mean() - target.mean() / one for one in candidates]
    return float(candidates[int(np.argmin(losses))])


def best_threshold(evidence: Sequence[float], right: Sequence[bool], outside: Sequence[bool]) -> float:
    """The evidence below which to reject, so that most utterances are answered right. 0 where nothing is outside."""
    if not any(outside):
        return 0.0
    ranked = sorted(zip(evidence, right, outside, strict=True))
    accepted = sum(right)
    best, threshold = accepted, 0.0
    rejected = 0
    for place, (low, is_right, is_outside) in enumerate(ranked):
        accepted -= is_right
        rejected += is_outside
        high = ranked[place + 1][0] if place + 1 < len(ranked) else math.inf
        # Equal ones are accepted or rejected together.
        if high > low and accepted + rejected > best:
            best = accepted + rejected
            threshold = math.nextafter(low, math.inf) if high == math.inf else (low + high) / 2
    return threshold
