"""What transformers is told of how tokens are chosen."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from twofold.models.engine import TorchWriter
from twofold_runtime.decoding import Decoding


class Model:
    """Keeps the options of `generate`, and writes what they allow."""

    device = torch.device("cpu")
    config = SimpleNamespace(is_encoder_decoder=False)

    def generate(self, input_ids, attention_mask, max_new_tokens, suppress_tokens, streamer, **options):
        self.options = options
        return torch.cat([input_ids, torch.full((len(input_ids), max_new_tokens), 7)], 1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"num_beams": 1, "do_sample": False}),
        ({"beams": 4}, {"num_beams": 4, "do_sample": False}),
        ({"temperature": 0.5}, {"num_beams": 1, "do_sample": True, "temperature": 0.5, "top_k": 0, "top_p": 1.0}),
        ({"top_k": 5}, {"num_beams": 1, "do_sample": True, "temperature": 1.0, "top_k": 5, "top_p": 1.0}),
        ({"top_p": 0.9}, {"num_beams": 1, "do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 0.9}),
        (
            {"min_p": 0.1},
            {"num_beams": 1, "do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.1},
        ),
    ],
)
def test_sampling_is_among_all_tokens_unless_limited(options, expected):
    model = Model()
    arrays = {"input_ids": np.array([[1, 5]]), "attention_mask": np.array([[1, 1]])}
    written = TorchWriter(model).write(arrays, decoding=Decoding(**options), max_new_tokens=3, never=[0])
    assert written == [[7, 7, 7]]
    assert model.options == expected
