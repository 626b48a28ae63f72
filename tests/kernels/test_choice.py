"""What "auto" takes, and the reason it gives."""

import pytest
import torch

from twofold.kernels.api import Backend, choose
from twofold.kernels.checks import check


def call(split=True, T=128, S=128, **options):
    tensors = [torch.randn(1, 2, n, 8) for n in (T, S, S)]
    own = [torch.randn(1, 2, T, 8) for _ in range(2)] if split else [None, None]
    return check(*tensors, *own, **options)


@pytest.mark.parametrize(
    ("made", "backend", "reason"),
    [
        (lambda: call(is_causal=True), Backend.SHIFTED, "flash attention"),
        (lambda: call(window=3), Backend.SHIFTED, "flash attention"),
        (lambda: call(split=False, is_causal=True), Backend.COLUMNS, "nothing is split"),
        (lambda: call(split=False, T=128, S=4), Backend.COLUMNS, "nothing is split"),
        (lambda: call(dropout_p=0.1), Backend.COLUMNS, "shifted cannot serve: dropout"),
        (lambda: call(softcap=2.0), Backend.REFERENCE, "only the reference applies a softcap"),
        (lambda: call(split=False, softcap=2.0), Backend.REFERENCE, "only the reference applies a softcap"),
        (lambda: call(T=0, S=0), Backend.REFERENCE, "a dimension is 0"),
    ],
)
def test_choice_and_reason(made, backend, reason):
    choice = choose(made())
    assert choice.backend == backend
    assert reason in choice.reason


def test_the_choice_is_a_pure_function():
    given = call(is_causal=True)
    assert choose(given) == choose(given)
