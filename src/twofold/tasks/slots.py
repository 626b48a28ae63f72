"""Which slots a goal has, how long they are, and the likeliest tags of a sentence's words under both.

Learned by counting in the training split. A tag by itself is often unsure where a slot with a new value begins or ends;
taken together, tags may only begin and go on as slots do, with slots that the goal is known to have.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from twofold.data.examples import Utterance
from twofold.tasks.spans import best_path

# How much the counts weigh beside what the model says.
WEIGHT = 0.5


def counted(train: Sequence[Utterance], tags: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Plain JSON: the slots of every goal, and how likely a word of a slot is followed by another one of it."""
    slots: dict[str, set[str]] = {}
    begun, gone_on = Counter[str](), Counter[str]()
    for one, words in zip(train, tags, strict=True):
        slots.setdefault(one.goal or "", set()).update(slot.name for slot in one.slots)
        begun.update(tag[2:] for tag in words if tag[0] == "B")
        gone_on.update(tag[2:] for tag in words if tag[0] == "I")
    goes_on = {name: (gone_on[name] + 0.5) / (begun[name] + gone_on[name] + 1) for name in sorted(begun)}
    return {"of_goal": {goal: sorted(names) for goal, names in sorted(slots.items())}, "goes_on": goes_on}


def likeliest(logits: Tensor, labels: Sequence[str], goal: str, counts: Mapping[str, Any]) -> list[str]:
    """The best tags of a sentence's words, (words, labels) -> one of `labels` a word, with slots of the goal alone."""
    names = set(counts["of_goal"].get(goal, ()))
    places = [place for place, label in enumerate(labels) if label == "O" or label[2:] in names]
    if not len(logits) or len(places) == 1:
        return ["O"] * len(logits)
    allowed = [labels[place] for place in places]
    scores = logits.float().log_softmax(-1)[:, places]
    # From the start as from no slot: nothing goes on there.
    moves = torch.tensor([[_move(one, next_one, counts["goes_on"]) for next_one in allowed] for one in (*allowed, "O")])
    return [allowed[place] for place in best_path(scores, moves)]


def _move(before: str, after: str, goes_on: Mapping[str, float]) -> float:
    """Of a tag to the next: its weighted log-probability as far as it is about slots going on or ending."""
    if after[0] == "I" and before[2:] != after[2:]:
        return -math.inf
    if before == "O":
        return 0.0
    stays = goes_on[before[2:]]
    return WEIGHT * math.log(stays if after[0] == "I" else 1 - stays)
