"""Models as transformers classes. Importing this makes the Auto classes know them."""

from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from twofold.models.configs import DecoderConfig as DecoderConfig
from twofold.models.decoder import DecoderForCausalLM as DecoderForCausalLM
from twofold.models.decoder import DecoderModel as DecoderModel
from twofold.models.matching import matched as matched

AutoConfig.register(DecoderConfig.model_type, DecoderConfig)
AutoModel.register(DecoderConfig, DecoderModel)
AutoModelForCausalLM.register(DecoderConfig, DecoderForCausalLM)
