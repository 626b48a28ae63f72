"""Configuration of the recurrent models: one for the language model, the classifiers and the encoder-decoder."""

import math

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from twofold.models.configs import POOLINGS, check_token

CELLS = ("rnn", "lstm", "gru")
ATTENTIONS = ("none", "additive", "dot", "scaled_dot")
ASKS = ("after", "before")
CONTEXTS = ("once", "every")


@strict
class RecurrentConfig(PreTrainedConfig):
    """A vanilla RNN (tanh), LSTM or GRU. What an encoder-decoder alone needs is ignored by the others.

    Args:
        cell: "rnn", "lstm" or "gru".
        attention: how the decoder looks at the encoder: "additive", "dot", "scaled_dot", or "none" for the context
            vector alone.
        asks: which state asks: "after", that of the step itself, once its cell has run (Luong et al. 2015), so that a
            known answer is read in one pass; or "before", that of the step before, and the cell reads what it found
            (Bahdanau et al. 2014), step by step.
        context: without attention, the encoder's last state starts the decoder ("once") or is an input of every step as
            well ("every").
        bidirectional: the encoder, classifier or tagger reads both ways, half its units each.
        residual: a layer's input is added to its output, wherever both are as wide.
        teacher_forcing: the probability with which the decoder reads the truth in training rather than its own last
            answer: 1 teacher, 0 student, between them mixed. Read anew at every step of training.
        num_hidden_layers: on each side of an encoder-decoder.
    """

    model_type = "twofold_recurrent"
    keys_to_ignore_at_inference = ["past_key_values"]

    vocab_size: int = 32_000
    hidden_size: int = 512
    num_hidden_layers: int = 2
    cell: str = "lstm"
    attention: str = "additive"
    asks: str = "after"
    context: str = "every"
    bidirectional: bool = False
    residual: bool = False
    teacher_forcing: float | int = 1.0
    hidden_dropout: float | int = 0.0
    initializer_range: float | int = 0.1
    pooling: str | None = None
    use_cache: bool = True
    tie_word_embeddings: bool = True
    # Each model class knows what it is and sets this in its own copy.
    is_encoder_decoder: bool = False
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = 1

    def __post_init__(self, **kwargs) -> None:  # noqa: ANN003
        if self.pooling is None:
            # Read one way, the last step has seen the sentence; read both ways, no single step has.
            self.pooling = "mean" if self.bidirectional else "last"
        super().__post_init__(**kwargs)
        # Once more than transformers does, whose wrapper hides that this is a ValueError.
        self.validate_architecture()

    def validate_architecture(self) -> None:
        """Called by transformers' own validation."""
        for name, allowed in (
            ("cell", CELLS),
            ("attention", ATTENTIONS),
            ("asks", ASKS),
            ("context", CONTEXTS),
            ("pooling", POOLINGS),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        if self.attention == "none" and self.asks != "after":
            raise ValueError(f"asks must be left out without attention, got {self.asks!r}")
        for name in ("vocab_size", "hidden_size", "num_hidden_layers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("teacher_forcing", "hidden_dropout"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie between 0 and 1, got {getattr(self, name)}")
        if not 0 <= self.initializer_range < math.inf:
            raise ValueError(f"initializer_range must be a finite number of at least 0, got {self.initializer_range}")
        check_token(self, "pad_token_id")
        check_token(self, "decoder_start_token_id")
        if self.bidirectional and self.hidden_size % 2:
            raise ValueError(f"hidden_size must be even where bidirectional, got {self.hidden_size}")
