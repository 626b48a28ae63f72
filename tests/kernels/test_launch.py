"""A launch like an earlier one takes the compiled kernel; whatever Triton compiles anew for is looked up by Triton."""

import pytest
import torch

pytest.importorskip("triton", reason="triton is not to be had for this system")
from twofold.kernels.triton import launch as launching
from twofold.kernels.triton.launch import launch


class Kernel:
    """Stands for a jitted function, which hands out what it compiled."""

    arg_names = ("p_x", "p_y", "stride", "scale", "length", "ROWS", "MASKED")

    def __init__(self, compiles=True):
        self.compiles, self.slow, self.quick = compiles, [], []

    def __getitem__(self, grid):
        def run(*args, **switches):
            self.slow.append((grid, args, switches))
            return Compiled(self.quick) if self.compiles else None

        return run


class Compiled:
    def __init__(self, launched):
        self.launched = launched

    def __getitem__(self, grid):
        return lambda *args: self.launched.append((grid, args))


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(launching, "_compiled", {})
    return Kernel()


X, Y = torch.zeros(8), torch.zeros(8)


def call(kernel, *, tensors=(X, Y), grid=(3,), numbers=(4, 0.5), free=(7,), **switches):
    launch(kernel, grid, tensors, numbers, free, **({"MASKED": True, "num_warps": 4, "ROWS": 16} | switches))


def test_the_second_launch_is_quick_with_constants_in_the_kernels_order(kernel):
    call(kernel)
    call(kernel, grid=(5, 2), free=(9,))
    assert len(kernel.slow) == 1
    (((grid, args)),) = kernel.quick
    assert grid == (5, 2, 1)
    assert args[2:] == (4, 0.5, 9, 16, True)
    assert args[0] is X


@pytest.mark.parametrize(
    "changes",
    [
        {"numbers": (5, 0.5)},
        {"ROWS": 32},
        {"num_warps": 8},
        {"MASKED": False},
        {"tensors": (X.double(), Y)},
        {"tensors": (torch.zeros(9)[1:], Y)},
    ],
    ids=str,
)
def test_what_triton_specialises_on_is_told_apart(kernel, changes):
    call(kernel)
    call(kernel, **changes)
    assert len(kernel.slow) == 2
    assert kernel.quick == []


def test_the_interpreter_has_nothing_to_keep(monkeypatch):
    monkeypatch.setattr(launching, "_compiled", {})
    kernel = Kernel(compiles=False)
    call(kernel)
    call(kernel)
    assert len(kernel.slow) == 2


def test_launches_do_not_pile_up(kernel, monkeypatch):
    monkeypatch.setattr(launching, "MOST", 3)
    for number in range(9):
        call(kernel, numbers=(number, 0.5))
        assert 1 <= len(launching._compiled) <= 3
