"""From an image to a sentence about it: an image encoder, and a transformer or recurrent decoder that looks at it."""

from dataclasses import fields
from itertools import pairwise
from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from torch.nn.functional import batch_norm
from transformers import AutoConfig, AutoModel, GenerationMixin, PreTrainedConfig
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils.generic import can_return_tuple

from twofold.attention.positions import sinusoidal
from twofold.models.answer_loss import answer_loss, decoder_reads, outputs_of_both, read_while_taught
from twofold.models.configs import Seq2SeqConfig
from twofold.models.layers import SelfAttention
from twofold.models.pretrained import TwofoldPreTrainedModel
from twofold.models.recurrent_config import RecurrentConfig
from twofold.models.recurrent_seq2seq import RecurrentDecoder
from twofold.models.seq2seq import Seq2SeqDecoder

OUTPUTS = ("output_attentions", "output_hidden_states")
DECODERS: dict[str, type[PreTrainedConfig]] = {"transformer": Seq2SeqConfig, "recurrent": RecurrentConfig}


def _of_the_decoder(name: str) -> property:
    """A field that the decoder's configuration has, seen from the whole."""
    return property(
        lambda whole: getattr(whole.decoder, name), lambda whole, value: setattr(whole.decoder, name, value)
    )


@strict
class CaptionerConfig(PreTrainedConfig):
    """A captioner: how it looks, and the configuration of what writes.

    Args:
        decoder: a `Seq2SeqConfig`, of which the decoder's side is used, or a `RecurrentConfig`. Or "transformer" or
            "recurrent", to give the fields of that configuration here.
        vision_config: that of any vision model of transformers; None: a small convolutional network.
        channels: of that network's layers, each of which halves the image's sides; with a vision_config unused.
        num_channels: of the images.
    """

    model_type = "twofold_captioner"
    keys_to_ignore_at_inference = ["past_key_values"]
    sub_configs = {"decoder": AutoConfig, "vision_config": AutoConfig}  # type: ignore[bad-override]

    decoder: PreTrainedConfig | dict | str = "transformer"
    vision_config: PreTrainedConfig | dict | None = None
    channels: list[int] | tuple[int, ...] = (32, 64, 128)
    num_channels: int = 3
    is_encoder_decoder: bool = True

    def __post_init__(self, **kwargs) -> None:  # noqa: ANN003
        if isinstance(self.decoder, str):
            if self.decoder not in DECODERS:
                raise ValueError(f"decoder must be one of {', '.join(DECODERS)} or a config, got {self.decoder!r}")
            chosen = DECODERS[self.decoder]
            self.decoder = chosen(**{name: kwargs.pop(name) for name in _own_fields(chosen) & kwargs.keys()})
        self.decoder, self.vision_config = _config_of(self.decoder), _config_of(self.vision_config)
        self.channels = tuple(self.channels)
        self._check(kwargs)
        super().__post_init__(**kwargs)
        self.tie_word_embeddings = self.decoder.tie_word_embeddings

    def validate_architecture(self) -> None:
        """Called by transformers' own validation."""
        if isinstance(self.decoder, tuple(DECODERS.values())):
            self.decoder.validate_architecture()

    def _check(self, others: dict[str, Any]) -> None:
        if not isinstance(self.decoder, tuple(DECODERS.values())):
            raise ValueError(f"decoder must be a Seq2SeqConfig or a RecurrentConfig, got {type(self.decoder).__name__}")
        # transformers asks the whole, and so finds it in a file; only the decoder has something to tie.
        if others.get("tie_word_embeddings") == self.decoder.tie_word_embeddings:
            del others["tie_word_embeddings"]
        if lost := sorted(_own_fields(type(self.decoder)) & others.keys()):
            raise ValueError(f"{lost[0]} must be given to the decoder's configuration, got it beside one")
        if isinstance(self.decoder, RecurrentConfig) and self.decoder.teacher_forcing != 1:
            raise ValueError(f"teacher_forcing must be 1 in a captioner, got {self.decoder.teacher_forcing}")
        if isinstance(self.decoder, Seq2SeqConfig) and self.decoder.copies:
            raise ValueError("copies must be False in a captioner: an image has no tokens to copy, got True")
        if self.vision_config is None and (not self.channels or min(self.channels) < 1):
            raise ValueError(f"channels must be positive and at least one, got {self.channels}")
        if self.vision_config is None and self.decoder.hidden_size % 2:
            width = self.decoder.hidden_size
            raise ValueError(
                f"hidden_size must be even without vision_config, for places are told by sines and cosines, got {width}"
            )
        if self.num_channels < 1:
            raise ValueError(f"num_channels must be at least 1, got {self.num_channels}")


# The Trainer asks these of the whole, and sets them there.
for _name in ("pad_token_id", "use_cache"):
    setattr(CaptionerConfig, _name, _of_the_decoder(_name))


def _own_fields(config: type[PreTrainedConfig]) -> set[str]:
    """Names of what it has beyond any configuration."""
    shared = {field.name for field in fields(CaptionerConfig)} | {field.name for field in fields(PreTrainedConfig)}
    return {field.name for field in fields(config)} - shared


def _config_of(config: Any) -> Any:
    return AutoConfig.for_model(**config) if isinstance(config, dict) else config


class Norm(nn.BatchNorm2d):
    """Uses the running means in training too where a batch is a single place of a single image: it has no spread."""

    def forward(self, input: Tensor) -> Tensor:
        if self.training and input.shape[0] * input.shape[2] * input.shape[3] == 1:
            return batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(input)


class ConvolutionalGrid(nn.Sequential):
    """Layers that halve the sides of an image, from (B, channels, H, W) to a grid of vectors."""

    def __init__(self, config: CaptionerConfig) -> None:
        widths = (config.num_channels, *config.channels)
        super().__init__(
            *(
                nn.Sequential(
                    nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1, bias=False),
                    Norm(after),
                    nn.ReLU(),
                )
                for before, after in pairwise(widths)
            )
        )


class ImageEncoder(nn.Module):
    """An image as a sequence of vectors as wide as the decoder: row by row, after whatever the backbone puts first."""

    # generate() asks.
    main_input_name = "pixel_values"

    def __init__(self, config: Any) -> None:
        super().__init__()
        vision, self.width = config.vision_config, config.decoder.hidden_size
        self.grid: Any = ConvolutionalGrid(config) if vision is None else None
        self.backbone = None if vision is None else AutoModel.from_config(vision)
        # Normed, or a fresh projection would whisper under positions that are added at full strength.
        self.projection: Any = nn.Sequential(
            nn.Linear(config.channels[-1] if vision is None else _width_of(vision), self.width),
            nn.LayerNorm(self.width),
        )

    def forward(self, pixel_values: Tensor, **options: Any) -> BaseModelOutput:
        """(B, channels, H, W) to (B, S, width). Options are what generate() hands every encoder: maps of the inside."""
        del options
        # A processor gives float32 whatever the model is.
        pixel_values = pixel_values.to(self.projection[1].weight.dtype)
        if self.backbone is not None:
            features = self.backbone(pixel_values=pixel_values).last_hidden_state
        else:
            features = self.grid(pixel_values)
        x = features.flatten(2).transpose(1, 2) if features.dim() == 4 else features
        x = self.projection(x)
        if self.grid is not None:
            # A transformer backbone has its own positions.
            x = x + sinusoidal(torch.arange(x.shape[1], device=x.device), self.width, dtype=x.dtype)
        return BaseModelOutput(last_hidden_state=x)


def _width_of(vision: Any) -> int:
    for name in ("hidden_size", "embed_dim"):
        if isinstance(getattr(vision, name, None), int):
            return getattr(vision, name)
    if sizes := getattr(vision, "hidden_sizes", None):
        return sizes[-1]
    raise ValueError(f"vision_config must have a hidden_size, embed_dim or hidden_sizes, got {type(vision).__name__}")


class CaptionerForConditionalGeneration(TwofoldPreTrainedModel, GenerationMixin):
    """Logits of every next token of the caption. With `labels` alone the decoder reads them shifted by one."""

    config_class = CaptionerConfig
    main_input_name = "pixel_values"
    input_modalities = "image"

    def __init__(self, config: Any, attention_class: type[SelfAttention] = SelfAttention) -> None:
        super().__init__(config)
        written = config.decoder
        self.encoder = ImageEncoder(config)
        self.start = None
        if isinstance(written, RecurrentConfig):
            self.decoder: nn.Module = RecurrentDecoder(written)
            # A state of every layer, and a memory beside it in an LSTM.
            parts = written.num_hidden_layers, 2 if written.cell == "lstm" else 1, written.hidden_size
            self.start = nn.Sequential(
                nn.Linear(written.hidden_size, parts[0] * parts[1] * parts[2]), nn.Tanh(), nn.Unflatten(-1, parts)
            )
            self._tied_weights_keys = {"lm_head.weight": "decoder.embedding.weight"}
            self._is_stateful = True
        else:
            self.decoder = Seq2SeqDecoder(written, attention_class)
            self._tied_weights_keys = {"lm_head.weight": "decoder.embedding.tokens.weight"}
        self.lm_head = nn.Linear(written.hidden_size, written.vocab_size, bias=False)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, nn.Conv2d):
            init.kaiming_normal_(module.weight, nonlinearity="relu")

    def _supports_default_dynamic_cache(self) -> bool:  # type: ignore[override]
        # generate() would make a cache of keys and values; a recurrent decoder's first pass makes its own.
        return self.start is None

    def get_input_embeddings(self) -> nn.Module:
        return self.decoder.get_input_embeddings()  # type: ignore[operator]

    def set_input_embeddings(self, value: Any) -> None:
        self.decoder.set_input_embeddings(value)  # type: ignore[operator]

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        """That of images, whichever is asked for: transformers would look for one of that name."""
        del modality
        return self.encoder

    @can_return_tuple
    def forward(
        self,
        pixel_values: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Any = None,
        decoder_inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        smoothing: float = 0.0,
        **options: Any,
    ) -> Seq2SeqLMOutput:
        """cross_attentions, where asked for: (B, heads, T, S) a layer, S the places of the image.

        smoothing: how much of every label the loss spreads evenly over the vocabulary.
        """
        if encoder_outputs is None:
            if pixel_values is None:
                raise ValueError("give pixel_values or encoder_outputs")
            encoder_outputs = self.encoder(pixel_values)
        elif not isinstance(encoder_outputs, BaseModelOutput):
            encoder_outputs = BaseModelOutput(*encoder_outputs)
        decoder_input_ids = decoder_reads(self, decoder_input_ids, decoder_inputs_embeds, labels)
        seen: Any = encoder_outputs.last_hidden_state
        # The decoder has a configuration of its own, which does not know what is asked of the whole.
        options |= {name: True for name in OUTPUTS if getattr(self.config, name) and options.get(name) is None}
        if self.start is not None:
            options["initial_state"] = self.start(seen.mean(1))
        output = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=seen,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **options,
        )
        logits = self.lm_head(output.last_hidden_state)
        loss: Any = None
        if labels is not None:
            loss = answer_loss(self, logits, labels, smoothing, options.get("num_items_in_batch"))
        return Seq2SeqLMOutput(loss=loss, logits=logits, **outputs_of_both(encoder_outputs, output))

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        return read_while_taught(labels, self.config.decoder)
