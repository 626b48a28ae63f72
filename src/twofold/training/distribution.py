"""One process or many: their ranks, what they exchange, and how a model is shared between them.

`torchrun` sets the environment that is read here. The loop asks for sums and gathers, whatever the number of processes.
Nothing is pickled: processes exchange tensors, and JSON as bytes.
"""

import json
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from twofold.models.loading import device_named
from twofold.training.settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def is_main_process() -> bool:
    """Whether this is the process that writes files: the only one, or the first."""
    return int(os.environ.get("RANK", "0")) == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Processes:
    """This process among all of them."""

    rank: int
    count: int
    device: torch.device
    kind: str  # none, ddp or fsdp

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def summed(self, values: list[float]) -> list[float]:
        """The sums over all processes."""
        if self.count == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def from_main(self, value: Any) -> Any:
        """The main process's value, anything that JSON can hold, on every process."""
        if self.count == 1:
            return value
        content = json.dumps(value).encode() if self.is_main else b""
        size = torch.tensor([len(content)], dtype=torch.int64, device=self.device)
        dist.broadcast(size, 0)
        text = torch.zeros(int(size), dtype=torch.uint8, device=self.device)
        if self.is_main:
            text.copy_(torch.tensor(list(content), dtype=torch.uint8))
        dist.broadcast(text, 0)
        return json.loads(bytes(text.tolist()))

    def tensor_from_main(self, tensor: Tensor) -> Tensor:
        """The main process's tensor on every process; the others pass one of its shape and type."""
        if self.count == 1:
            return tensor
        here = tensor.to(self.device)
        dist.broadcast(here, 0)
        return here

    def gathered(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all processes, by rank; all of one shape."""
        if self.count == 1:
            return [tensor]
        here = tensor.to(self.device)
        tensors = [torch.empty_like(here) for _ in range(self.count)]
        dist.all_gather(tensors, here)
        return [tensor.cpu() for tensor in tensors]

    def wait(self) -> None:
        """Until all processes have called this."""
        self.summed([0.0])

    def shared(self, model: "PreTrainedModel") -> nn.Module:
        """The model as the loop calls it: itself, wrapped (ddp), or cut into parts in place (fsdp)."""
        if self.kind == "ddp":
            places = [self.device.index] if self.device.type == "cuda" else None
            return DistributedDataParallel(model, device_ids=places)
        if self.kind == "fsdp":
            _cut(model, self)
        return model

    def kept_apart(self, shared: nn.Module, is_last: bool) -> AbstractContextManager[Any]:
        """Gradients are exchanged only with the last piece of a batch."""
        if isinstance(shared, DistributedDataParallel):
            return nullcontext() if is_last else shared.no_sync()
        if self.kind == "fsdp":
            cast(Any, shared).set_requires_gradient_sync(is_last)
        return nullcontext()


def join(settings: Settings) -> Processes:
    """The processes that torchrun started, or this one alone. Raises where `distribution` does not fit them."""
    count, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    kind = settings.distribution
    if kind == "auto":
        kind = "ddp" if count > 1 else "none"
    if (count > 1) == (kind == "none"):
        wanted = "auto, ddp or fsdp" if count > 1 else "auto or none, or torchrun with 2 processes or more"
        raise ValueError(f"distribution with {count} process(es) must be {wanted}, got {kind!r}")
    device = _device(settings.device)
    if count > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return Processes(rank=rank, count=count, device=device, kind=kind)


def leave(code: int) -> None:
    """End this process of several with an exit code. Does nothing where there is only one.

    By os._exit, because gloo's threads sometimes abort or hang while the interpreter shuts down.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    # After a failure others may wait for this one, and destroying the group would wait for them.
    if code == 0 and dist.get_backend() == "nccl":
        dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _device(wanted: str) -> torch.device:
    if (device := device_named(wanted)).type == "cpu":
        return device
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def _cut(model: "PreTrainedModel", processes: Processes) -> None:
    """FSDP2: every layer by itself, so that only one of them is whole at a time; the remaining parameters together."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    # All start with the main process's weights, as ddp does by itself.
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, 0)
    mesh = init_device_mesh(processes.device.type, (processes.count,))
    layers = set(model._no_split_modules or ())
    for module in list(model.modules()):
        if type(module).__name__ in layers:
            fully_shard(module, mesh=mesh)
    # Registered before fully_shard adds its own hook, which then sees only what this one returns.
    model.register_forward_hook(_only_the_loss)
    fully_shard(model, mesh=mesh)
    if hasattr(model, "generate"):
        # It calls parts of the model by themselves, which must be whole then.
        register_fsdp_forward_method(model, "generate")


def _only_the_loss(model: nn.Module, inputs: Any, output: Any) -> Any:
    """A model's output in training without its logits, which nothing reads there.

    FSDP registers a hook on every output that has a gradient; torch warns of hooks on views, as logits may be.
    """
    del model, inputs
    if torch.is_grad_enabled() and getattr(output, "loss", None) is not None:
        return type(output)(loss=output.loss)
    return output
