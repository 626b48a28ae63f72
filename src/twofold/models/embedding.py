"""From token numbers to vectors that know where they stand."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from twofold.attention.positions import sinusoidal
from twofold.attention.rotary import RotaryTable
from twofold.kernels import autocast
from twofold.models.rope import rotary_of


def second_table(model: PreTrainedModel, own: Any, table: Any) -> Any:
    """A decoder's table beside the encoder's new one: that where both are tied, else its own, made as long."""
    return table if model.config.tie_word_embeddings else model._get_resized_embeddings(own, table.num_embeddings)


class Embedding(nn.Module):
    """Token embeddings with their positions added, and the rotary table that rotary layers take instead."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.learned = None
        if config.positions == "learned":
            self.learned = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.rotary = rotary_of(config) if config.positions == "rotary" else None
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(
        self, input_ids: Tensor | None, inputs_embeds: Tensor | None, position_ids: Tensor
    ) -> tuple[Tensor, RotaryTable | None]:
        config, rotary_table = self.config, None
        x = self.vectors(input_ids, inputs_embeds)
        if self.rotary is not None:
            dtype = x.dtype
            # float64 it leaves alone.
            if dtype != torch.float64 and autocast.is_on(x.device.type):
                dtype = torch.get_autocast_dtype(x.device.type)
            rotary_table = self.rotary.at(position_ids, dtype)
        elif self.learned is not None:
            x = x + self._learned(self.learned, position_ids)
        elif config.positions == "sinusoidal":
            x = x + sinusoidal(position_ids, config.hidden_size, dtype=x.dtype)
        return self.dropout(x), rotary_table

    def vectors(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
        """Of the tokens alone, as the recipe scales them."""
        x = self.tokens(input_ids) if inputs_embeds is None else inputs_embeds
        return x * self.config.hidden_size**0.5 if self.config.recipe == "classic" else x

    @staticmethod
    def _learned(table: nn.Embedding, position_ids: Tensor) -> Tensor:
        if not torch.compiler.is_compiling() and not position_ids.is_meta and position_ids.numel():
            # Both at once: a GPU is waited for.
            first, last = torch.stack(position_ids.aminmax()).tolist()
            if first < 0:
                raise ValueError(f"position_ids must be at least 0 for learned positions, got {first}")
            if last >= table.num_embeddings:
                raise ValueError(f"positions must lie below max_position_embeddings {table.num_embeddings}, got {last}")
        return table(position_ids)
