"""From scores of tags to the best tags of a sentence, and from tagged words to named pieces of a text."""

from collections.abc import Sequence

from torch import Tensor

from twofold.data.examples import Slot


def best_path(scores: Tensor, moves: Tensor | None) -> list[int]:
    """The tags (T) of greatest sum of scores (T, tags) and of the moves from each to the next: Viterbi's way.

    moves (tags + 1, tags): from a row's tag to a column's, the last row from the start; -inf is never made.
    """
    if moves is None:
        return scores.argmax(-1).tolist()
    total, came = scores[0] + moves[-1], []
    for row in scores[1:]:
        best, before = (total[:, None] + moves[:-1]).max(0)
        came.append(before)
        total = best + row
    path = [int(total.argmax())]
    for before in reversed(came):
        path.append(int(before[path[-1]]))
    return path[::-1]


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
