"""Tokens that a training batch does not show, so that nobody may lean on a single one."""

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

# Share of tokens that are hidden unless a task knows better.
HIDDEN = 0.1


def some_hidden(ids: Tensor, tokenizer: PreTrainedTokenizerBase, share: float = HIDDEN) -> Tensor:
    """The ids with a share of them unknown, drawn anew every time. Special tokens stay."""
    special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    return ids.masked_fill((torch.rand(ids.shape) < share) & ~special, tokenizer.unk_token_id)
