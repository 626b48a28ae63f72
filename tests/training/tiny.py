"""A language model that trains in a second, its data, and how well it does: for every test of this folder."""

import random

import numpy as np
import torch
from safetensors.torch import load_file

from twofold.models import DecoderConfig, DecoderForCausalLM, Seq2SeqConfig, Seq2SeqForConditionalGeneration
from twofold.training import Settings, fit, read_metrics

SETTINGS = {
    "epochs": 2,
    "batch_size": 8,
    "learning_rate": 0.01,
    "log_steps": 1,
    "evaluate_steps": 3,
    "save_steps": 2,
    "save_seconds": None,
    "device": "cpu",
}


SIZES = {
    "vocab_size": 17,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "hidden_dropout": 0.1,
}


def model(**changes):
    torch.manual_seed(7)
    return DecoderForCausalLM(DecoderConfig(**{**SIZES, **changes}))


def copier(**changes):
    """An encoder-decoder, which learns to write what it read: labels are as long as what they are the labels of."""
    torch.manual_seed(7)
    return Seq2SeqForConditionalGeneration(Seq2SeqConfig(**{**SIZES, **changes}))


def data(examples=37):
    draw = torch.Generator().manual_seed(3)
    lengths = torch.randint(2, 9, (examples,), generator=draw).tolist()
    return [{"input_ids": torch.randint(3, 17, (length,), generator=draw).tolist()} for length in lengths]


def collate(features):
    longest = max(len(one["input_ids"]) for one in features)
    rows = [one["input_ids"] + [0] * (longest - len(one["input_ids"])) for one in features]
    ids = torch.tensor(rows)
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": ids.masked_fill(ids == 0, -100)}


def by_chance(features):
    """Rows with one token changed, by Python's chance and by numpy's, as what people write for collating does."""
    batch = collate(features)
    [row] = random.sample(range(len(features)), 1)
    batch["input_ids"][row, 0] = int(np.random.randint(3, 17))
    return batch


def evaluate(model):
    # Draws, as some evaluations do: training must not notice.
    for draw in (torch.rand, random.sample, np.random.rand):
        draw(*([range(9)] if draw is random.sample else []), 3)
    batch = {name: tensor.to(model.device) for name, tensor in collate(data(9)).items()}
    return {"loss": float(model(**batch).loss), "length": 9}


def train(folder, *, changes=None, **options):
    given = {
        "settings": Settings(**{**SETTINGS, **(changes or {})}),
        "folder": folder,
        "evaluate": evaluate,
        "metric": "loss",
        "higher_is_better": False,
        **options,
    }
    return fit(given.pop("model", None) or model(), given.pop("train", data()), given.pop("collate", collate), **given)


def weights(folder):
    return load_file(folder / "model.safetensors")


def curve(folder, kind="step"):
    """Lines of metrics.jsonl without their times."""
    return [{**line, "seconds": None} for line in read_metrics(folder) if line["kind"] == kind]


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
