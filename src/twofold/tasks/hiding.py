"""Token dropout: tokens that a training batch does not show, so that no answer may depend on a single one."""

import torch
from torch import Tensor

from twofold_runtime.tokens import PAD, SEPARATOR, UNKNOWN
from twofold_runtime.words import SPELLING

# Share of tokens that are hidden unless a task knows better.
HIDDEN = 0.1
# Of words: shares with all spelling features but the shape hidden, with the word alone hidden; of single features.
HIDDEN_WHOLLY, HIDDEN_WORDS, HIDDEN_FEATURES = 0.15, 0.15, 0.1


def with_token_dropout(ids: Tensor, share: float = HIDDEN) -> Tensor:
    """The ids with a share of them unknown, drawn anew every time. Special tokens stay."""
    return ids.masked_fill((torch.rand(ids.shape) < share) & ~_special(ids), UNKNOWN)


def with_word_dropout(batch: dict[str, Tensor], separator: bool = False) -> dict[str, Tensor]:
    """The batch with some words as if training had never shown them: wholly, or all but their spelling."""
    ids, features = batch["input_ids"], batch["cue_ids"]
    draw = torch.rand(ids.shape)
    unknown = (draw < HIDDEN_WHOLLY + HIDDEN_WORDS) & ~_special(ids, separator)
    left_out = torch.rand(features.shape) < HIDDEN_FEATURES
    # The first feature is the shape, which the newest word has; after the spelling comes what a task knows by itself.
    left_out[..., 1:SPELLING] |= (draw < HIDDEN_WHOLLY)[..., None]
    return {**batch, "input_ids": ids.masked_fill(unknown, UNKNOWN), "cue_ids": features.masked_fill(left_out, PAD)}


def _special(ids: Tensor, separator: bool = False) -> Tensor:
    """Where padding, beginning, end, unknown and, where a task has one, the separator stand."""
    return ids <= (SEPARATOR if separator else UNKNOWN)
