"""FlexAttention as a rival: its merge is split attention, and what it cannot run is said."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from tests.bench.test_measure import case
from twofold import split_attention
from twofold.bench import attention, flex


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["split_key", "split_value", "split_kv"])
def test_the_merge_is_split_attention(kind, causal):
    inputs = case(kind=kind, causal=causal, tokens=33).inputs().each(torch.Tensor.detach)
    mask = create_block_mask(lambda b, h, i, j: i > j if causal else i != j, None, None, 33, 33, device="cpu")
    expected = split_attention(*inputs, is_causal=causal, enable_gqa=True)
    torch.testing.assert_close(flex.attend(mask, *inputs), expected)


def test_what_it_cannot_run_has_a_reason():
    assert "GPUs only, got cpu" in flex.why_not(torch.device("cpu"), "float32")
    assert "float64" in flex.why_not(torch.device("cuda"), "float64")
    assert flex.why_not(torch.device("cuda"), "bfloat16") is None


@pytest.mark.parametrize("error", [RuntimeError("no such kernel\nand more"), ArithmeticError("off by 1")])
def test_a_failure_leaves_it_out_with_a_reason(monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(flex, "why_not", lambda *_: None)
    monkeypatch.setattr(flex, "compiled", fail)
    reasons = []
    rows = list(attention.rows_of(case(), rounds=1, backends=["flex"], left_out=reasons.append))
    assert {row["split_backend"] for row in rows} == {"columns"}
    (reason,) = reasons
    assert reason == f"flex left out: at T=40: {type(error).__name__}: {str(error).splitlines()[0]}"


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_measured_on_a_gpu(causal):
    """Its output and gradients are checked before they are timed."""
    shape = case(tokens=300, head_width=64, dtype="bfloat16", causal=causal, device=torch.device("cuda"))
    reasons = []
    rows = list(attention.rows_of(shape, rounds=2, backends=["flex"], left_out=reasons.append))
    assert reasons == []
    assert [row["pass"] for row in rows if row["split_backend"] == "flex"] == ["fwd", "fwd+bwd"]
    assert all(row["eager_ratio"] > 0 for row in rows)
