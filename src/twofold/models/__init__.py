"""Models as transformers classes. Importing this makes the Auto classes know them."""

import transformers as _transformers
from transformers.models.auto import modeling_auto as _modeling_auto

from twofold.models import captioner as _captioner
from twofold.models import decoder as _decoder
from twofold.models import encoder as _encoder
from twofold.models import recurrent as _recurrent
from twofold.models import recurrent_seq2seq as _recurrent_seq2seq
from twofold.models import seq2seq as _seq2seq
from twofold.models.captioner import CaptionerConfig as CaptionerConfig
from twofold.models.captioner import CaptionerForConditionalGeneration as CaptionerForConditionalGeneration
from twofold.models.configs import DecoderConfig as DecoderConfig
from twofold.models.configs import EmbeddingConfig as EmbeddingConfig
from twofold.models.configs import EncoderConfig as EncoderConfig
from twofold.models.configs import GoalConfig as GoalConfig
from twofold.models.configs import Seq2SeqConfig as Seq2SeqConfig
from twofold.models.decoder import DecoderForCausalLM as DecoderForCausalLM
from twofold.models.decoder import DecoderModel as DecoderModel
from twofold.models.encoder import EncoderForGoal as EncoderForGoal
from twofold.models.encoder import EncoderForMaskedLM as EncoderForMaskedLM
from twofold.models.encoder import EncoderForSentenceEmbedding as EncoderForSentenceEmbedding
from twofold.models.encoder import EncoderModel as EncoderModel
from twofold.models.heads import GoalOutput as GoalOutput
from twofold.models.maps import self_weights as self_weights
from twofold.models.matching import matched as matched
from twofold.models.recurrent import RecurrentForCausalLM as RecurrentForCausalLM
from twofold.models.recurrent import RecurrentModel as RecurrentModel
from twofold.models.recurrent import unit_activations as unit_activations
from twofold.models.recurrent_config import RecurrentConfig as RecurrentConfig
from twofold.models.recurrent_seq2seq import RecurrentForConditionalGeneration as RecurrentForConditionalGeneration
from twofold.models.seq2seq import Seq2SeqForConditionalGeneration as Seq2SeqForConditionalGeneration
from twofold.models.seq2seq import Seq2SeqModel as Seq2SeqModel

AUTO = {
    DecoderConfig: {
        "AutoModel": _decoder.DecoderModel,
        "AutoModelForCausalLM": _decoder.DecoderForCausalLM,
        "AutoModelForSequenceClassification": _decoder.DecoderForSequenceClassification,
        "AutoModelForTokenClassification": _decoder.DecoderForTokenClassification,
        "AutoModelForQuestionAnswering": _decoder.DecoderForQuestionAnswering,
    },
    EncoderConfig: {
        "AutoModel": _encoder.EncoderModel,
        "AutoModelForMaskedLM": _encoder.EncoderForMaskedLM,
        "AutoModelForSequenceClassification": _encoder.EncoderForSequenceClassification,
        "AutoModelForTokenClassification": _encoder.EncoderForTokenClassification,
        "AutoModelForQuestionAnswering": _encoder.EncoderForQuestionAnswering,
    },
    GoalConfig: {"AutoModel": _encoder.EncoderForGoal},
    EmbeddingConfig: {"AutoModel": _encoder.EncoderForSentenceEmbedding},
    Seq2SeqConfig: {
        "AutoModel": _seq2seq.Seq2SeqModel,
        "AutoModelForSeq2SeqLM": _seq2seq.Seq2SeqForConditionalGeneration,
    },
    RecurrentConfig: {
        "AutoModel": _recurrent.RecurrentModel,
        "AutoModelForCausalLM": _recurrent.RecurrentForCausalLM,
        "AutoModelForSequenceClassification": _recurrent.RecurrentForSequenceClassification,
        "AutoModelForTokenClassification": _recurrent.RecurrentForTokenClassification,
        "AutoModelForSeq2SeqLM": _recurrent_seq2seq.RecurrentForConditionalGeneration,
    },
    CaptionerConfig: {
        "AutoModelForImageTextToText": _captioner.CaptionerForConditionalGeneration,
    },
}

for _config, _classes in AUTO.items():
    _transformers.AutoConfig.register(_config.model_type, _config)
    for _name, _class in _classes.items():
        getattr(_transformers, _name).register(_config, _class)
    if "AutoModelForCausalLM" in _classes:
        # By this Trainer knows whose labels it has to shift when it smooths them; registering does not add to it.
        _names = _modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        _names[_config.model_type] = _classes["AutoModelForCausalLM"].__name__
