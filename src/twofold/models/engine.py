"""A torch model as an engine: numpy arrays in, numpy arrays out.

Encoding and decoding of texts never see torch: between them stands an engine, this one or one of another library. What
writes token by token (generation) is no matter of an engine.
"""

from collections.abc import Collection, Mapping

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput


class TorchEngine:
    """Calls a model with the arrays as its keyword arguments, without gradients, in the mode that it is in.

    Args:
        model: a transformers model. It is neither moved nor set to eval mode: whoever loads it does that.
        outputs: names of the outputs to return; None: every output that is a tensor. What is left out is not copied.
    """

    def __init__(self, model: PreTrainedModel, outputs: Collection[str] | None = None) -> None:
        self.model = model
        self.outputs = None if outputs is None else tuple(outputs)

    @torch.no_grad()
    def __call__(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Output arrays by name, on the CPU; floating-point outputs are float32, whatever the model computes in."""
        device = self.model.device
        output = self.model(**{name: _tensor(name, array).to(device) for name, array in arrays.items()})
        if not isinstance(output, ModelOutput):
            raise ValueError(f"model must return a ModelOutput, got {type(output).__name__}")
        tensors = {name: value for name, value in output.items() if isinstance(value, Tensor)}
        if self.outputs is not None:
            if missing := [name for name in self.outputs if name not in tensors]:
                raise ValueError(f"outputs must be among {', '.join(tensors)}, got {missing[0]!r}")
            tensors = {name: tensors[name] for name in self.outputs}
        return {name: _array(tensor) for name, tensor in tensors.items()}


def _tensor(name: str, array: np.ndarray) -> Tensor:
    # A copy: torch takes neither read-only arrays nor reversed views.
    try:
        return torch.from_numpy(np.array(array, order="C"))
    except TypeError as error:
        raise ValueError(f"{name} must be an array of numbers, got dtype {np.asarray(array).dtype}") from error


def _array(tensor: Tensor) -> np.ndarray:
    return (tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy()
