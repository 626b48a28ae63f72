"""From scores of tags to the best tags of a sentence."""

from torch import Tensor


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
