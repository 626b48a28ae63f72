"""Tiny random models of the families that are converted, and of some that are not."""

import torch
import transformers as t
from packaging.version import Version

SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}
BART = {
    "vocab_size": 99,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 10000.0}
SLIDING = {**GROUPED, "head_dim": 8, "sliding_window": 4}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}

DECODERS = {
    "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**GROUPED)),
    "llama_yarn": lambda: t.LlamaForCausalLM(t.LlamaConfig(**GROUPED, rope_parameters=YARN)),
    "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**GROUPED)),
    "qwen3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**GROUPED, head_dim=8)),
    "mistral": lambda: t.MistralForCausalLM(t.MistralConfig(**GROUPED, sliding_window=4)),
    "gemma2": lambda: t.Gemma2ForCausalLM(t.Gemma2Config(**SLIDING)),
    "gemma3": lambda: t.Gemma3ForCausalLM(t.Gemma3TextConfig(**SLIDING)),
    "gpt_oss": lambda: t.GptOssForCausalLM(t.GptOssConfig(**SLIDING, **EXPERTS)),
    "olmo2": lambda: t.Olmo2ForCausalLM(t.Olmo2Config(**GROUPED)),
    "phi3": lambda: t.Phi3ForCausalLM(t.Phi3Config(**GROUPED, pad_token_id=0)),
    "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64)),
    "gpt_neox": lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**SIZES)),
}
ENCODERS = {
    "bert": lambda: t.BertForMaskedLM(t.BertConfig(**SIZES)),
    "roberta": lambda: t.RobertaForMaskedLM(t.RobertaConfig(**SIZES)),
    "modernbert": lambda: t.ModernBertForMaskedLM(
        t.ModernBertConfig(
            **SIZES, local_attention=4, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2
        )
    ),
    "vit": lambda: t.ViTForImageClassification(
        t.ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=32,
            image_size=16,
            patch_size=4,
        )
    ),
}
BOTH = {
    "t5": lambda: t.T5ForConditionalGeneration(
        t.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4, decoder_start_token_id=0)
    ),
    "bart": lambda: t.BartForConditionalGeneration(t.BartConfig(**BART, max_position_embeddings=64)),
    "marian": lambda: t.MarianMTModel(t.MarianConfig(**BART, max_position_embeddings=64)),
    "whisper": lambda: t.WhisperForConditionalGeneration(
        t.WhisperConfig(
            **BART,
            max_source_positions=30,
            max_target_positions=64,
            num_mel_bins=8,
            suppress_tokens=None,
            begin_suppress_tokens=None,
        )
    ),
}
if Version(t.__version__) < Version("5.22"):
    # In 5.17 the two sides of T5 do not hear which attention the model is to have, and it is refused.
    del BOTH["t5"]
# Families that nobody had in mind, and which pass the same check.
OTHERS = {
    "opt": lambda: t.OPTForCausalLM(
        t.OPTConfig(**SMALL, ffn_dim=32, max_position_embeddings=64, word_embed_proj_dim=32)
    ),
    "cohere": lambda: t.CohereForCausalLM(t.CohereConfig(**GROUPED)),
    "mixtral": lambda: t.MixtralForCausalLM(t.MixtralConfig(**GROUPED, **EXPERTS)),
    "electra": lambda: t.ElectraForMaskedLM(t.ElectraConfig(**SIZES, embedding_size=32)),
    "glm4": lambda: t.Glm4ForCausalLM(t.Glm4Config(**GROUPED, head_dim=8, pad_token_id=0)),
}
FAMILIES = {**DECODERS, **ENCODERS, **BOTH}

REFUSED = {
    "falcon": (lambda: t.FalconForCausalLM(t.FalconConfig(**SMALL)), "AttentionInterface"),
    "bloom": (
        lambda: t.BloomForCausalLM(t.BloomConfig(vocab_size=99, hidden_size=32, n_layer=2, n_head=4)),
        "Attention",
    ),
    "phi": (lambda: t.PhiForCausalLM(t.PhiConfig(**SIZES)), "own keys and values cannot be computed"),
    "siglip": (
        lambda: t.SiglipVisionModel(
            t.SiglipVisionConfig(
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=32,
                image_size=16,
                patch_size=4,
            )
        ),
        "SiglipAttention: it does not hand keyword arguments on",
    ),
}


def known(*names):
    """Those of these families that this version of transformers lets be converted."""
    return [name for name in names if name in FAMILIES | OTHERS]


def model_of(name, seed=0):
    """A model whose weights are large enough for attention to matter."""
    torch.manual_seed(seed)
    model = (FAMILIES | OTHERS)[name]().eval()
    return strengthened(model)


def strengthened(model, seed=1):
    """The model with all its trained weights moved by noise, in place: own keys and values part from the others."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1 and parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=generator).to(parameter) * 0.1)
    return model
