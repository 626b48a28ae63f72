"""Recurrent models as transformers classes: language model, classifier (many to one), tagger (aligned many to many)."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults

from twofold.models import heads
from twofold.models.recurrent_config import RecurrentConfig
from twofold.models.recurrent_layers import (
    RecurrentCache,
    check_cache,
    check_unpacked,
    real_steps,
    recurrent_layers,
    run,
)

# What a checkpoint may lack: heads are trained anew.
HEADS = ("score.", "lm_head.")


class RecurrentPreTrainedModel(PreTrainedModel):
    config_class = RecurrentConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = False
    _no_split_modules = ["RecurrentLayer"]
    _skip_keys_device_placement = ["past_key_values"]
    _input_embed_layer = "embedding"
    # A state cannot be cut back to an earlier step, as assisted generation would want it.
    _is_stateful = True
    _is_encoder_decoder = False

    def __init__(self, config: RecurrentConfig) -> None:
        # One configuration serves both kinds of model, and generate() asks the model's own which it is.
        if config.is_encoder_decoder != self._is_encoder_decoder:
            config = copy.deepcopy(config)
            config.is_encoder_decoder = self._is_encoder_decoder
        # from_pretrained sets its overrides after a configuration has checked itself.
        config.validate_architecture()
        super().__init__(config)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        # generate() would make a cache of keys and values; the first pass makes ours.
        return False

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if not isinstance(module, nn.RNNBase):
            super()._init_weights(module)
            return
        for name, parameter in module.named_parameters():
            # Slices lose the mark of what a checkpoint has brought.
            if getattr(parameter, "_is_hf_initialized", False):
                continue
            gates = parameter.split(module.hidden_size)
            for number, gate in enumerate(gates):
                if "weight_hh" in name:
                    # Orthogonal steps neither blow a state up nor let it die.
                    init.orthogonal_(gate)
                elif "weight_ih" in name:
                    init.xavier_uniform_(gate)
                else:
                    # An LSTM, whose second gate forgets, remembers by default.
                    forgets = isinstance(module, nn.LSTM) and number == 1 and "bias_ih" in name
                    init.constant_(gate, 1.0 if forgets else 0.0)

    @classmethod
    def from_pretrained(cls, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        """As in transformers, except that weights which the checkpoint lacks are an error, heads apart."""
        loaded: Any = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        model, info = loaded
        lacking = sorted(key for key in info["missing_keys"] if not key.startswith(HEADS))
        if lacking:
            raise ValueError(
                f"the checkpoint has no weights for {lacking[0]} and {len(lacking) - 1} more of {cls.__name__}: it is "
                "that of another kind of recurrent model"
            )
        return loaded if output_loading_info else model


class EmbeddedModel(RecurrentPreTrainedModel):
    """One that reads tokens itself, or their vectors."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)

    def embedded(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of input_ids and inputs_embeds")
        return self.embedding(input_ids) if inputs_embeds is None else inputs_embeds


class RecurrentModel(EmbeddedModel):
    """Hidden states of a stack of recurrent layers."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.layers = recurrent_layers(config, bidirectional=config.bidirectional)
        self.post_init()

    @can_return_tuple
    @merge_with_config_defaults
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        **options: Any,
    ) -> BaseModelOutputWithPast:
        """Steps that attention_mask hides change no state. hidden_states: the embeddings, then each layer's output."""
        check_cache(past_key_values)
        x = self.embedded(input_ids, inputs_embeds)
        if self.config.bidirectional:
            if past_key_values is not None:
                raise ValueError("past_key_values must be None where bidirectional: the end would have to be known")
        elif past_key_values is None and use_cache:
            past_key_values = RecurrentCache()
        # A cache that is still empty counts as none.
        states = past_key_values.states if past_key_values else [None] * len(self.layers)
        shown = past_key_values.shown if past_key_values else []
        steps = real_steps(attention_mask, x)
        check_unpacked(options.get("position_ids"), attention_mask)
        result: Any = run(self.layers, x, states, steps, shown)
        if past_key_values is not None:
            past_key_values.update(result.states, result.hidden_states[1:])
        wants = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        return BaseModelOutputWithPast(
            last_hidden_state=result.output,
            past_key_values=past_key_values,
            hidden_states=result.hidden_states if wants else None,
        )


class RecurrentForCausalLM(RecurrentPreTrainedModel, GenerationMixin):
    """A language model of characters or words: logits of every next token."""

    _tied_weights_keys = {"lm_head.weight": "model.embedding.weight"}

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        if config.bidirectional:
            raise ValueError("bidirectional must be False for a language model: it would see what it is to predict")
        self.model = RecurrentModel(config)
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        **options: Any,
    ) -> CausalLMOutputWithPast:
        result = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **options,
        )
        result.last_hidden_state = self.dropout(result.last_hidden_state)
        return heads.next_token_output(self, result, labels, logits_to_keep, **options)


class RecurrentForSequenceClassification(heads.SequenceClassification, RecurrentPreTrainedModel):
    backbone = RecurrentModel


class RecurrentForTokenClassification(heads.TokenClassification, RecurrentPreTrainedModel):
    backbone = RecurrentModel


@torch.no_grad()
def unit_activations(
    model: RecurrentPreTrainedModel, input_ids: Tensor, attention_mask: Tensor | None = None, *, part: str = "hidden"
) -> Tensor:
    """(B, T, layers * hidden): what every unit holds after every step, for looking at what a unit stands for.

    Args:
        model: a stack read one way, or a model on one.
        part: "hidden" for h; "cell" for c, the memory of an LSTM.
    """
    stack: Any = getattr(model, model.base_model_prefix, model)
    if not isinstance(stack, RecurrentModel) or stack.config.bidirectional:
        raise ValueError(f"model must be a recurrent stack read one way, or stand on one, got {type(model).__name__}")
    if part not in ("hidden", "cell") or (part == "cell" and stack.config.cell != "lstm"):
        raise ValueError(f"part must be hidden, or cell for an LSTM, got {part!r} for cell {stack.config.cell!r}")
    past, activations = RecurrentCache(), []
    for step in range(input_ids.shape[1]):
        mask = None if attention_mask is None else attention_mask[:, step : step + 1]
        stack(input_ids[:, step : step + 1], attention_mask=mask, past_key_values=past)
        activations.append(torch.cat([state[0 if part == "hidden" else 1] for state in past.states], dim=-1))
    return torch.stack(activations, dim=1)
