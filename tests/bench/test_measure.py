"""The measuring itself: a ratio that is one, a peak that is known, a wrong kernel that is not timed."""

import pytest
import torch

from twofold.bench import attention
from twofold.bench.measure import peak_bytes, ratio, times_ms
from twofold.kernels import shifted

CPU = torch.device("cpu")


def test_peak_counts_what_is_held_at_once():
    def one_after_the_other():
        for _ in range(5):
            torch.ones(1_000_000)

    def together():
        return [torch.ones(1_000_000) for _ in range(5)]

    assert 4e6 <= peak_bytes(one_after_the_other, CPU) < 5e6
    assert 20e6 <= peak_bytes(together, CPU) < 21e6


def test_ratio_is_the_median_of_rounds():
    assert ratio([2.0, 4.0, 90.0], [1.0, 2.0, 3.0]) == (2.0, 14.0)
    assert ratio([3.0], [2.0]) == (1.5, 0.0)


def test_times_run_every_work_in_turn():
    order = []
    found = times_ms({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2, CPU, warmup=1)
    assert order == ["a", "b", "a", "b", "a", "b"]
    assert {name: len(times) for name, times in found.items()} == {"a": 2, "b": 2}


def case(**changes):
    given = {
        "batch": 1,
        "heads": 2,
        "kv_heads": 1,
        "tokens": 40,
        "head_width": 8,
        "causal": True,
        "kind": "split_kv",
        "dtype": "float32",
        "device": CPU,
    }
    return attention.Case(**{**given, **changes})


@pytest.mark.parametrize("kind", ["split_key", "split_value", "split_kv"])
def test_a_kind_passes_its_own_tensors(kind):
    inputs = case(kind=kind).inputs()
    assert (inputs.self_key is not None) == (kind != "split_value")
    assert (inputs.self_value is not None) == (kind != "split_key")


@pytest.mark.parametrize(("dtype", "wrong"), [("float32", 1.001), ("bfloat16", 1.05), ("float16", 1.01)])
def test_a_wrong_kernel_is_never_timed(monkeypatch, dtype, wrong):
    right = shifted.forward
    monkeypatch.setattr(shifted, "forward", lambda call: right(call) * wrong)
    with pytest.raises(ArithmeticError, match=r"shifted is off by .* no time is reported"):
        list(attention.rows_of(case(dtype=dtype), rounds=1, backends=["shifted"]))


@pytest.mark.parametrize("dtype", attention.DTYPES)
def test_a_right_kernel_is_timed_in_every_dtype(dtype):
    rows = list(attention.rows_of(case(dtype=dtype, tokens=800), rounds=1, backends=["shifted"]))
    assert [row["pass"] for row in rows] == ["fwd", "fwd+bwd"]
