"""A torch model as an engine: numpy arrays in, numpy arrays out.

Encoding and decoding of texts never see torch: between them stands an engine, this one or one of another library.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.generation.streamers import BaseStreamer
from transformers.utils.generic import ModelOutput

from twofold_runtime.decoding import Decoding
from twofold_runtime.tokens import END


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


class TorchWriter(TorchEngine):
    """A torch model that writes token by token."""

    def write(
        self,
        arrays: Mapping[str, np.ndarray],
        *,
        decoding: Decoding,
        max_new_tokens: int,
        never: Sequence[int],
        listen: Callable[[Sequence[int]], None] | None = None,
    ) -> list[list[int]]:
        """The ids that follow each row, which end with the end token or after max_new_tokens.

        Args:
            arrays: a padded batch, as for a call.
            decoding: how tokens are chosen. The same seed always gives the same text, and nobody else's random numbers
                change.
            never: ids that are not written.
            listen: is called with new ids of the only row as soon as there are some.
        """
        device = self.model.device
        inputs = {name: _tensor(name, array).to(device) for name, array in arrays.items()}
        options: dict[str, Any] = {"num_beams": decoding.beams, "do_sample": decoding.is_random}
        if decoding.is_random:
            # transformers' own defaults would sample among the 50 likeliest tokens.
            options |= {"temperature": decoding.temperature or 1.0, "top_k": decoding.top_k or 0}
            options |= {"top_p": decoding.top_p or 1.0} | ({"min_p": decoding.min_p} if decoding.min_p else {})
        with sampling(decoding, self.model):
            ids: Any = self.model.generate(  # type: ignore[not-callable]
                **inputs,
                **options,
                max_new_tokens=max_new_tokens,
                suppress_tokens=list(never),
                streamer=None if listen is None else _Listener(listen),
            )
        # A decoder repeats its prompt; an encoder-decoder begins with its start token.
        repeats = "input_ids" in inputs and not self.model.config.is_encoder_decoder
        prompt = inputs["input_ids"].shape[1] if repeats else 1
        return [_until_end(row) for row in ids[:, prompt:].tolist()]


def _until_end(ids: list[int]) -> list[int]:
    """Ids up to the end token and with it; what follows is padding."""
    return ids[: ids.index(END) + 1] if END in ids else ids


# torch has one generator a process: of several threads, one samples at a time.
_SAMPLING = RLock()


@contextmanager
def sampling(decoding: Decoding, model: PreTrainedModel) -> Iterator[None]:
    """Random numbers of their own for whoever samples; where nothing is sampled, nobody waits."""
    if not decoding.is_random:
        yield
        return
    devices = [model.device] if model.device.type == "cuda" else []
    with _SAMPLING, torch.random.fork_rng(devices=devices):
        # Not torch.manual_seed, which would seed every GPU as well.
        torch.default_generator.manual_seed(decoding.seed)
        for device in devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(decoding.seed)
        yield


class _Listener(BaseStreamer):
    """Passes on what `generate` writes, but not the prompt, which comes first."""

    def __init__(self, listen: Callable[[Sequence[int]], None]) -> None:
        self.listen, self.is_prompt = listen, True

    def put(self, value: Tensor) -> None:
        if self.is_prompt:
            self.is_prompt = False
            return
        self.listen(value.flatten().tolist())

    def end(self) -> None:
        """Nothing waits here."""
