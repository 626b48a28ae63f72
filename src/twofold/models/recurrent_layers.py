"""The parts of a recurrent model: layers of cells, the state that is its cache, and steps that padding skips.

A state is a tuple of (B, hidden) tensors: (h,) of a vanilla RNN or GRU, (h, c) of an LSTM.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

CELL_CLASSES: dict[str, Any] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}

State = tuple[Tensor, ...]


class RecurrentCache:
    """What a recurrent model has made of all it has read: a state for each layer, of one size however long the text.

    Beside the states it keeps what the last step showed, (B, 1, C) each, for steps that show nothing of their own.
    `generate()` takes it as past_key_values.
    """

    # transformers asks this of every cache.
    is_compileable = False

    def __init__(self, states: Sequence[State] = (), seen: int = 0) -> None:
        self.states, self.seen = list(states), seen
        self.shown: list[Tensor] = []

    def __len__(self) -> int:
        return len(self.states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many steps were read, padding included."""
        del layer_idx
        return self.seen

    def update(self, states: Sequence[State], shown: Sequence[Tensor]) -> None:
        """shown (B, T, C): each layer's output, and whatever else hidden steps repeat. Its last step is kept."""
        self.states, self.seen = list(states), self.seen + shown[0].shape[1]
        # Copies: a view would keep all steps alive.
        self.shown = [output[:, -1:].clone() for output in shown]

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Row i becomes what row beam_idx[i] was: for beam search."""
        self.states = [tuple(part.index_select(0, beam_idx.to(part.device)) for part in s) for s in self.states]
        self.shown = [output.index_select(0, beam_idx.to(output.device)) for output in self.shown]

    def reset(self) -> None:
        self.states, self.shown, self.seen = [], [], 0


def check_cache(past: Any) -> None:
    if past is not None and not isinstance(past, RecurrentCache):
        raise ValueError(f"past_key_values must be a RecurrentCache for a recurrent model, got {type(past).__name__}")


def check_unpacked(position_ids: Tensor | None, attention_mask: Tensor | None) -> None:
    """Several texts in one row have positions that start anew; a state would go from one into the next."""
    if position_ids is None or type(position_ids) is not Tensor or torch.compiler.is_compiling():
        return
    if position_ids.is_meta:
        return
    restarts = position_ids[..., 1:] < position_ids[..., :-1]
    if attention_mask is not None:
        # Positions of padding mean nothing.
        seen = attention_mask[:, -position_ids.shape[-1] :].bool()
        restarts = restarts & seen[:, 1:] & seen[:, :-1]
    if bool(restarts.any()):
        raise ValueError("position_ids must not start anew within a row: recurrent models take one text a row")


class RealSteps(NamedTuple):
    """Which steps of a padded batch are read. The others leave every state as it is, wherever they stand."""

    order: Tensor  # (B, T) the real steps, one after the other, then the rest
    latest: Tensor  # (B, T) how many real steps came before the latest one; -1 where none has come yet
    lengths: Tensor  # (B,) on the CPU, as packing wants it

    def first(self, x: Tensor) -> Tensor:
        """(B, T, C) with the real steps in front."""
        return x.gather(1, self.order[..., None].expand_as(x))

    def back(self, x: Tensor, before: Tensor | None) -> Tensor:
        """The way back: a skipped step shows what the latest real one did, `before` x if need be, or zeros if none."""
        gathered = x.gather(1, self.latest.clamp(min=0)[..., None].expand_as(x))
        is_earlier = (self.latest < 0)[..., None]
        return gathered.masked_fill(is_earlier, 0.0) if before is None else torch.where(is_earlier, before, gathered)


def check_steps(x: Tensor) -> None:
    if x.shape[1] == 0:
        raise ValueError(f"input must have at least one step, got shape {tuple(x.shape)}")


def real_steps(attention_mask: Tensor | None, x: Tensor) -> RealSteps | None:
    """None where every step of x (B, T, ...) is real. A mask may cover what a cache has seen as well."""
    if attention_mask is None:
        return None
    B, T = x.shape[:2]
    if attention_mask.dim() != 2 or attention_mask.shape[0] != B or attention_mask.shape[1] < T:
        raise ValueError(
            f"attention_mask must have shape {(B, T)}, or more columns for what was read before, "
            f"got {tuple(attention_mask.shape)}"
        )
    mask = attention_mask[:, -T:].bool()
    if mask.all():
        return None
    order = (~mask).to(torch.uint8).argsort(dim=1, stable=True)
    return RealSteps(order, mask.cumsum(1) - 1, mask.sum(1).cpu())


class RecurrentLayer(nn.Module):
    """One layer of cells over a sequence, torch's own."""

    def __init__(self, config: Any, *, width_in: int, bidirectional: bool) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        width = config.hidden_size // 2 if bidirectional else config.hidden_size
        self.cell = CELL_CLASSES[config.cell](width_in, width, batch_first=True, bidirectional=bidirectional)
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.adds_input = config.residual and width_in == config.hidden_size

    def forward(self, x: Tensor, state: State | None = None, lengths: Tensor | None = None) -> tuple[Tensor, State]:
        """x (B, T, C) to (B, T, hidden) and the state after each row's last step; `lengths` says which that is."""
        y, last = self._run(self.dropout(x), state, lengths)
        return (x + y if self.adds_input else y), last

    def _run(self, x: Tensor, state: State | None, lengths: Tensor | None) -> tuple[Tensor, State]:
        start: Any = None
        if state is not None:
            start = tuple(part[None].contiguous() for part in state)
            # By what there is: a quantised LSTM is another class.
            start = start if len(start) > 1 else start[0]
        if lengths is None:
            y, end = self.cell(x, start)
            return y, _joined(end)
        # Packing knows no empty rows; theirs is run for one step, and the state of before put back.
        packed = pack_padded_sequence(x, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
        y, end = self.cell(packed, start)
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
        last = _joined(end)
        if (lengths == 0).any():
            empty = (lengths == 0).to(x.device)[:, None]
            before = state or tuple(torch.zeros_like(part) for part in last)
            last = tuple(torch.where(empty, old, new) for old, new in zip(before, last, strict=True))
        return y, last


def _joined(end: Tensor | tuple[Tensor, Tensor]) -> State:
    """torch's (directions, B, units), or two of them, as (B, directions * units)."""
    parts = end if isinstance(end, tuple) else (end,)
    return tuple(part.transpose(0, 1).flatten(1) for part in parts)


def recurrent_layers(config: Any, *, bidirectional: bool = False, extra_input: int = 0) -> nn.ModuleList:
    """As many as the configuration says; the first reads `extra_input` numbers beside the embedding."""
    return nn.ModuleList(
        RecurrentLayer(config, width_in=config.hidden_size + (0 if n else extra_input), bidirectional=bidirectional)
        for n in range(config.num_hidden_layers)
    )


class Run(NamedTuple):
    output: Tensor  # (B, T, hidden)
    hidden_states: tuple[Tensor, ...]  # the first layer's input and the output of each
    states: list[State]  # after each row's last real step, a layer each


def run(
    layers: nn.ModuleList,
    x: Tensor,
    states: Sequence[State | None],
    steps: RealSteps | None,
    shown: Sequence[Tensor] = (),
) -> Run:
    """x through all layers. Padding is moved behind the real steps once, and back once.

    shown (B, 1, hidden): each layer's output at the step before x, unless x is the first that is read.
    """
    check_steps(x)
    before = shown or [None] * len(layers)
    seen, ends, lengths = [x], [], None
    if steps is not None:
        x, lengths = steps.first(x), steps.lengths
    for layer, state, last in zip(layers, states, before, strict=True):
        x, end = layer(x, state, lengths)
        ends.append(end)
        seen.append(x if steps is None else steps.back(x, last))
    return Run(seen[-1], tuple(seen), ends)
