"""Tags chosen together: slots of the goal alone, that begin before they go on."""

import pytest
import torch
from twofold.tasks.slots import SlotTags, slots_of_goals

from twofold.data.examples import Slot, Utterance

LABELS = ["O", "B-city", "I-city", "B-room", "I-room"]
SLOTS = {"weather": ["city"], "lights": ["room"], "move": ["city", "room"], "stop": []}
NONE = torch.zeros(len(LABELS) + 1, len(LABELS))


def scored(*best):
    """Words for each of which one label scores 2 and all others 0."""
    return torch.stack([torch.tensor([2.0 if name == one else 0.0 for name in LABELS]) for one in best])


@pytest.mark.parametrize(
    ("goal", "best", "tags"),
    [
        ("weather", ["O", "B-city", "I-city"], ["O", "B-city", "I-city"]),
        ("lights", ["B-city", "I-city"], ["O", "O"]),
        ("stop", ["B-city", "B-room"], ["O", "O"]),
        ("never heard of", ["B-city"], ["O"]),
        ("move", ["B-room", "B-city", "I-city"], ["B-room", "B-city", "I-city"]),
    ],
)
def test_a_goal_has_its_own_slots(goal, best, tags):
    assert SlotTags(LABELS, SLOTS).best(scored(*best), NONE, goal) == tags


def test_nothing_goes_on_that_has_not_begun():
    tags = SlotTags(LABELS, SLOTS)
    for best in (["I-city"], ["O", "I-city"], ["B-room", "I-city"], ["I-room", "I-room", "O"]):
        found = tags.best(scored(*best), NONE, "move")
        for before, after in zip(["O", *found], found, strict=False):
            assert after[0] != "I" or before[2:] == after[2:]


def test_moves_tip_the_scales():
    moves = NONE.clone()
    moves[LABELS.index("B-city"), LABELS.index("I-city")] = 5
    assert SlotTags(LABELS, SLOTS).best(scored("B-city", "O"), moves, "weather") == ["B-city", "I-city"]
    moves = NONE.clone()
    moves[-1, LABELS.index("B-city")] = -5
    assert SlotTags(LABELS, SLOTS).best(scored("B-city", "O"), moves, "weather") == ["O", "O"]


def test_no_words_have_no_tags():
    assert SlotTags(LABELS, SLOTS).best(torch.empty(0, len(LABELS)), NONE, "weather") == []


def test_slots_are_those_that_occur_with_a_goal():
    train = [
        Utterance("in rome", "weather", (Slot("city", 3, 7),)),
        Utterance("weather", "weather"),
        Utterance("stop", "stop"),
        Utterance("what is love", None),
    ]
    assert slots_of_goals(train) == {"stop": [], "weather": ["city"]}
