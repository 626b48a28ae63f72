"""The recurrent encoder-decoder: a context vector, fed once or at every step, or attention to all that was read."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin
from transformers.modeling_outputs import (
    BaseModelOutputWithPastAndCrossAttentions,
    ModelOutput,
    Seq2SeqLMOutput,
)
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults

from twofold.attention.additive import AdditiveAttention, Attended
from twofold.kernels.api import split_attention_weights
from twofold.models.answer_loss import answer_loss, decoder_reads, outputs_of_both, read_while_taught
from twofold.models.embedding import second_table
from twofold.models.recurrent import EmbeddedModel, RecurrentPreTrainedModel
from twofold.models.recurrent_config import RecurrentConfig
from twofold.models.recurrent_layers import (
    RecurrentCache,
    Run,
    State,
    check_cache,
    check_steps,
    check_unpacked,
    real_steps,
    recurrent_layers,
    run,
)


class DotAttention(nn.Module):
    """score = scale * q . m: no weights of its own."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, query: Tensor, memory: Tensor, *, attn_mask: Tensor | None = None) -> Attended:
        """As in `AdditiveAttention`."""
        mask = None if attn_mask is None else attn_mask[:, None]
        weights = split_attention_weights(query[:, None], memory[:, None], attn_mask=mask, scale=self.scale)[:, 0]
        return Attended(weights @ memory, weights)


def attention_of(config: RecurrentConfig) -> nn.Module | None:
    width = config.hidden_size
    match config.attention:
        case "additive":
            return AdditiveAttention(width, width, width)
        case "dot":
            return DotAttention(1.0)
        case "scaled_dot":
            return DotAttention(1 / math.sqrt(width))
    return None


@dataclass
class RecurrentEncoderOutput(ModelOutput):
    last_hidden_state: Tensor | None = None  # (B, S, hidden): what attention looks at
    final_state: Tensor | None = None  # (B, layers, 1 or 2, hidden): h, and c of an LSTM, where the decoder starts
    hidden_states: tuple[Tensor, ...] | None = None


class RecurrentEncoder(EmbeddedModel):
    """Reads the question, one way or both."""

    _is_encoder_decoder = True

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.layers = recurrent_layers(config, bidirectional=config.bidirectional)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **options: Any,
    ) -> RecurrentEncoderOutput:
        x = self.embedded(input_ids, inputs_embeds)
        steps = real_steps(attention_mask, x)
        check_unpacked(options.get("position_ids"), attention_mask)
        result = run(self.layers, x, [None] * len(self.layers), steps)
        wants = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        return RecurrentEncoderOutput(
            last_hidden_state=result.output,
            final_state=torch.stack([torch.stack(state, dim=1) for state in result.states], dim=1),
            hidden_states=result.hidden_states if wants else None,
        )


class RecurrentDecoder(EmbeddedModel):
    """Writes the answer: starts from a state, and looks at memories or at the state it started from."""

    _is_encoder_decoder = True

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        width = config.hidden_size
        self.attention = attention_of(config)
        self.feeds_context = self.attention is None and config.context == "every"
        self.asks_before = self.attention is not None and config.asks == "before"
        extra = width if self.feeds_context or self.asks_before else 0
        self.layers = recurrent_layers(config, extra_input=extra)
        self.combine = None if self.attention is None else nn.Linear(2 * width, width)
        self.post_init()

    @can_return_tuple
    @merge_with_config_defaults
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        initial_state: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **options: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """cross_attentions, where asked for: one (B, 1, T, S) of true weights, the alignment.

        Args:
            encoder_hidden_states: memories (B, S, hidden), which attention needs.
            initial_state: (B, layers, 1 or 2, hidden); its top h is the context vector. Zeros unless given.
        """
        del options
        check_cache(past_key_values)
        x = self.embedded(input_ids, inputs_embeds)
        if past_key_values is None and use_cache:
            past_key_values = RecurrentCache()
        # A cache that is still empty counts as none.
        start: Any = _states(initial_state) or [None] * len(self.layers)
        states = past_key_values.states if past_key_values else start
        shown = past_key_values.shown if past_key_values else []
        if self.feeds_context:
            if initial_state is None:
                raise ValueError('initial_state must be given for context="every": it holds the context vector')
            x = torch.cat([x, initial_state[:, -1, :1].expand(-1, x.shape[1], -1)], dim=-1)
        if self.attention is not None and encoder_hidden_states is None:
            raise ValueError("encoder_hidden_states must be given: attention has nothing to look at")
        mask = None if encoder_attention_mask is None else encoder_attention_mask.bool()[:, None]
        result, attended = self._read(x, states, shown, attention_mask, encoder_hidden_states, mask)
        if past_key_values is not None:
            # What was asked for before is no longer what the state would ask for.
            past_key_values.update(result.states, [*result.hidden_states[1:], *(attended if self.asks_before else ())])
        output, weights = result.output, None
        if attended is not None and self.combine is not None:
            weights = attended.weights
            output = torch.tanh(self.combine(torch.cat([output, attended.context], dim=-1)))
        wants = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        shows = self.config.output_attentions if output_attentions is None else output_attentions
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=output,
            past_key_values=past_key_values,
            hidden_states=result.hidden_states if wants else None,
            cross_attentions=(weights[:, None],) if shows and weights is not None else None,
        )

    def _read(
        self,
        x: Tensor,
        states: Any,
        shown: list[Tensor],
        attention_mask: Tensor | None,
        memory: Any,
        memory_mask: Tensor | None,
    ) -> tuple[Any, Any]:
        """The Run over all steps and, with attention, what it found at each."""
        steps = real_steps(attention_mask, x)
        look = partial(self.attention, memory=memory, attn_mask=memory_mask) if self.attention is not None else None
        if look is None or not self.asks_before:
            result = run(self.layers, x, states, steps, shown)
            return result, look and look(result.output)
        # Step by step: each reads, beside its token, what the top state before it found.
        check_steps(x)
        runs, contexts, weights = [], [], []
        for step, token in enumerate(x.split(1, dim=1)):
            top = x.new_zeros(x.shape[0], self.config.hidden_size) if states[-1] is None else states[-1][0]
            result = look(top[:, None])
            read = torch.cat([token, result.context], dim=-1)
            is_real = None if attention_mask is None else attention_mask[:, step - x.shape[1], None]
            steps = real_steps(is_real, read)
            runs.append(run(self.layers, read, states, steps, shown[: len(self.layers)]))
            if steps is not None and shown:
                # A skipped step shows what the latest real one had found.
                hidden = (steps.lengths == 0).to(x.device)[:, None, None]
                result = Attended(*(torch.where(hidden, *both) for both in zip(shown[-2:], result, strict=True)))
            shown = [*runs[-1].hidden_states[1:], *result]
            contexts.append(result.context)
            weights.append(result.weights)
            states = runs[-1].states
        output, *hidden = (
            torch.cat(parts, dim=1) for parts in zip(*((one.output, *one.hidden_states) for one in runs), strict=True)
        )
        return Run(output, tuple(hidden), states), Attended(torch.cat(contexts, dim=1), torch.cat(weights, dim=1))


def _states(stacked: Tensor | None) -> list[State]:
    """A tuple for each layer, out of (B, layers, parts, hidden)."""
    return [] if stacked is None else [layer.unbind(1) for layer in stacked.unbind(1)]


class RecurrentForConditionalGeneration(RecurrentPreTrainedModel, GenerationMixin):
    """Logits of every next token of the answer. With `labels` alone the decoder reads them shifted by one."""

    _is_encoder_decoder = True
    _tied_weights_keys = {
        "decoder.embedding.weight": "encoder.embedding.weight",
        "lm_head.weight": "encoder.embedding.weight",
    }

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        # Its own copy, which both sides share.
        own: Any = self.config
        self.encoder, self.decoder = RecurrentEncoder(own), RecurrentDecoder(own)
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.embedding

    def set_input_embeddings(self, value: Any) -> None:
        self.encoder.embedding = value
        self.decoder.embedding = second_table(self, self.decoder.embedding, value)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        teacher_forcing: float | None = None,
        smoothing: float = 0.0,
        **options: Any,
    ) -> Seq2SeqLMOutput:
        """
        Args:
            encoder_outputs: what the encoder gave, or its last_hidden_state and final_state.
            teacher_forcing: the probability that a step reads the truth rather than the model's last answer. Unless
                given, the configuration's in training with labels and 1 otherwise.
            smoothing: how much of every label the loss spreads evenly over the vocabulary.
        """
        decoder_input_ids = decoder_reads(self, decoder_input_ids, decoder_inputs_embeds, labels)
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **options
            )
        elif not isinstance(encoder_outputs, ModelOutput):
            encoder_outputs = RecurrentEncoderOutput(*encoder_outputs)
        if encoder_outputs.get("final_state") is None:
            raise ValueError("encoder_outputs must hold final_state, where the decoder starts, got none")
        reads = {
            "encoder_hidden_states": encoder_outputs.last_hidden_state,
            "encoder_attention_mask": attention_mask,
            "initial_state": encoder_outputs.final_state,
            **options,
        }
        truth = self._truth(teacher_forcing)
        # Without labels somebody may be generating, and means what the decoder is given: they must ask for it.
        is_taught = labels is not None or teacher_forcing is not None
        if truth < 1 and is_taught and past_key_values is None:
            if decoder_input_ids is None:
                raise ValueError(f"teacher_forcing below 1 needs decoder_input_ids or labels, got {truth} and vectors")
            result: Any = self._mixed(decoder_input_ids, decoder_attention_mask, truth, **reads)
        else:
            result = self.decoder(
                input_ids=decoder_input_ids,
                attention_mask=decoder_attention_mask,
                past_key_values=past_key_values,
                inputs_embeds=decoder_inputs_embeds,
                use_cache=use_cache,
                **reads,
            )
        logits = self.lm_head(self.dropout(result.last_hidden_state))
        loss: Any = None
        if labels is not None:
            loss = answer_loss(self, logits, labels, smoothing, options.get("num_items_in_batch"))
        return Seq2SeqLMOutput(loss=loss, logits=logits, **outputs_of_both(encoder_outputs, result))

    def _truth(self, teacher_forcing: float | None) -> float:
        if teacher_forcing is None:
            return self.config.teacher_forcing if self.training else 1.0
        if not 0 <= teacher_forcing <= 1:
            raise ValueError(f"teacher_forcing must lie between 0 and 1, got {teacher_forcing}")
        return teacher_forcing

    def _mixed(self, truth_ids: Tensor, mask: Tensor | None, truth: float, **reads: Any) -> Any:
        """Step by step: each row reads the truth with probability `truth`, else its own last answer."""
        past, ids, steps = RecurrentCache(), truth_ids[:, :1], []
        for step in range(truth_ids.shape[1]):
            seen = None if mask is None else mask[:, : step + 1]
            steps.append(self.decoder(input_ids=ids, attention_mask=seen, past_key_values=past, **reads))
            if step + 1 < truth_ids.shape[1]:
                with torch.no_grad():
                    own = self.lm_head(steps[-1].last_hidden_state).argmax(-1)
                is_truth = torch.rand(own.shape, device=own.device) < truth
                ids = torch.where(is_truth, truth_ids[:, step + 1 : step + 2], own)

        def joined(name: str, dim: int) -> Any:
            parts = [getattr(step, name) for step in steps]
            return None if parts[0] is None else tuple(torch.cat(p, dim=dim) for p in zip(*parts, strict=True))

        output: Any = torch.cat([step.last_hidden_state for step in steps], dim=1)
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=output,
            hidden_states=joined("hidden_states", 1),
            cross_attentions=joined("cross_attentions", 2),
        )

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        return read_while_taught(labels, self.config)
