"""Bad input gets a ValueError that names the argument, what was expected and what came."""

import math
import re

import pytest
import torch

from tests.kernels.portable import PORTABLE
from twofold import self_weight, split_attention, split_attention_weights


def good(**changes):
    """A call that works, unless a change spoils it."""
    call = {
        "query": torch.randn(2, 4, 7, 16),
        "key": torch.randn(2, 4, 7, 16),
        "value": torch.randn(2, 4, 7, 8),
        "self_key": torch.randn(2, 4, 7, 16),
        "self_value": torch.randn(2, 4, 7, 8),
    }
    return {**call, **changes}


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


CASES = {
    "query no tensor": ({"query": [1.0]}, "query must be a torch.Tensor, got list"),
    "key no tensor": ({"key": None}, "key must be a torch.Tensor, got NoneType"),
    "value 3-D": (
        {"value": randn(2, 7, 8)},
        "value must have 4 dimensions (batch, heads, tokens, width), got (2, 7, 8)",
    ),
    "query integer": (
        {"query": torch.ones(2, 4, 7, 16, dtype=torch.int64)},
        "query must be float64, float32, bfloat16 or float16, got torch.int64",
    ),
    "query complex": (
        {"query": randn(2, 4, 7, 16, dtype=torch.complex64)},
        "query must be float64, float32, bfloat16 or float16, got torch.complex64",
    ),
    "key dtype": (
        {"key": randn(2, 4, 7, 16, dtype=torch.bfloat16)},
        "key must have query's dtype torch.float32, got torch.bfloat16",
    ),
    "self_value dtype": (
        {"self_value": randn(2, 4, 7, 8, dtype=torch.float64)},
        "self_value must have query's dtype torch.float32, got torch.float64",
    ),
    "value device": (
        {"value": torch.empty(2, 4, 7, 8, device="meta")},
        "value must be on query's device cpu, got meta",
    ),
    "key batch": (
        {"key": randn(3, 4, 7, 16)},
        "key must have shape (B, Hkv, S, D) = (2, 4, 7, 16), got (3, 4, 7, 16)",
    ),
    "key width": (
        {"key": randn(2, 4, 7, 15)},
        "key must have shape (B, Hkv, S, D) = (2, 4, 7, 16), got (2, 4, 7, 15)",
    ),
    "value tokens": (
        {"value": randn(2, 4, 6, 8)},
        "value must have shape (B, Hkv, S, Dv) = (2, 4, 7, 8), got (2, 4, 6, 8)",
    ),
    "value heads": (
        {"value": randn(2, 2, 7, 8)},
        "value must have shape (B, Hkv, S, Dv) = (2, 4, 7, 8), got (2, 2, 7, 8)",
    ),
    "self_key tokens": (
        {"self_key": randn(2, 4, 6, 16)},
        "self_key must have shape (B, Hkv, T, D) = (2, 4, 7, 16), got (2, 4, 6, 16)",
    ),
    "self_value width": (
        {"self_value": randn(2, 4, 7, 16)},
        "self_value must have shape (B, Hkv, T, Dv) = (2, 4, 7, 8), got (2, 4, 7, 16)",
    ),
    "heads without gqa": (
        {"query": randn(2, 8, 7, 16)},
        "key must have query's 8 heads unless enable_gqa=True, got 4",
    ),
    "heads that do not divide": (
        {"query": randn(2, 6, 7, 16), "enable_gqa": True},
        "key must have a number of heads that divides query's 6, got 4",
    ),
    "enable_gqa": ({"enable_gqa": 1}, "enable_gqa must be True or False, got 1"),
    "is_causal": ({"is_causal": "yes"}, "is_causal must be True or False, got 'yes'"),
    "dropout above 1": ({"dropout_p": 1.5}, "dropout_p must be a number from 0 to 1, got 1.5"),
    "dropout below 0": ({"dropout_p": -0.1}, "dropout_p must be a number from 0 to 1, got -0.1"),
    "dropout NaN": ({"dropout_p": math.nan}, "dropout_p must be a number from 0 to 1, got nan"),
    "dropout bool": ({"dropout_p": True}, "dropout_p must be a number from 0 to 1, got True"),
    "scale infinite": ({"scale": math.inf}, "scale must be None or a finite number, got inf"),
    "scale beyond float32": ({"scale": 10**400}, f"scale must be None or a finite number, got {10**400}"),
    "sparse query": (
        {"query": torch.zeros(2, 4, 7, 16).to_sparse()},
        "query must be a dense tensor, got layout torch.sparse_coo",
    ),
    "sparse mask": (
        {"attn_mask": torch.ones(7, 7, dtype=torch.bool).to_sparse()},
        "attn_mask must be a dense tensor, got layout torch.sparse_coo",
    ),
    "scale text": ({"scale": "1"}, "scale must be None or a finite number, got '1'"),
    "softcap zero": ({"softcap": 0}, "softcap must be None or a finite number above 0, got 0"),
    "softcap infinite": ({"softcap": math.inf}, "softcap must be None or a finite number above 0, got inf"),
    "window negative": ({"window": -1}, "window must be None or a whole number of at least 0, got -1"),
    "window fraction": ({"window": 2.0}, "window must be None or a whole number of at least 0, got 2.0"),
    "window bool": ({"window": True}, "window must be None or a whole number of at least 0, got True"),
    "mask no tensor": ({"attn_mask": [[True]]}, "attn_mask must be a torch.Tensor, got list"),
    "mask integer": (
        {"attn_mask": torch.ones(7, 7, dtype=torch.int64)},
        "attn_mask must be bool (True = may attend) or float (added), got torch.int64",
    ),
    "mask device": (
        {"attn_mask": torch.empty(7, 7, device="meta")},
        "attn_mask must be on query's device cpu, got meta",
    ),
    "mask shape": (
        {"attn_mask": randn(2, 1, 7, 6)},
        "attn_mask must broadcast to (B, Hq, T, S) = (2, 4, 7, 7), got (2, 1, 7, 6)",
    ),
    "mask 5-D": (
        {"attn_mask": randn(1, 2, 4, 7, 7)},
        "attn_mask must broadcast to (B, Hq, T, S) = (2, 4, 7, 7), got (1, 2, 4, 7, 7)",
    ),
    "segments no tensor": ({"segment_ids": [0]}, "segment_ids must be a torch.Tensor, got list"),
    "segments float": ({"segment_ids": randn(2, 7)}, "segment_ids must hold whole numbers, got torch.float32"),
    "segments shape": (
        {"segment_ids": torch.zeros(7, dtype=torch.int64)},
        "segment_ids must have shape (B, T) = (2, 7), got (7,)",
    ),
    "segments device": (
        {"segment_ids": torch.empty(2, 7, dtype=torch.int64, device="meta")},
        "segment_ids must be on query's device cpu, got meta",
    ),
    "width 0": (
        {name: randn(2, 4, 7, 0) for name in ("query", "key", "self_key")},
        "query must have a head width D of at least 1, got 0",
    ),
    "backend": (
        {"backend": "flash"},
        "backend must be one of auto, reference, columns, dense, shifted, triton, got 'flash'",
    ),
    "backend list": (
        {"backend": ["auto"]},
        "backend must be one of auto, reference, columns, dense, shifted, triton, got ['auto']",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_split_attention_refuses(case):
    changes, message = CASES[case]
    # A good call that is remembered lets no other one through.
    split_attention(**good())
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        split_attention(**good(**changes))


def test_the_good_call_is_good():
    assert split_attention(**good()).shape == (2, 4, 7, 8)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("self_key", {"self_key": randn(1, 1, 5, 4)}),
        ("self_value", {"self_value": randn(1, 1, 5, 4)}),
        ("is_causal", {"is_causal": True}),
        ("window", {"window": 1}),
        ("segment_ids", {"segment_ids": torch.zeros(1, 5, dtype=torch.int64)}),
    ],
)
def test_fewer_keys_than_queries_leave_no_own_slot(name, wanted):
    q, k = torch.randn(1, 1, 5, 4), torch.randn(1, 1, 3, 4)
    message = f"{name} needs an own slot for every query: key must have at least query's 5 tokens, got 3"
    with pytest.raises(ValueError, match=re.escape(message)):
        split_attention(q, k, k, **wanted)


def test_segments_need_as_many_keys_as_queries():
    q, k = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 5, 4)
    with pytest.raises(ValueError, match=r"segment_ids need as many keys as queries \(3\), got 5 keys"):
        split_attention(q, k, k, segment_ids=torch.zeros(1, 3, dtype=torch.int64))


def test_self_weight_and_weights_have_the_same_voice():
    q, k = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 3, 4)
    with pytest.raises(ValueError, match="key must have at least query's 5 tokens, one own slot each, got 3"):
        self_weight(q, k)
    for function in (self_weight, split_attention_weights):
        with pytest.raises(ValueError, match=r"self_key must have shape .* = \(1, 2, 5, 4\), got \(1, 2, 4, 4\)"):
            function(q, q, q[:, :, 1:])
        with pytest.raises(ValueError, match=r"query must be a torch\.Tensor, got int"):
            function(3, q)
        with pytest.raises(TypeError, match=rf"^{function.__name__}\(\) got an unexpected keyword argument 'windw'$"):
            function(q, q, windw=3)
        with pytest.raises(ValueError, match=r"backend must be .*, got \['auto'\]"):
            function(q, q, backend=["auto"])
    with pytest.raises(ValueError, match="only the reference keeps weights, got 'shifted'"):
        split_attention_weights(q, q, backend="shifted")


class TestANamedBackendNeverFallsBack:
    def call(self, backend, **changes):
        tensors = [torch.randn(1, 1, 4, 8) for _ in range(5)]
        split_attention(*tensors, backend=backend, **changes)

    @pytest.mark.parametrize("backend", ["columns", "dense", "shifted"])
    def test_softcap(self, backend):
        with pytest.raises(ValueError, match=f"backend '{backend}' cannot serve this call: softcap is not part of"):
            self.call(backend, softcap=5.0)

    @pytest.mark.parametrize("backend", ["dense", "shifted"])
    def test_dropout(self, backend):
        with pytest.raises(ValueError, match=f"backend '{backend}' cannot serve this call: dropout"):
            self.call(backend, dropout_p=0.1)

    @pytest.mark.parametrize("backend", ["dense", "shifted"])
    def test_a_learned_mask(self, backend):
        with pytest.raises(ValueError, match=f"backend '{backend}' cannot serve .* attn_mask requires a gradient"):
            self.call(backend, attn_mask=torch.randn(4, 4, requires_grad=True))

    def test_shifted_wide_values(self):
        with pytest.raises(ValueError, match=r"needs values as wide as keys \(16\), got 8"):
            split_attention(**good(backend="shifted"))

    @pytest.mark.parametrize("backend", ["dense", "shifted"])
    def test_cross_attention(self, backend):
        q, k = torch.randn(1, 1, 5, 4), torch.randn(1, 1, 3, 4)
        with pytest.raises(ValueError, match="with fewer keys than queries there is no own slot"):
            split_attention(q, k, k, backend=backend)

    def test_shifted_elsewhere(self):
        tensors = [torch.empty(1, 1, 4, 8, device="meta") for _ in range(5)]
        with pytest.raises(ValueError, match="torch brings no flash attention with a log-sum-exp for meta"):
            split_attention(*tensors, backend="shifted")


def test_backends_are_also_given_by_their_enum():
    tensors = [torch.randn(1, 1, 4, 8) for _ in range(5)]
    expected = split_attention(*tensors)
    for backend in PORTABLE:
        torch.testing.assert_close(split_attention(*tensors, backend=backend), expected)
