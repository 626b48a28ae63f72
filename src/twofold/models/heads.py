"""What stands on a transformer's hidden states: labels of a sentence, of its tokens, a span, a goal, one vector.

Each head is a class that a family mixes with its own base class and names the `backbone` of.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers.modeling_outputs import (
    CausalLMOutputWithPast,
    ModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils.generic import can_return_tuple

from twofold.models.bag import Bag
from twofold.models.chain import chain_loss

# Texts that are read together where padding costs as much as words. Fewer are no faster (LOG.md).
TOGETHER = 16


def _is_sharded(model: object) -> bool:
    """Whether processes hold parts of it and must call it equally often, whatever each has to read."""
    if not (dist.is_available() and dist.is_initialized()):
        return False
    from torch.distributed.fsdp import FSDPModule

    return isinstance(model, FSDPModule)


def pooled(x: Tensor, attention_mask: Tensor | None, how: str) -> Tensor:
    """One vector a sentence, (B, C) of (B, T, C): the mean of its tokens, its first or its last (the stop token)."""
    if how == "mean":
        # In float32 at least: half precision overflows in the sum over a long text.
        wide = torch.promote_types(x.dtype, torch.float32)
        mask = x.new_ones(x.shape[:2], dtype=wide) if attention_mask is None else attention_mask.to(wide)
        return ((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)).to(x.dtype)
    # Whole numbers: half precision cannot tell neighbouring places of a long text apart.
    places = torch.arange(1, x.shape[1] + 1, device=x.device).expand(x.shape[:2])
    seen = places if attention_mask is None else places * attention_mask.bool()
    place = seen.argmax(1) if how == "last" else (seen > 0).int().argmax(1)
    # Not len(x), which would pin an exported graph to one size of batch.
    return x[torch.arange(x.shape[0], device=x.device), place]


def next_token_output(
    model: Any, output: Any, labels: Tensor | None, logits_to_keep: int | Tensor, **options: Any
) -> CausalLMOutputWithPast:
    """A language model's output from its backbone's: logits of the last `logits_to_keep` places (0: all), and a loss.

    logits_to_keep may also be a tensor of places; options are those of transformers' loss functions.
    """
    kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
    logits, loss = model.lm_head(output.last_hidden_state[:, kept]), None
    if labels is not None:
        loss = model.loss_function(logits=logits, labels=labels, vocab_size=model.config.vocab_size, **options)
    return CausalLMOutputWithPast(
        loss=loss,
        logits=logits,
        past_key_values=output.past_key_values,
        hidden_states=output.hidden_states,
        attentions=output.attentions,
    )


class Head:
    """A backbone and whatever `_build` puts on it."""

    backbone: type[nn.Module]
    # The Trainer must divide by accumulated batches itself: losses here are means of their own batch.
    accepts_loss_kwargs = False
    config: Any
    model: nn.Module
    loss_function: Any

    def __init__(self, config: Any, **parts: Any) -> None:
        """parts: what the backbone takes beside its configuration, as attention_class."""
        super().__init__(config)  # type: ignore[call-arg]
        self.model = self.backbone(config, **parts)
        self.dropout = nn.Dropout(config.hidden_dropout)
        self._build(config)
        self.post_init()  # type: ignore[attr-defined]

    def _build(self, config: Any) -> None:
        raise NotImplementedError

    def _hidden(self, input_ids: Tensor | None, attention_mask: Tensor | None, **options: Any) -> Any:
        options.setdefault("use_cache", False)
        return self.model(input_ids=input_ids, attention_mask=attention_mask, **options)


def _labels(config: Any) -> int:
    if config.num_labels < 1:
        raise ValueError(f"num_labels must be at least 1, got {config.num_labels}")
    return config.num_labels


class SequenceClassification(Head):
    """Many to one: logits of a sentence's labels."""

    def _build(self, config: Any) -> None:
        self.score = nn.Linear(config.hidden_size, _labels(config))

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **options: Any,
    ) -> SequenceClassifierOutput:
        output = self._hidden(input_ids, attention_mask, **options)
        if attention_mask is None and input_ids is not None and self.config.pooling == "last":
            # As transformers has it: the last token is the last that is no padding, whoever forgot the mask.
            attention_mask = input_ids != self.config.pad_token_id if self.config.pad_token_id is not None else None
        logits = self.score(self.dropout(pooled(output.last_hidden_state, attention_mask, self.config.pooling)))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=output.hidden_states, attentions=output.attentions
        )


class TokenClassification(Head):
    """Aligned many to many: logits of every token's label; -100 marks tokens without one."""

    def _build(self, config: Any) -> None:
        self.score = nn.Linear(config.hidden_size, _labels(config))

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **options: Any,
    ) -> TokenClassifierOutput:
        output = self._hidden(input_ids, attention_mask, **options)
        logits = self.score(self.dropout(output.last_hidden_state))
        loss = None if labels is None else self.loss_function(logits, labels, self.config)
        return TokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=output.hidden_states, attentions=output.attentions
        )


class QuestionAnswering(Head):
    """Where an answer starts and ends."""

    def _build(self, config: Any) -> None:
        self.ends = nn.Linear(config.hidden_size, 2)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        **options: Any,
    ) -> QuestionAnsweringModelOutput:
        output = self._hidden(input_ids, attention_mask, **options)
        start, end = self.ends(self.dropout(output.last_hidden_state)).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = self.loss_function(start, end, start_positions, end_positions)
        return QuestionAnsweringModelOutput(
            loss=loss,
            start_logits=start,
            end_logits=end,
            hidden_states=output.hidden_states,
            attentions=output.attentions,
        )


@dataclass
class GoalOutput(ModelOutput):
    loss: Tensor | None = None
    goal_logits: Tensor | None = None  # (B, goals)
    slot_logits: Tensor | None = None  # (B, T, slot labels)
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class Goal(Head):
    """From an utterance to its goal and slots at once: num_labels goals, num_slot_labels labels a token.

    With goal_by_tokens the goal has a second judge, linear in which tokens and cues there are. It errs elsewhere than
    the layers do, so that the two together err less.
    """

    def _build(self, config: Any) -> None:
        if config.num_slot_labels < 1:
            raise ValueError(f"num_slot_labels must be at least 1 for goals with slots, got {config.num_slot_labels}")
        self.goal = nn.Linear(config.hidden_size, _labels(config))
        self.slots = nn.Linear(config.hidden_size, config.num_slot_labels)
        # From the label before, or the start, to scores of the next one.
        self.moves = nn.Linear(config.num_slot_labels + 1, config.num_slot_labels, bias=False)
        self.bag = None
        if config.goal_by_tokens:
            if config.pad_token_id is None:
                raise ValueError("goal_by_tokens needs a pad_token_id, got None")
            self.bag = Bag(config.vocab_size, config.num_labels, config.pad_token_id)

    def resize_token_embeddings(self, *args: Any, **options: Any) -> nn.Embedding:
        """New tokens say nothing of goals yet."""
        table = super().resize_token_embeddings(*args, **options)  # type: ignore[misc]
        if self.bag is not None and self.bag.num_embeddings != table.num_embeddings:
            old = self.bag.weight
            grown = Bag(table.num_embeddings, old.shape[1], self.bag.padding_idx, device=old.device, dtype=old.dtype)
            kept = min(len(old), table.num_embeddings)
            with torch.no_grad():
                grown.weight.zero_()[:kept] = old[:kept]
            self.bag = grown.requires_grad_(old.requires_grad)
        return table

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        slot_labels: Tensor | None = None,
        **options: Any,
    ) -> GoalOutput:
        """labels (B,) of goals and slot_labels (B, T); -100 marks what has none.

        The loss is the sum of the means; that of slot labels is a loss of chains. Both classifiers of the goal have a
        loss of their own: in a shared one, the layers would soon leave the bag nothing to learn.
        """
        output = self._hidden(input_ids, attention_mask, **options)
        x = self.dropout(output.last_hidden_state)
        goals, slots = self.goal(pooled(x, attention_mask, self.config.pooling)), self.slots(x)
        judges = [goals.float()]
        if self.bag is not None:
            judges.append(self.bag(self._tokens(input_ids, attention_mask, options.get("cue_ids"))).float())
            # Probabilities, for the sums of a bag grow with its size: they would hide that a text is out of scope.
            goals = goals + judges[-1].log_softmax(-1).to(goals.dtype)
        losses = []
        if labels is not None and (labels != -100).any():
            losses.extend(cross_entropy(judge, labels) for judge in judges)
        if slot_labels is not None and (slot_labels != -100).any():
            losses.append(chain_loss(slots, slot_labels, self.moves.weight.T))
        return GoalOutput(
            loss=torch.stack(losses).sum() if losses else None,
            goal_logits=goals,
            slot_logits=slots,
            hidden_states=output.hidden_states,
            attentions=output.attentions,
        )

    def _tokens(self, input_ids: Tensor | None, attention_mask: Tensor | None, cue_ids: Tensor | None) -> Tensor:
        """All tokens and cues of each text, (B, N)."""
        if input_ids is None:
            raise ValueError("goal_by_tokens needs input_ids, got None")
        ids = input_ids[..., None] if cue_ids is None else torch.cat([input_ids[..., None], cue_ids], -1)
        if attention_mask is not None:
            ids = ids.masked_fill(attention_mask[..., None] == 0, self.config.pad_token_id)
        return ids.flatten(1)


@dataclass
class EmbeddingOutput(ModelOutput):
    loss: Tensor | None = None
    last_hidden_state: Tensor | None = None  # (B, T, C)
    pooler_output: Tensor | None = None  # (B, C): the sentences' vectors
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class SentenceEmbedding(Head):
    """One vector of length 1 a sentence, for search and comparison; taught by which texts belong together."""

    needs_whole_batches = True
    """The loss of a batch is no mean of those of its pieces: every sentence is contrasted with all documents."""

    def _build(self, config: Any) -> None:
        del config

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        document_input_ids: Tensor | None = None,
        document_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        also_right: Tensor | None = None,
        **options: Any,
    ) -> EmbeddingOutput:
        """With documents (N, S), a loss: sentence i must be nearer to document labels[i] than to all the others.

        also_right (B, N) is true for others that are right as well: those are neither sought nor shunned; of labels[i]
        itself it says nothing. Beside a loss there are the sentences' vectors, and no hidden states.
        """
        if labels is None:
            output = self._hidden(input_ids, attention_mask, **options)
            return EmbeddingOutput(
                last_hidden_state=output.last_hidden_state,
                pooler_output=self._vector(output, attention_mask),
                hidden_states=output.hidden_states,
                attentions=output.attentions,
            )
        if document_input_ids is None:
            raise ValueError("labels are places of documents: give document_input_ids as well")
        vector = self._vectors(input_ids, attention_mask, **options)
        documents = self._vectors(document_input_ids, document_attention_mask, **options)
        nearness = vector @ documents.mT / self.config.similarity_temperature
        if also_right is not None:
            own = torch.arange(nearness.shape[1], device=labels.device) == labels[:, None]
            nearness = nearness.masked_fill(also_right & ~own, float("-inf"))
        return EmbeddingOutput(loss=cross_entropy(nearness.float(), labels), pooler_output=vector)

    def _vectors(self, input_ids: Tensor | None, attention_mask: Tensor | None, **options: Any) -> Tensor:
        """Those of `_vector`, but on a CPU few texts at a time, of like lengths: there padding costs what words do."""
        if (
            input_ids is None
            or attention_mask is None
            or options
            or len(input_ids) == 0
            or input_ids.device.type != "cpu"
            or torch.compiler.is_compiling()
            or _is_sharded(self)
        ):
            return self._vector(self._hidden(input_ids, attention_mask, **options), attention_mask)
        places = torch.arange(1, attention_mask.shape[1] + 1)
        ends = (attention_mask.bool() * places).amax(1).clamp(min=1)
        order = ends.argsort()
        vectors = []
        for texts in order.split(TOGETHER):
            seen = texts, slice(int(ends[texts[-1]]))
            vectors.append(self._vector(self._hidden(input_ids[seen], attention_mask[seen]), attention_mask[seen]))
        return torch.cat(vectors)[order.argsort()]

    def _vector(self, output: Any, attention_mask: Tensor | None) -> Tensor:
        return nn.functional.normalize(pooled(output.last_hidden_state, attention_mask, self.config.pooling), dim=-1)
