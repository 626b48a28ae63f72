"""Any saved model of this package back from its folder: those trained here, and converted ones."""

from pathlib import Path

from transformers import PreTrainedModel

from twofold.models import loading
from twofold.models.layers import SelfAttention
from twofold.models.loading import CONFIG, UNREADABLE, json_of, load_as
from twofold.retrofit.models import MODEL_TYPE, class_named, original_type, register


def load(path: Path | str, *, attention_class: type[SelfAttention] | None = None) -> PreTrainedModel:
    """The model that `twofold train`, `twofold convert` or `save_pretrained` wrote into a folder, ready to predict.

    attention_class: the class that computed attention, where that was one of your own; config.json has its name.
    """
    folder = Path(path)
    file = folder / CONFIG
    fields = json_of(file) if file.is_file() else {}
    if fields.get("model_type") != MODEL_TYPE:
        return loading.load(folder, attention_class=attention_class)
    names = fields.get("architectures")
    try:
        original = original_type(fields)
        model_class = class_named(str(names[0]) if isinstance(names, list) and len(names) == 1 else "", original)
        register(original)
    except (*UNREADABLE, ValueError) as error:
        raise ValueError(f"{file}: {error}") from error
    return load_as(folder, model_class)
