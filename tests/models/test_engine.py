"""The torch engine: arrays through a model are what the model itself says."""

import numpy as np
import pytest
import torch

from twofold.models import EncoderForGoal, GoalConfig
from twofold.models.engine import TorchEngine

SIZES = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
IDS = np.array([[1, 5, 6, 2], [1, 7, 2, 0]])
ARRAYS = {"input_ids": IDS, "attention_mask": (IDS > 0).astype(np.int64)}


def model_of(dtype=torch.float32):
    torch.manual_seed(0)
    return EncoderForGoal(GoalConfig(**SIZES, num_labels=3, num_slot_labels=5)).to(dtype).eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_arrays_are_what_the_model_says(dtype):
    model = model_of(dtype)
    with torch.no_grad():
        expected = model(**{name: torch.from_numpy(array) for name, array in ARRAYS.items()})
    output = TorchEngine(model)(ARRAYS)
    assert output.keys() == {"goal_logits", "slot_logits"}
    for name, array in output.items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, expected[name].float().numpy())


def test_only_named_outputs_are_returned():
    engine = TorchEngine(model_of(), outputs=["slot_logits"])
    assert engine(ARRAYS).keys() == {"slot_logits"}
    with pytest.raises(ValueError, match=r"outputs must be among .*slot_logits.*, got 'colour'"):
        TorchEngine(model_of(), outputs=["colour"])(ARRAYS)


def test_read_only_and_reversed_arrays_serve():
    engine = TorchEngine(model_of())
    frozen = IDS.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(
        engine({"input_ids": frozen})["goal_logits"], engine({"input_ids": IDS})["goal_logits"]
    )
    backwards = engine({"input_ids": IDS[:, ::-1]})["goal_logits"]
    np.testing.assert_array_equal(backwards, engine({"input_ids": IDS[:, ::-1].copy()})["goal_logits"])


def test_the_mode_of_the_model_stays_as_it_is():
    model = model_of().train()
    TorchEngine(model)(ARRAYS)
    assert model.training


def test_arrays_without_numbers_are_refused_by_name():
    with pytest.raises(ValueError, match="input_ids"):
        TorchEngine(model_of())({"input_ids": np.array([["a", "b"]])})


def test_what_is_no_model_output_is_refused():
    class Bare(torch.nn.Linear):
        device = torch.device("cpu")

    with pytest.raises(ValueError, match="ModelOutput"):
        TorchEngine(Bare(2, 2))({"input": np.ones((1, 2), dtype=np.float32)})
