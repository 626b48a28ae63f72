"""A run's result: the model in its folder, as transformers writes and reads it."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor
from transformers import PreTrainedModel

from twofold.disk import system_errors
from twofold.models.loading import load_as, without_bars
from twofold.training.durable import ASIDE, move_in


def write_model(model: PreTrainedModel, folder: Path, whole: Mapping[str, Tensor] | None) -> None:
    """Put config.json and model.safetensors into `folder`: written aside, then moved in. An OSError leaves nothing new.

    whole: the weights where the model itself has only parts of them.
    """
    aside = folder / f"{ASIDE}model"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        with system_errors(), without_bars():
            model.save_pretrained(aside, state_dict=None if whole is None else dict(whole))
        move_in(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def read_model(model: PreTrainedModel, folder: Path) -> None:
    """The weights that `write_model` wrote, into a model of the same shape."""
    model.load_state_dict(load_as(folder, type(model)).state_dict())
