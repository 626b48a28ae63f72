"""Many short sequences in rows of one length, without padding and without seeing each other."""

from collections.abc import Iterable, Sequence

# What transformers' losses pass over.
NO_LABEL = -100


def packed(sequences: Iterable[Sequence[int]], length: int, pad: int = 0) -> list[dict[str, list[int]]]:
    """Rows of exactly `length` tokens for a causal language model: input_ids, position_ids and labels.

    Sequences lie end to end. Positions begin again at 0 with each of them, by which transformers' masks tell them apart
    (give no attention_mask), and the first token of each has no label, because nothing before it belongs to it. What
    does not fit goes on in the next row as a sequence of its own. The last row is filled with `pad`, which has no
    labels.
    """
    if length < 2:
        raise ValueError(f"length must be at least 2, got {length}")
    rows: list[dict[str, list[int]]] = []
    row: dict[str, list[int]] = {"input_ids": [], "position_ids": [], "labels": []}

    def append(tokens: Sequence[int], labels: Sequence[int]) -> None:
        row["input_ids"].extend(tokens)
        row["position_ids"].extend(range(len(tokens)))
        row["labels"].extend(labels)

    for sequence in sequences:
        start = 0
        while start < len(sequence):
            piece = list(sequence[start : start + length - len(row["input_ids"])])
            append(piece, [NO_LABEL, *piece[1:]])
            start += len(piece)
            if len(row["input_ids"]) == length:
                rows.append(row)
                row = {"input_ids": [], "position_ids": [], "labels": []}
    if row["input_ids"]:
        missing = length - len(row["input_ids"])
        append([pad] * missing, [NO_LABEL] * missing)
        rows.append(row)
    return rows
