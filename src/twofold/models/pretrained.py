"""What all models here share: how they start and are loaded, what can be recorded, and the stack of layers itself."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init

from twofold.attention.initialise import init_of
from twofold.attention.rotary import RotaryTable
from twofold.attention.split import HeadNorm
from twofold.models.bag import Bag
from twofold.models.embedding import Embedding
from twofold.models.layers import Layer, SelfAttention, norm_of, record_attention


class TwofoldPreTrainedModel(PreTrainedModel):
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Layer"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_sdpa = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True
    _can_record_outputs = {"hidden_states": Layer, "attentions": SelfAttention}

    def __init__(self, config: Any) -> None:
        expected: Any = self.config_class
        if not isinstance(config, expected):
            raise ValueError(f"config must be a {expected.__name__}, got {type(config).__name__}")
        # from_pretrained sets its overrides after a configuration has checked itself.
        config.validate_architecture()
        super().__init__(config)

    def _initialize_weights(self, module: nn.Module, is_custom_code: bool = False) -> None:
        # transformers distrusts classes from outside it and passes those without parameters of their own by.
        del is_custom_code
        super()._initialize_weights(module)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, HeadNorm):
            init.ones_(module.weight)
        if isinstance(module, Bag):
            init.zeros_(module.weight)
        # Children come first, so this sees ordinary draws. Nothing that a checkpoint has brought is touched.
        if isinstance(module, SelfAttention):
            own = [part.weight for part in (module.self_key, module.self_value) if part is not None]
            if not any(getattr(weight, "_is_hf_initialized", False) for weight in own):
                init_of(self.config.init)(module)
            module.start()

    @classmethod
    def from_pretrained(cls, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        """As in transformers, except that own keys and values that the checkpoint lacks are an error."""
        loaded: Any = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        model, info = loaded
        lacking = sorted(key for key in info["missing_keys"] if ".self_key." in key or ".self_value." in key)
        if lacking:
            which = f"{lacking[0]} and {len(lacking) - 1} more"
            others = any(".self_attn.query." in key for key in info["missing_keys"])
            advice = "it is that of another model" if others else 'load it with attention="standard"'
            raise ValueError(f"the checkpoint has no weights for a token's own keys and values ({which}): {advice}")
        return loaded if output_loading_info else model


def shows_attentions(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A stack's forward that also gives attentions where only its configuration asks for them.

    transformers then collects them, but tells no layer to show its weights. The keyword comes before the configuration.
    """

    @wraps(forward)
    def asked(self: Any, *args: Any, **options: Any) -> Any:
        if options.get("output_attentions") is None and self.config.output_attentions:
            options["output_attentions"] = True
        return forward(self, *args, **options)

    return asked


class Stack(TwofoldPreTrainedModel):
    """Embedding, layers and a last norm: what every transformer here is made of. A family adds its masks.

    attention_class: what computes the self-attention of every layer, `SelfAttention` or a subclass. The configuration
    keeps the name of a subclass, as `attention_part`.
    """

    _is_causal = False
    _has_context = False

    def __init__(self, config: Any, attention_class: type[SelfAttention] = SelfAttention) -> None:
        record_attention(config, attention_class)
        super().__init__(config)
        self.embedding = Embedding(config)
        self.layers = nn.ModuleList(
            Layer(
                config,
                number,
                is_causal=self._is_causal,
                has_context=self._has_context,
                attention_class=attention_class,
            )
            for number in range(config.num_hidden_layers)
        )
        self.norm = norm_of(config) if config.recipe == "modern" else nn.Identity()
        self.gradient_checkpointing = False
        self.post_init()

    @property
    def used_layers(self) -> list[nn.Module]:
        """The first ones where the configuration says so: transformers drafts with those of a model (early exit)."""
        return list(self.layers)[: self.config.num_hidden_layers]

    def placed(
        self, input_ids: Tensor | None, inputs_embeds: Tensor | None, position_ids: Tensor | None, seen: Any = 0
    ) -> tuple[Tensor, RotaryTable | None]:
        """Embeddings and the rotary table that rotary layers take, by the positions given or counted on from `seen`."""
        tokens = input_ids if inputs_embeds is None else inputs_embeds
        if tokens is None or (input_ids is not None and inputs_embeds is not None):
            raise ValueError("give exactly one of input_ids and inputs_embeds")
        if position_ids is None:
            position_ids = (torch.arange(tokens.shape[1], device=tokens.device) + seen)[None]
        B, T = tokens.shape[:2]
        if position_ids.dim() != 2 or position_ids.shape[0] not in (1, B) or position_ids.shape[1] != T:
            raise ValueError(f"position_ids must have shape (B, T) = {(B, T)}, got {tuple(position_ids.shape)}")
        return self.embedding(input_ids, inputs_embeds, position_ids)

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding.tokens

    def set_input_embeddings(self, value: Any) -> None:
        self.embedding.tokens = value


def counted_anew(position_ids: Tensor) -> Tensor:
    """Positions (B, T) as transformers' masks take them: 0, 1, 2, ... from wherever they do not go up.

    There another text begins, packed behind the one before. Those masks take any gap for that, and would part tokens of
    one text whose positions are stretched.
    """
    places = torch.arange(position_ids.shape[-1], device=position_ids.device).expand_as(position_ids)
    begins = torch.nn.functional.pad(position_ids[:, 1:] <= position_ids[:, :-1], (1, 0))
    return places - (places * begins).cummax(-1).values
