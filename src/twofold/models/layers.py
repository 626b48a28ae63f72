"""The parts of a transformer layer: split attention over transformers' caches, feed-forward, norms, the layer."""

from functools import partial
from typing import Any

from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer

from twofold.attention.cache import KeyValues
from twofold.attention.cross import CrossAttention
from twofold.attention.heads import split
from twofold.attention.own_slots import place_own_slots, update_cache
from twofold.attention.rotary import RotaryTable
from twofold.attention.split import HeadNorm, SplitSelfAttention
from twofold.kernels.api import split_attention, split_attention_weights
from twofold.models.configs import GATED


class SelfAttention(SplitSelfAttention):
    """Split self-attention whose past is a cache of transformers, dynamic, static or sliding.

    The cache holds what others need, k and v, as that of any model does. k' and v' are never kept.
    """

    def __init__(self, config: Any, layer_idx: int, *, is_causal: bool) -> None:
        super().__init__(
            config.hidden_size,
            config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_width=config.head_dim,
            kind=config.attention,
            init="independent",
            bias=config.attention_bias,
            qk_norm=config.qk_norm,
            dropout=config.attention_dropout,
        )
        self.layer_idx, self.is_causal = layer_idx, is_causal

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        rotary_table: RotaryTable | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        *,
        output_attentions: bool = False,
        packed: dict[str, Any] | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """(B, T, C) and, if asked for, the weights (B, H, T, S), the own one in the own slot's column.

        packed: what continuous batching says of its one row of many sequences, its paged cache included.
        """
        new = self.project(x, rotary_table)
        cache = past_key_values if packed is None else packed["cache"]
        cached = update_cache(cache, new.key, new.value, self.layer_idx, packed)
        dropout = self.dropout if self.training else 0.0
        # Without a cache there is nothing to step over.
        may_step = cache is not None and self.attend is split_attention and dropout == 0
        call = place_own_slots(
            new.query,
            new.self_key,
            new.self_value,
            cached,
            attention_mask,
            shows_weights=output_attentions,
            may_step=may_step,
        )
        weights = None
        if output_attentions:
            check_shown(self)
            options = call.options(is_causal=self.is_causal)
            weights = call.by_slot(split_attention_weights(call.query, call.key, call.self_key, **options))
        out = call.attend(self.attend, is_causal=self.is_causal, dropout=dropout)
        return self.joined(out, new, x), weights

    def start(self) -> None:
        """Set the parameters that a variant adds, after its parts and `init` have been drawn; here there are none."""


def check_shown(layer: SplitSelfAttention) -> None:
    """Raise where a layer attends by something else than what its weights are shown by."""
    attend, fixed = layer.attend, set()
    if isinstance(attend, partial):
        attend, fixed = attend.func, {*attend.args, *attend.keywords} - {"backend"}
    if attend is not split_attention or fixed:
        raise ValueError(
            f"attend must be split_attention, by whatever backend, for its weights to be shown, got {layer.attend}"
        )


def record_attention(config: Any, attention_class: type[SelfAttention]) -> None:
    """Write into a configuration which class computes attention, or raise where it names another one.

    So a model that was saved with a class of its own is never loaded as an ordinary one: whoever loads it must pass
    that class.
    """
    name = None if attention_class is SelfAttention else attention_class.__name__
    if config.attention_part not in (None, name):
        raise ValueError(
            f"attention_class must be the class {config.attention_part} that the configuration names as its "
            f"attention_part, got {attention_class.__name__}"
        )
    config.attention_part = name


class CachedCrossAttention(CrossAttention):
    """Ordinary attention to a context whose keys and values are projected once and kept."""

    def __init__(self, config: Any, layer_idx: int) -> None:
        super().__init__(
            config.hidden_size,
            config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_width=config.head_dim,
            bias=config.attention_bias,
            dropout=config.attention_dropout,
        )
        self.layer_idx = layer_idx

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        context: Tensor,
        context_mask: Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        *,
        output_attentions: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        seen = self._remembered(context, past_key_values)
        weights = None
        if output_attentions:
            query = split(self.query(x), self.head_width)
            grouped = self.heads != self.kv_heads
            weights = split_attention_weights(query, seen.key, attn_mask=context_mask, enable_gqa=grouped)
        return super().forward(x, seen, attn_mask=context_mask), weights

    def _remembered(self, context: Tensor, past: EncoderDecoderCache | None) -> KeyValues:
        if past is None:
            return self.keys_and_values(context)
        if not past.is_updated.get(self.layer_idx):
            projected = self.keys_and_values(context)
            past.is_updated[self.layer_idx] = True
            return KeyValues(*past.cross_attention_cache.update(projected.key, projected.value, self.layer_idx))
        kept: Any = past.cross_attention_cache.layers[self.layer_idx]
        return KeyValues(kept.keys, kept.values)


class FeedForward(nn.Module):
    """Two matrices, or three with a gate (hidden_act "swiglu" or "geglu")."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gate = nn.Linear(width, inner, bias=bias) if config.hidden_act in GATED else None
        self.up = nn.Linear(width, inner, bias=bias)
        self.down = nn.Linear(inner, width, bias=bias)
        self.activate = ACT2FN[GATED.get(config.hidden_act, config.hidden_act)]

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            return self.down(self.activate(self.up(x)))
        return self.down(self.activate(self.gate(x)) * self.up(x))


def norm_of(config: Any) -> nn.Module:
    if config.recipe == "modern":
        return HeadNorm(config.hidden_size, eps=config.norm_eps)
    return nn.LayerNorm(config.hidden_size, eps=config.norm_eps)


class Layer(GradientCheckpointingLayer):
    """One transformer layer, in the order that its recipe asks for."""

    def __init__(
        self,
        config: Any,
        layer_idx: int,
        *,
        is_causal: bool,
        has_context: bool = False,
        attention_class: type[SelfAttention] = SelfAttention,
    ) -> None:
        super().__init__()
        self.recipe = config.recipe
        self.self_attn = attention_class(config, layer_idx, is_causal=is_causal)
        self.dropout = nn.Dropout(config.hidden_dropout)
        if self.recipe == "bare":
            self.linear = nn.Linear(config.hidden_size, config.hidden_size, bias=config.mlp_bias)
            return
        self.feed_forward = FeedForward(config)
        self.attention_norm, self.feed_forward_norm = norm_of(config), norm_of(config)
        self.cross_attn: Any = CachedCrossAttention(config, layer_idx) if has_context else None
        self.cross_norm = norm_of(config) if has_context else None

    def forward(
        self,
        x: Tensor,
        rotary_table: RotaryTable | None = None,
        context: Tensor | None = None,
        *,
        attention_mask: Tensor | None = None,
        context_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        output_attentions: bool = False,
        **packed: Any,
    ) -> Tensor:
        both = past_key_values if isinstance(past_key_values, EncoderDecoderCache) else None
        own_past = past_key_values if both is None else both.self_attention_cache

        def attend(x: Tensor) -> Tensor:
            options = {
                "output_attentions": output_attentions,
                "packed": packed if packed.get("cache") is not None else None,
            }
            return self.self_attn(x, rotary_table, attention_mask, own_past, **options)[0]

        def look(x: Tensor) -> Tensor:
            return self.cross_attn(x, context, context_mask, both, output_attentions=output_attentions)[0]

        if self.recipe == "bare":
            return self.linear(attend(x))
        steps = [(attend, self.attention_norm), (look, self.cross_norm), (self.feed_forward, self.feed_forward_norm)]
        for step, norm in steps:
            if norm is None:
                continue
            if self.recipe == "classic":
                x = norm(x + self.dropout(step(x)))
            else:
                x = x + self.dropout(step(norm(x)))
        return x
