"""The random generators of training (Python's, numpy's, torch's): saved as named tensors and restored."""

import random
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from twofold.training.distribution import Processes

Named = dict[str, Tensor]


def seed(*numbers: int) -> None:
    """Seed all generators with a few numbers: a seed and a rank, so that dropout differs between processes."""
    number = number_of(*numbers)
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def number_of(*numbers: int) -> int:
    """One seed from several."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def random_state(processes: Processes) -> Named:
    """Every process's generators."""
    return {
        f"{rank}.{name}": state
        for name, mine in _mine(processes.device).items()
        for rank, state in enumerate(processes.gathered(mine))
    }


def set_random_state(named: Mapping[str, Tensor], processes: Processes) -> bool:
    """This process's generators, of all that the main process read; False if there were fewer processes then."""
    mine = _mine(processes.device)
    there = processes.from_main(sorted(named))
    states = {}
    for rank in range(processes.count):
        for name, like in mine.items():
            if f"{rank}.{name}" in there:
                state = processes.tensor_from_main(named.get(f"{rank}.{name}", like)).cpu()
                if rank == processes.rank:
                    states[name] = state
    if len(states) < len(mine):
        return False
    _set_mine(states, processes.device)
    return True


@contextmanager
def undisturbed(device: torch.device) -> Generator[None]:
    """The generators' state is restored afterwards."""
    before = _mine(device)
    try:
        yield
    finally:
        _set_mine(before, device)


def _mine(device: torch.device) -> Named:
    """All of a fixed size. 32-bit numbers, and the normal draw that is kept for the next call, are exact in float64."""
    _, numbers, kept = random.getstate()
    of_numpy: Any = np.random.get_state(legacy=False)
    keys, place = of_numpy["state"]["key"].tolist(), of_numpy["state"]["pos"]
    states = {
        "python": torch.tensor([*numbers, kept is not None, kept or 0.0], dtype=torch.float64),
        "numpy": torch.tensor([*keys, place, of_numpy["has_gauss"], of_numpy["gauss"]], dtype=torch.float64),
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _set_mine(states: Mapping[str, Tensor], device: torch.device) -> None:
    *numbers, has_kept, kept = states["python"].tolist()
    random.setstate((3, tuple(map(int, numbers)), kept if has_kept else None))
    *keys, place, has_kept, kept = states["numpy"].tolist()
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), int(place), int(has_kept), kept))
    torch.set_rng_state(states["torch"])
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
