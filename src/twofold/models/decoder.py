"""A decoder-only language model with split attention, as transformers classes."""

from typing import Any

from torch import Tensor, nn
from transformers import GenerationMixin
from transformers.cache_utils import Cache, DynamicCache
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from twofold.models import heads
from twofold.models.configs import DecoderConfig
from twofold.models.layers import SelfAttention
from twofold.models.pretrained import Stack, TwofoldPreTrainedModel, counted_anew, shows_attentions


class DecoderPreTrainedModel(TwofoldPreTrainedModel):
    config_class = DecoderConfig


class DecoderModel(Stack):
    """Hidden states of a causal transformer."""

    config_class = DecoderConfig
    _is_causal = True

    @shows_attentions
    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        **options: Any,
    ) -> BaseModelOutputWithPast:
        seen = 0 if past_key_values is None else past_key_values.get_seq_length()
        # Nothing is padded, packed or out of sight: layers know causal order by themselves. transformers would look at
        # the positions, which stalls a GPU, and a compiled graph would hold a mask of T x T that nobody needs.
        is_plain = attention_mask is None and position_ids is None and self.config.sliding_window is None
        x, rotary_table = self.placed(input_ids, inputs_embeds, position_ids, seen)
        # Where a mask is given, it says all there is to say.
        counted = None if position_ids is None or attention_mask is not None else counted_anew(position_ids)
        make_mask = create_causal_mask if self.config.sliding_window is None else create_sliding_window_causal_mask
        mask = None
        if not is_plain:
            mask = make_mask(
                config=self.config,
                inputs_embeds=x,
                attention_mask=attention_mask,
                past_key_values=past_key_values,
                position_ids=counted,
            )
        # Not before the mask is made: beside a cache transformers does not look for packed texts.
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        for layer in self.used_layers:
            x = layer(x, rotary_table, attention_mask=mask, past_key_values=past_key_values, **options)
        return BaseModelOutputWithPast(last_hidden_state=self.norm(x), past_key_values=past_key_values)


class DecoderForCausalLM(DecoderPreTrainedModel, GenerationMixin):
    """A language model: logits of every next token."""

    _tied_weights_keys = {"lm_head.weight": "model.embedding.tokens.weight"}
    _tp_plan = {"lm_head": "colwise_gather_output"}

    def __init__(self, config: DecoderConfig, attention_class: type[SelfAttention] = SelfAttention) -> None:
        super().__init__(config)
        self.model = DecoderModel(config, attention_class)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        **options: Any,
    ) -> CausalLMOutputWithPast:
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **options,
        )
        return heads.next_token_output(self, output, labels, logits_to_keep, **options)


class DecoderForSequenceClassification(heads.SequenceClassification, DecoderPreTrainedModel):
    backbone = DecoderModel


class DecoderForTokenClassification(heads.TokenClassification, DecoderPreTrainedModel):
    backbone = DecoderModel


class DecoderForQuestionAnswering(heads.QuestionAnswering, DecoderPreTrainedModel):
    backbone = DecoderModel
