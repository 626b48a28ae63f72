"""What "auto" takes, and the reason it gives."""

import pytest
import torch

from twofold.kernels.api import SHIFTED_FROM, Backend, choose
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
        (lambda: call(T=65, S=65), Backend.SHIFTED, "flash attention"),
        (lambda: call(T=64, S=64), Backend.COLUMNS, "up to 64 keys"),
        (lambda: call(T=9, S=9, softcap=1.0), Backend.REFERENCE, "only the reference applies a softcap"),
        (lambda: call(split=False, is_causal=True), Backend.COLUMNS, "nothing is split"),
        (lambda: call(split=False, T=128, S=4), Backend.COLUMNS, "nothing is split"),
        (lambda: call(split=False, attn_mask=torch.ones(128, 128) > 0), Backend.COLUMNS, "nothing is split"),
        (lambda: call(split=False, window=9), Backend.SHIFTED, "flash attention"),
        (lambda: call(split=False, T=8, S=128, is_causal=True), Backend.SHIFTED, "flash attention"),
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


def on_gpu(T, is_causal=True, dtype=torch.bfloat16, **options):
    tensors = [torch.randn(1, 2, T, 64, device="cuda", dtype=dtype) for _ in range(5)]
    return choose(check(*tensors, is_causal=is_causal, **options))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("made", "backend"),
    [
        (lambda: on_gpu(SHIFTED_FROM), Backend.SHIFTED),
        (lambda: on_gpu(SHIFTED_FROM - 1), Backend.TRITON),
        (lambda: on_gpu(SHIFTED_FROM, is_causal=False), Backend.TRITON),
        (lambda: on_gpu(SHIFTED_FROM, window=5), Backend.TRITON),
        (lambda: on_gpu(SHIFTED_FROM, softcap=5.0), Backend.TRITON),
        (lambda: on_gpu(SHIFTED_FROM, dtype=torch.float32), Backend.TRITON),
        (lambda: on_gpu(SHIFTED_FROM, dtype=torch.float64), Backend.COLUMNS),
    ],
)
def test_choice_on_a_gpu(made, backend):
    assert made().backend == backend
