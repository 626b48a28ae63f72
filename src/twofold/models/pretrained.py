"""What transformers wants to know of every model here: how it starts, how it is loaded, what can be recorded."""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init

from twofold.attention.initialise import init_of
from twofold.attention.split import HeadNorm
from twofold.models.layers import CachedCrossAttention, Layer, SelfAttention


class TwofoldPreTrainedModel(PreTrainedModel):
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Layer"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_sdpa = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True
    _can_record_outputs = {"hidden_states": Layer, "attentions": SelfAttention}

    def _initialize_weights(self, module: nn.Module, is_custom_code: bool = False) -> None:
        # transformers distrusts classes from outside it and passes those without parameters of their own by.
        del is_custom_code
        super()._initialize_weights(module)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, HeadNorm):
            init.ones_(module.weight)
        # Children come first, so this sees ordinary draws. Nothing that a checkpoint has brought is touched.
        if isinstance(module, SelfAttention):
            own = [part.weight for part in (module.self_key, module.self_value) if part is not None]
            if not any(getattr(weight, "_is_hf_initialized", False) for weight in own):
                init_of(self.config.init)(module)

    @classmethod
    def from_pretrained(cls, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        """As in transformers, except that own keys and values that the checkpoint lacks are an error."""
        loaded: Any = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        model, info = loaded
        lacking = sorted(key for key in info["missing_keys"] if ".self_key." in key or ".self_value." in key)
        if lacking:
            raise ValueError(
                f"the checkpoint has no weights for a token's own keys and values ({lacking[0]} and {len(lacking) - 1} "
                'more): load it with attention="standard", or convert it'
            )
        return loaded if output_loading_info else model


CROSS_ATTENTIONS = {"cross_attentions": CachedCrossAttention}
