"""A model and its optimizer: one step on one batch, and all of it as named tensors for a checkpoint. Knows no files."""

import math
from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grad_norm_
from transformers import PreTrainedModel

from twofold.training import randomness, tensors
from twofold.training.distribution import Processes
from twofold.training.feeding import Piece
from twofold.training.loss import part_of_loss
from twofold.training.optimizer import optimizer_of, set_rate
from twofold.training.settings import Settings

Named = dict[str, Tensor]


class Learner:
    """A model on its device, shared between processes and compiled as the settings ask, with its optimizer."""

    def __init__(self, model: PreTrainedModel, settings: Settings, processes: Processes) -> None:
        self.model, self.settings, self.processes = model, settings, processes
        randomness.seed(settings.seed, processes.rank)
        model.to(processes.device)  # type: ignore[arg-type]
        self.shared = processes.shared(model)
        self.call: Any = torch.compile(self.shared) if settings.compile else self.shared
        self.optimizer = optimizer_of(model, settings)
        self.options = forward_options(type(model), settings)
        on_gpu = processes.device.type == "cuda"
        is_bf16 = settings.precision == "bf16" or (
            settings.precision == "auto" and on_gpu and torch.cuda.is_bf16_supported()
        )
        self.autocast = torch.autocast(processes.device.type, torch.bfloat16, enabled=is_bf16)

    def step(self, pieces: list[Piece], counts: list[int], total: float, rate: float) -> tuple[Tensor, Tensor]:
        """One optimizer step: this process's part of the loss, and the gradient's norm. Both stay on the device.

        counts: what each piece's loss is a mean over; total: their sum over all processes.
        """
        loss = torch.zeros((), device=self.processes.device)
        for number, (piece, count) in enumerate(zip(pieces, counts, strict=True), start=1):
            batch = self._placed(piece.batch)
            with self.processes.kept_apart(self.shared, is_last=number == len(pieces)):
                with self.autocast:
                    part = part_of_loss(self.call, batch, count / max(total, 1.0), self.options)
                # Exchanged gradients are means over processes; parts of a loss are to be added.
                (part * self.processes.count).backward()
            loss += part.detach()
        norm = clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf)
        set_rate(self.optimizer, rate)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss, norm.full_tensor() if isinstance(norm, DTensor) else norm

    @property
    def has_nonfinite_weights(self) -> bool:
        """Whether any weight that this process holds is not finite."""
        parameters = self.model.parameters()
        local = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in parameters)
        return not all(bool(tensor.isfinite().all()) for tensor in local)

    def weights(self) -> Named:
        return tensors.weights(self.model, self.processes)

    def set_weights(self, named: Mapping[str, Tensor]) -> None:
        tensors.set_weights(self.model, named, self.processes)

    def as_tensors(self) -> dict[str, Named]:
        """Whatever the next step depends on."""
        return {
            "model": self.weights(),
            "optimizer": tensors.optimizer_state(self.model, self.optimizer, self.processes),
            "random": randomness.random_state(self.processes),
        }

    def restore(self, model: Named, optimizer: Named, random: Named, step: int) -> None:
        """The state after `step`. A process that did not exist then seeds its generators anew."""
        self.set_weights(model)
        tensors.set_optimizer_state(self.model, self.optimizer, optimizer, self.processes)
        if not randomness.set_random_state(random, self.processes):
            randomness.seed(self.settings.seed, self.processes.rank, step)

    def _placed(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: value.to(self.processes.device, non_blocking=True) if isinstance(value, Tensor) else value
            for name, value in batch.items()
        }


def forward_options(kind: type[PreTrainedModel], settings: Settings) -> dict[str, Any]:
    """Arguments of forward besides a batch, in training alone. Raises for settings that such a model cannot follow."""
    if settings.accumulate > 1 and getattr(kind, "needs_whole_batches", False):
        name, got = kind.__name__, settings.accumulate
        raise ValueError(f"accumulate must be 1 for {name}, whose loss contrasts all examples of a batch, got {got}")
    known = signature(kind.forward).parameters
    # No cache in training: it costs memory and hides where packed sequences end.
    options: dict[str, Any] = {"use_cache": False} if "use_cache" in known else {}
    if settings.label_smoothing:
        if "smoothing" not in known:
            name, got = kind.__name__, settings.label_smoothing
            raise ValueError(f"label_smoothing must be 0 for {name}, whose loss is not that of an answer, got {got}")
        options["smoothing"] = settings.label_smoothing
    return options
