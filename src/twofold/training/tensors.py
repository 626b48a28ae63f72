"""Weights and optimizer as named tensors, and back. Whole ones, however many processes share the model.

So a checkpoint does not depend on the number of processes. Under FSDP every process must call these, because all hold
parts.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer
from transformers import PreTrainedModel

from twofold.training.distribution import Processes

Named = dict[str, Tensor]


def weights(model: PreTrainedModel, processes: Processes) -> Named:
    """A copy of parameters and lasting buffers on the CPU; tied ones once. Empty where this is not the main process."""
    named = {}
    # One after the other: all of them whole at once would not fit where parts are needed.
    for name, tensor in _own(model).items():
        whole = _whole(tensor)
        if processes.is_main:
            named[name] = _copied(whole)
    return named


@torch.no_grad()
def set_weights(model: PreTrainedModel, named: Mapping[str, Tensor], processes: Processes) -> None:
    """The main process's weights, into the tensors that are there: ties stay tied."""
    own = _own(model)
    if processes.is_main and set(own) != set(named):
        odd = sorted(set(own) ^ set(named))[0]
        raise ValueError(f"model must be the one that the run began with; {odd} is only in one of both")
    for name, tensor in own.items():
        tensor.copy_(_like(tensor, named.get(name), processes))


def optimizer_state(model: PreTrainedModel, optimizer: Optimizer, processes: Processes) -> Named:
    """The optimizer's moments by the names of their parameters."""
    named = {}
    for name, parameter in _own(model).items():
        for key, value in optimizer.state.get(parameter, {}).items():
            whole = _whole(value)
            if processes.is_main:
                named[f"{name}:{key}"] = _copied(whole)
    return named


def set_optimizer_state(
    model: PreTrainedModel, optimizer: Optimizer, named: Mapping[str, Tensor], processes: Processes
) -> None:
    """The main process's moments, on every process, by the optimizer's own load_state_dict."""
    packed = optimizer.state_dict()
    names = {id(parameter): name for name, parameter in _own(model).items()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    keys = processes.from_main({name: list(tensor.shape) for name, tensor in named.items()})
    state: dict[int, dict[str, Any]] = {}
    for number, parameter in enumerate(parameters):
        prefix = f"{names[id(parameter)]}:"
        of_it = {key[len(prefix) :]: key for key in keys if key.startswith(prefix)}
        state[number] = {
            short: _like(parameter if keys[key] else torch.zeros(()), named.get(key), processes)
            for short, key in of_it.items()
        }
    optimizer.load_state_dict({"state": state, "param_groups": packed["param_groups"]})


def _own(model: PreTrainedModel) -> Named:
    """Parameters and lasting buffers by name, each tensor once."""
    once: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        once.setdefault(id(tensor), (name, tensor))
    return dict(once.values())


def _whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True).contiguous()


def _like(tensor: Tensor, source: Tensor | None, processes: Processes) -> Tensor:
    """The main process's `source`, distributed as `tensor` is."""
    whole = torch.zeros(tensor.shape, dtype=tensor.dtype) if source is None else source.to(tensor.dtype)
    whole = processes.tensor_from_main(whole)
    if isinstance(tensor, DTensor):
        return distribute_tensor(whole.to(processes.device), tensor.device_mesh, tensor.placements)
    return whole
