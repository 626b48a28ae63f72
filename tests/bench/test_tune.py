"""From measured rows to the table of choices."""

from twofold.bench.tune import lines_of, merged
from twofold.kernels.choices import Line


def row(T, backend, ratio, *, causal=True, passes="fwd+bwd", kind="split_kv", D=64):
    return {"gpu": "a", "dtype": "bfloat16", "kind": kind, "T": T, "D": D, "causal": causal, "pass": passes,
            "split_backend": backend, "ratio": ratio}  # fmt: skip


def test_the_fastest_backend_at_each_length():
    rows = [
        row(512, "shifted", 1.3), row(512, "triton", 1.1), row(64, "triton", 1.2), row(64, "shifted", 1.1),
        row(512, "shifted", 0.1, passes="fwd"), row(512, "shifted", 0.1, kind="split_key"),
        row(512, "reference", 0.1), row(512, "shifted", 1.0, causal=False), row(512, "triton", 1.1, D=128),
    ]  # fmt: skip
    assert lines_of(rows, "cuda") == [
        Line("a", "cuda", "bfloat16", False, 64, (512,), ("shifted",)),
        Line("a", "cuda", "bfloat16", True, 64, (64, 512), ("shifted", "triton")),
        Line("a", "cuda", "bfloat16", True, 128, (512,), ("triton",)),
    ]


def test_groupings_of_heads_are_averaged():
    rows = [row(8, "triton", 1.0), row(8, "triton", 1.5), row(8, "shifted", 1.2), row(8, "shifted", 1.1)]
    assert lines_of(rows, "cuda")[0].backends == ("shifted",)


def test_new_lengths_are_added_and_old_ones_replaced():
    old = [
        Line("a", "cuda", "bfloat16", True, 64, (64, 512), ("triton", "triton")),
        Line("b", "cpu", "float32", True, 64, (16,), ("columns",)),
    ]
    new = [Line("a", "cuda", "bfloat16", True, 64, (128, 512), ("triton", "shifted"))]
    assert merged(old, new) == [
        Line("a", "cuda", "bfloat16", True, 64, (64, 128, 512), ("triton", "triton", "shifted")),
        old[1],
    ]
