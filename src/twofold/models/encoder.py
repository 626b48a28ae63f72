"""A bidirectional transformer with split attention, and its heads, as transformers classes."""

from typing import Any

from torch import Tensor, nn
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from twofold.models import heads
from twofold.models.configs import EmbeddingConfig, EncoderConfig, GoalConfig
from twofold.models.layers import SelfAttention
from twofold.models.pretrained import Stack, TwofoldPreTrainedModel, shows_attentions


class EncoderPreTrainedModel(TwofoldPreTrainedModel):
    config_class = EncoderConfig


class EncoderModel(Stack):
    """Hidden states of a transformer in which every token sees every other."""

    config_class = EncoderConfig

    @shows_attentions
    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        cue_ids: Tensor | None = None,
        **options: Any,
    ) -> BaseModelOutput:
        """cue_ids (B, T, cues) tell more of a token: vectors of the same table, added to its own; padding adds 0."""
        if cue_ids is not None:
            own = self.embedding.tokens(input_ids) if inputs_embeds is None else inputs_embeds
            cues = self.embedding.tokens(cue_ids)
            if self.config.pad_token_id is not None:
                # Its vector is not 0 for ever: as an output, where both are one table, it learns.
                cues = cues.masked_fill((cue_ids == self.config.pad_token_id)[..., None], 0.0)
            input_ids, inputs_embeds = None, own + cues.sum(-2)
        x, rotary_table = self.placed(input_ids, inputs_embeds, position_ids)
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=x, attention_mask=attention_mask)
        for layer in self.used_layers:
            x = layer(x, rotary_table, attention_mask=mask, **options)
        return BaseModelOutput(last_hidden_state=self.norm(x))


class EncoderForMaskedLM(EncoderPreTrainedModel):
    """Logits of hidden tokens."""

    _tied_weights_keys = {"lm_head.weight": "model.embedding.tokens.weight"}
    _tp_plan = {"lm_head": "colwise_gather_output"}

    def __init__(self, config: Any, attention_class: type[SelfAttention] = SelfAttention) -> None:
        super().__init__(config)
        self.model = EncoderModel(config, attention_class)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **options: Any,
    ) -> MaskedLMOutput:
        output = self.model(input_ids=input_ids, attention_mask=attention_mask, **options)
        logits = self.lm_head(output.last_hidden_state)
        loss = None
        if labels is not None:
            count = options.get("num_items_in_batch")
            loss = self.loss_function(logits, labels, self.config.vocab_size, num_items_in_batch=count)
        return MaskedLMOutput(
            loss=loss, logits=logits, hidden_states=output.hidden_states, attentions=output.attentions
        )


class EncoderForSequenceClassification(heads.SequenceClassification, EncoderPreTrainedModel):
    backbone = EncoderModel


class EncoderForTokenClassification(heads.TokenClassification, EncoderPreTrainedModel):
    backbone = EncoderModel


class EncoderForQuestionAnswering(heads.QuestionAnswering, EncoderPreTrainedModel):
    backbone = EncoderModel


class EncoderForGoal(heads.Goal, EncoderPreTrainedModel):
    config_class = GoalConfig
    backbone = EncoderModel


class EncoderForSentenceEmbedding(heads.SentenceEmbedding, EncoderPreTrainedModel):
    config_class = EmbeddingConfig
    backbone = EncoderModel
