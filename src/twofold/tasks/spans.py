"""From tagged words to named pieces of a text."""

from collections.abc import Sequence

from twofold.data.examples import Slot


def spans_of(words: Sequence[tuple[int, int]], tags: Sequence[str]) -> tuple[Slot, ...]:
    """Named pieces of words at these places with BIO tags; a piece that begins with I begins all the same."""
    slots: list[Slot] = []
    open_name = None
    for (start, end), tag in zip(words, tags, strict=True):
        name = tag[2:] or None
        if name is not None and name == open_name and tag[0] == "I":
            slots[-1] = Slot(name, slots[-1].start, end)
        elif name is not None:
            slots.append(Slot(name, start, end))
        open_name = name
    return tuple(slots)
