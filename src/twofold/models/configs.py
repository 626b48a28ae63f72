"""Configurations of the transformers, with the field names that transformers users know.

A recipe fills in what is left at None: "modern" (pre-RMSNorm, rotary positions, QK-norm with gain, squared ReLU, no
biases), "classic" (2017: post-LayerNorm, sinusoidal positions, ReLU, biases, embeddings times sqrt(width)) and "bare"
(the layer of the source's figure 2: split attention, then a linear map, and nothing else).
"""

import math

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from twofold.attention.split import Kind
from twofold.models.rope import rotary_of

RECIPES = ("modern", "classic", "bare")
POSITIONS = ("rotary", "sinusoidal", "learned", "none")
POOLINGS = ("mean", "first", "last")
INITS = ("copy", "patent", "aligned", "independent")
# Gated feed-forwards have a third matrix; their gates' activations.
GATED = {"swiglu": "silu", "geglu": "gelu"}

SIZES = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "intermediate_size", "max_position_embeddings",
)  # fmt: skip
PROJECTIONS = ("query", "key", "value", "self_key", "self_value")


# How the parts of a transformer are shared between devices: heads and features apart, sums at the end.
TENSOR_PARALLEL = {
    "embedding.tokens": "embedding_rowwise",
    **{f"layers.*.self_attn.{name}": "colwise" for name in PROJECTIONS},
    **{f"layers.*.cross_attn.{name}": "colwise" for name in PROJECTIONS[:3]},
    **{f"layers.*.self_attn.{name}": "replicated_with_grad_allreduce" for name in ("query_norm", "key_norm")},
    **{f"layers.*.{name}.output": "rowwise" for name in ("self_attn", "cross_attn")},
    "layers.*.feed_forward.gate": "colwise",
    "layers.*.feed_forward.up": "colwise",
    "layers.*.feed_forward.down": "rowwise",
}


def check_token(config: PreTrainedConfig, name: str) -> None:
    token, size = getattr(config, name), config.vocab_size
    if token is not None and not 0 <= token < size:
        raise ValueError(f"{name} must be a token of vocab_size {size}, got {token}")


@strict
class TransformerConfig(PreTrainedConfig):
    """What all transformers here share."""

    keys_to_ignore_at_inference = ["past_key_values"]
    base_model_tp_plan = TENSOR_PARALLEL

    # What a sentence's vector is unless somebody says otherwise.
    usual_pooling = "mean"
    # Whether attention may be kept to the last few tokens.
    may_slide = False

    vocab_size: int = 32_000
    hidden_size: int = 512
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    intermediate_size: int | None = None
    attention: str = "split_kv"
    attention_part: str | None = None
    recipe: str = "modern"
    init: str = "copy"
    hidden_act: str | None = None
    qk_norm: bool | None = None
    positions: str | None = None
    attention_bias: bool | None = None
    mlp_bias: bool | None = None
    max_position_embeddings: int = 2048
    rope_theta: float | int | None = None
    rope_parameters: dict | None = None
    sliding_window: int | None = None
    norm_eps: float | int = 1e-6
    hidden_dropout: float | int = 0.0
    attention_dropout: float | int = 0.0
    initializer_range: float | int = 0.02
    pooling: str | None = None
    use_cache: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2

    def __post_init__(self, **kwargs) -> None:  # noqa: ANN003
        is_modern, is_classic = self.recipe == "modern", self.recipe == "classic"
        filled = {
            "num_key_value_heads": self.num_attention_heads,
            "head_dim": self.hidden_size // max(self.num_attention_heads, 1),
            "intermediate_size": 4 * self.hidden_size,
            "hidden_act": "relu" if is_classic else "relu2",
            "qk_norm": is_modern,
            "positions": "rotary" if is_modern else "sinusoidal",
            "attention_bias": is_classic,
            "mlp_bias": not is_modern,
            "pooling": self.usual_pooling,
        }
        for name, value in filled.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        self._fill_rope(kwargs.pop("rope_scaling", None))
        super().__post_init__(**kwargs)
        if self.positions != "rotary":
            self.rope_parameters = None
        # Once more than transformers does, whose wrapper hides that this is a ValueError.
        self.validate_architecture()

    def _fill_rope(self, rope_scaling: dict | None) -> None:
        """Base and stretch of rotary positions under all the names that transformers has had for them."""
        if rope_scaling is not None and self.rope_parameters not in (None, rope_scaling):
            raise ValueError("give rope_parameters or rope_scaling, which is its name of old, got both")
        parameters = self.rope_parameters if rope_scaling is None else rope_scaling
        if parameters and self.positions != "rotary":
            raise ValueError(f'rope_parameters need positions="rotary", got {self.positions!r}')
        # A copy: transformers writes into it.
        self.rope_parameters = dict(parameters or {})
        if self.rope_theta is None:
            self.rope_theta = self.rope_parameters.get("rope_theta", self.default_theta)

    def validate_architecture(self) -> None:
        """Called by transformers' own validation."""
        for name, allowed in (
            ("attention", tuple(Kind)),
            ("recipe", RECIPES),
            ("positions", POSITIONS),
            ("init", INITS),
            ("pooling", POOLINGS),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        for name in SIZES:
            if (getattr(self, name) or 0) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("hidden_dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be from 0 to 1, got {getattr(self, name)}")
        for name in ("norm_eps", "initializer_range"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a finite number of at least 0, got {getattr(self, name)}")
        if self.hidden_act not in ACT2FN and self.hidden_act not in GATED:
            raise ValueError(f"hidden_act must be one of {', '.join([*GATED, *ACT2FN])}, got {self.hidden_act!r}")
        check_token(self, "pad_token_id")
        if self.num_key_value_heads is None or self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_key_value_heads must divide num_attention_heads {self.num_attention_heads}, "
                f"got {self.num_key_value_heads}"
            )
        if self.positions == "sinusoidal" and self.hidden_size % 2:
            raise ValueError(f"hidden_size must be even for sinusoidal positions, got {self.hidden_size}")
        # transformers' own caches keep everything for a window of 1.
        if self.sliding_window is not None and self.sliding_window < 2:
            raise ValueError(f"sliding_window must be at least 2, got {self.sliding_window}")
        if self.sliding_window is not None and not self.may_slide:
            raise ValueError(f"sliding_window is for decoders, {type(self).__name__} must leave it None")
        kind = "full_attention" if self.sliding_window is None else "sliding_attention"
        if not set(getattr(self, "layer_types", None) or [kind]) <= {kind}:
            raise ValueError(f"layer_types must all be {kind}, as sliding_window says, got {self.layer_types}")
        if self.positions == "rotary":
            if self.head_dim is not None and self.head_dim % 2:
                raise ValueError(f"head_dim must be even for rotary positions, got {self.head_dim}")
            rotary_of(self)


@strict
class DecoderConfig(TransformerConfig):
    """A decoder-only language model."""

    model_type = "twofold_decoder"
    # Only the last token has seen all the others.
    usual_pooling = "last"
    may_slide = True


@strict
class Seq2SeqConfig(TransformerConfig):
    """An encoder-decoder; num_hidden_layers counts each side."""

    model_type = "twofold_seq2seq"
    base_model_tp_plan = {
        f"{side}.{part}": how for side in ("encoder", "decoder") for part, how in TENSOR_PARALLEL.items()
    }

    is_encoder_decoder: bool = True
    decoder_start_token_id: int | None = 1
    # Whether tokens of the source may be copied into the answer.
    copies: bool = False

    def validate_architecture(self) -> None:
        super().validate_architecture()
        check_token(self, "decoder_start_token_id")
        if self.recipe == "bare":
            raise ValueError("recipe must be modern or classic: a bare layer has no place for cross-attention")


@strict
class EncoderConfig(TransformerConfig):
    """A bidirectional transformer."""

    model_type = "twofold_encoder"


@strict
class GoalConfig(EncoderConfig):
    """An encoder that tells goals and slots: num_labels goals, num_slot_labels labels of a token."""

    model_type = "twofold_goal"

    num_slot_labels: int = 0
    # Whether a second classifier, linear in the text's tokens, judges the goal beside the layers.
    goal_by_tokens: bool = False


@strict
class EmbeddingConfig(EncoderConfig):
    """An encoder that makes one vector of a sentence."""

    model_type = "twofold_embedding"

    # Divides the similarities of sentences and documents in the loss.
    similarity_temperature: float | int = 0.05

    def validate_architecture(self) -> None:
        super().validate_architecture()
        if not 0 < self.similarity_temperature < math.inf:
            raise ValueError(
                f"similarity_temperature must be a finite number above 0, got {self.similarity_temperature}"
            )
