"""From an epoch's batches to what this process computes: its pieces, collated, ahead of time if asked."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from twofold.training.distribution import Processes
from twofold.training.order import shares
from twofold.training.packing import NO_LABEL
from twofold.training.randomness import number_of
from twofold.training.settings import Settings
from twofold.training.streaming import Numbered

Features = Mapping[str, Any]
Collate = Callable[[list[Any]], Mapping[str, Any]]


class Piece(NamedTuple):
    batch: Mapping[str, Any]
    # A process without examples in this step computes a batch that does not count: all take part in every step.
    counts: bool

    @property
    def tokens(self) -> int:
        """Tokens without padding, where attention_mask tells it: of input_ids or, for pictures, of labels."""
        if not self.counts:
            return 0
        mask, ids, labels = (self.batch.get(name) for name in ("attention_mask", "input_ids", "labels"))
        if isinstance(ids, Tensor):
            return int((mask != 0).sum()) if isinstance(mask, Tensor) else ids.numel()
        return int((labels != NO_LABEL).sum()) if isinstance(labels, Tensor) else 0


def fed(
    train: Sequence[Features] | Numbered,
    collate: Collate,
    batches: list[list[int]],
    settings: Settings,
    processes: Processes,
    step: int,
) -> Generator[list[Piece]]:
    """For every batch, this process's pieces of it. `step`, at which this begins, is part of the workers' seed."""
    mine = [shares(batch, processes.rank, processes.count, settings.accumulate) for batch in batches]
    loader = DataLoader(
        train,  # type: ignore[arg-type]
        batch_sampler=[piece or batch[:1] for batch, pieces in zip(batches, mine, strict=True) for piece in pieces],
        collate_fn=collate,
        num_workers=settings.workers,
        pin_memory=processes.device.type == "cuda",
        # A generator of its own: the default one is what dropout draws from. It also seeds the workers.
        generator=torch.Generator().manual_seed(number_of(settings.seed, processes.rank, step)),
    )
    ready = iter(loader)
    for pieces in mine:
        yield [Piece(next(ready), bool(piece)) for piece in pieces]
