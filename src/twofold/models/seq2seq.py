"""The encoder-decoder with split self-attention on both sides; attention across is standard, having no diagonal."""

from typing import Any

from torch import Tensor, nn
from transformers import GenerationMixin
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from twofold.models.answer_loss import answer_loss, decoder_reads, outputs_of_both, read_while_taught
from twofold.models.configs import Seq2SeqConfig
from twofold.models.copying import CopyHead, SourceOutput
from twofold.models.embedding import second_table
from twofold.models.encoder import EncoderModel
from twofold.models.layers import CachedCrossAttention, Layer, SelfAttention
from twofold.models.pretrained import Stack, TwofoldPreTrainedModel, counted_anew, shows_attentions


class Seq2SeqPreTrainedModel(TwofoldPreTrainedModel):
    config_class = Seq2SeqConfig


class Seq2SeqEncoder(EncoderModel):
    """The encoder's side: an encoder like any other, which tells what it has read where that is to be copied."""

    config_class = Seq2SeqConfig

    # `generate` hands on what is named here, and drops the rest without a word.
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        cue_ids: Tensor | None = None,
        **options: Any,
    ) -> BaseModelOutput:
        output = super().forward(input_ids, attention_mask, position_ids, inputs_embeds, cue_ids, **options)
        if not self.config.copies or not isinstance(output, BaseModelOutput):
            return output
        return SourceOutput(**output, source_ids=input_ids)


class Seq2SeqDecoder(Stack):
    """The decoder's side: a causal transformer whose layers also look at the encoder's hidden states."""

    config_class = Seq2SeqConfig
    _is_causal = True
    _has_context = True
    _can_record_outputs = {
        "hidden_states": Layer,
        "attentions": SelfAttention,
        "cross_attentions": CachedCrossAttention,
    }

    @shows_attentions
    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        **options: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        seen = 0 if past_key_values is None else past_key_values.get_seq_length()
        x, rotary_table = self.placed(input_ids, inputs_embeds, position_ids, seen)
        # Where a mask is given, it says all there is to say.
        counted = None if position_ids is None or attention_mask is not None else counted_anew(position_ids)
        both = past_key_values if isinstance(past_key_values, EncoderDecoderCache) else None
        mask = create_causal_mask(
            config=self.config,
            inputs_embeds=x,
            attention_mask=attention_mask,
            past_key_values=past_key_values if both is None else both.self_attention_cache,
            position_ids=counted,
        )
        # Not before the mask is made: beside a cache transformers does not look for packed texts.
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        context_mask = create_bidirectional_mask(
            config=self.config,
            inputs_embeds=x,
            attention_mask=encoder_attention_mask,
            encoder_hidden_states=encoder_hidden_states,
        )
        for layer in self.used_layers:
            x = layer(
                x,
                rotary_table,
                encoder_hidden_states,
                attention_mask=mask,
                context_mask=context_mask,
                past_key_values=past_key_values,
                **options,
            )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=self.norm(x), past_key_values=past_key_values
        )


class Seq2SeqModel(Seq2SeqPreTrainedModel):
    """Both sides, sharing one table of tokens."""

    _tied_weights_keys = {"decoder.embedding.tokens.weight": "encoder.embedding.tokens.weight"}

    def __init__(self, config: Any, attention_class: type[SelfAttention] = SelfAttention) -> None:
        super().__init__(config)
        self.encoder = Seq2SeqEncoder(config, attention_class)
        self.decoder = Seq2SeqDecoder(config, attention_class)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.get_input_embeddings()

    def set_input_embeddings(self, value: Any) -> None:
        self.encoder.set_input_embeddings(value)
        self.decoder.set_input_embeddings(second_table(self, self.decoder.get_input_embeddings(), value))

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        decoder_position_ids: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        **options: Any,
    ) -> Seq2SeqModelOutput:
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids,
                attention_mask=attention_mask,
                position_ids=position_ids,
                inputs_embeds=inputs_embeds,
                **options,
            )
        elif not isinstance(encoder_outputs, BaseModelOutput):
            encoder_outputs = BaseModelOutput(*encoder_outputs)
        output = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            position_ids=decoder_position_ids,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **options,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=output.last_hidden_state, **outputs_of_both(encoder_outputs, output)
        )


class Seq2SeqForConditionalGeneration(Seq2SeqPreTrainedModel, GenerationMixin):
    """Logits of every next token of the answer. With `labels` alone the decoder reads them shifted by one.

    Where the configuration says `copies`, logits are log-probabilities, of the vocabulary and the source's tokens.
    """

    _tied_weights_keys = {
        "model.decoder.embedding.tokens.weight": "model.encoder.embedding.tokens.weight",
        "lm_head.weight": "model.encoder.embedding.tokens.weight",
    }
    _tp_plan = {"lm_head": "colwise_gather_output"}

    def __init__(self, config: Any, attention_class: type[SelfAttention] = SelfAttention) -> None:
        super().__init__(config)
        self.model = Seq2SeqModel(config, attention_class)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.copying = CopyHead(config) if config.copies else None
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        labels: Tensor | None = None,
        encoder_outputs: Any = None,
        use_cache: bool | None = None,
        smoothing: float = 0.0,
        **options: Any,
    ) -> Seq2SeqLMOutput:
        """smoothing: how much of every label the loss spreads evenly over the vocabulary."""
        decoder_input_ids = decoder_reads(self, decoder_input_ids, options.get("decoder_inputs_embeds"), labels)
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            encoder_outputs=encoder_outputs,
            use_cache=use_cache,
            **options,
        )
        logits = self.lm_head(output.last_hidden_state)
        if self.copying is not None:
            source_ids = getattr(encoder_outputs, "source_ids", input_ids)
            if source_ids is None:
                raise ValueError("copies needs the source's tokens: give input_ids, or encoder_outputs with source_ids")
            if decoder_input_ids is None:
                raise ValueError("copies needs the tokens that the decoder reads: give decoder_input_ids")
            source = output.encoder_last_hidden_state
            logits = self.copying(
                output.last_hidden_state, logits, source, source_ids, attention_mask, decoder_input_ids
            )
        loss: Any = None
        if labels is not None:
            loss = answer_loss(self, logits, labels, smoothing, options.get("num_items_in_batch"))
        # Of `Seq2SeqModelOutput` all but the last hidden state has the same name.
        outputs = {name: value for name, value in output.items() if name != "last_hidden_state"}
        return Seq2SeqLMOutput(loss=loss, logits=logits, **outputs)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        return read_while_taught(labels, self.config)
