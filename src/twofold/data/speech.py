"""How a sentence is written down: case, punctuation, typing errors. Slots keep their places."""

import re
from dataclasses import replace
from random import Random

from twofold.data.examples import Slot
from twofold.data.grammar import Spoken

QUESTION = re.compile(
    r"(what|whose?|when|where|why|how|which|is|are|am|does|did|will|can|could|would|any|have (i|you)|do (?!me|not))\b",
    re.I,
)


def written(spoken: Spoken, rng: Random) -> Spoken:
    """A sentence as somebody types it: half of the time in small letters, else with capitals and stops; some typos."""
    if rng.random() < 0.13:
        spoken = misspelt(spoken, rng)
    style = rng.random()
    if style < 0.5:
        return replace(spoken, text="".join(map(_small, spoken.text)))
    if style < 0.52:
        return replace(spoken, text="".join(map(_capital, spoken.text)))
    text = re.sub(r"\bi\b", "I", spoken.text)
    text = _capital(text[0]) + text[1:]
    if style < 0.65 or text[-1] in ".?!":
        return replace(spoken, text=text)
    return replace(spoken, text=text + ("?" if QUESTION.match(text) else rng.choice("....!")))


# Letters whose other case has another length (ß, İ) stay as they are, so that slots keep their places.
def _small(character: str) -> str:
    return character.lower() if len(character.lower()) == 1 else character


def _capital(character: str) -> str:
    return character.upper() if len(character.upper()) == 1 else character


def misspelt(spoken: Spoken, rng: Random) -> Spoken:
    """One letter inside of a longer word swapped with its neighbour, dropped or doubled."""
    text, slots = spoken.text, spoken.slots
    edges = {edge for slot in slots for edge in (slot.start, slot.end)}
    # Inner letters only: people seldom miss the first, and a slot's edge is never moved.
    inner = [
        place
        for place in range(1, len(text) - 2)
        if all(letter.isascii() and letter.isalpha() for letter in text[place - 1 : place + 3])
        and not edges & {place, place + 1, place + 2}
    ]
    if not inner:
        return spoken
    place = rng.choice(inner)
    match rng.randrange(3):
        case 0:
            text = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
            return replace(spoken, text=text)
        case 1:
            text, by = text[:place] + text[place + 1 :], -1
        case _:
            text, by = text[:place] + text[place] + text[place:], 1
    return Spoken(text, tuple(_moved(slot, place, by) for slot in slots))


def _moved(slot: Slot, place: int, by: int) -> Slot:
    return Slot(slot.name, slot.start + by * (slot.start > place), slot.end + by * (slot.end > place))
