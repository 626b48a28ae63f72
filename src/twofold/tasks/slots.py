"""The likeliest tags of a sentence's words, with slots that its goal is known to have.

A tag by itself is often unsure where a slot with a new value begins or ends; taken together, tags may only begin and go
on as slots do.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from twofold.data.examples import Utterance
from twofold.tasks.viterbi import best_path


def slots_of_goals(train: Iterable[Utterance]) -> dict[str, list[str]]:
    """Names of the slots that occur with every goal."""
    slots: dict[str, set[str]] = {}
    for one in train:
        if one.goal is not None:
            slots.setdefault(one.goal, set()).update(slot.name for slot in one.slots)
    return {goal: sorted(names) for goal, names in sorted(slots.items())}


class Allowed(NamedTuple):
    """Labels that a goal's words may have, their places among all, and which may never follow which."""

    labels: list[str]
    places: list[int]
    never: Tensor


class SlotTags:
    """Chooses tags together: `labels` are all there are, `slots` names those of every goal."""

    def __init__(self, labels: Sequence[str], slots: Mapping[str, Sequence[str]]) -> None:
        self.labels, self.slots = labels, slots
        # Found once a goal. No functools.cache: a task goes to workers of a data loader, and that could not.
        self._allowed: dict[str, Allowed] = {}

    def best(self, scores: Tensor, moves: Tensor, goal: str) -> list[str]:
        """Tags of words with these scores (words, labels); moves (labels + 1, labels) as a chain has them."""
        if goal not in self._allowed:
            self._allowed[goal] = self._find_allowed(goal)
        labels, places, never = self._allowed[goal]
        if not len(scores) or len(labels) == 1:
            return ["O"] * len(scores)
        moves = moves[[*places, len(self.labels)]][:, places].masked_fill(never, -math.inf)
        return [labels[place] for place in best_path(scores[:, places], moves)]

    def _find_allowed(self, goal: str) -> Allowed:
        names = self.slots.get(goal, ())
        places = [place for place, label in enumerate(self.labels) if label == "O" or label[2:] in names]
        labels = [self.labels[place] for place in places]
        # From the start as from no slot: nothing goes on there.
        never = [[after[0] == "I" and before[2:] != after[2:] for after in labels] for before in (*labels, "O")]
        return Allowed(labels, places, torch.tensor(never))
