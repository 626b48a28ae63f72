"""What "auto" takes, and the reason it gives."""

import json

import pytest
import torch

from twofold import split_attention
from twofold.kernels import choices, cudnn
from twofold.kernels.api import Backend, choose
from twofold.kernels.checks import check


def call(split=True, B=1, T=128, S=128, learns=False, **options):
    tensors = [torch.zeros(1, 2, n, 8, requires_grad=learns).expand(B, -1, -1, -1) for n in (T, S, S)]
    own = [torch.zeros(1, 2, T, 8).expand(B, -1, -1, -1) for _ in range(2)] if split else [None, None]
    return check(*tensors, *own, **options)


@pytest.mark.parametrize(
    ("made", "backend", "reason"),
    [
        (
            lambda: call(T=900, S=900, is_causal=True),
            Backend.SHIFTED,
            "the fastest where it was measured (cpu, float32",
        ),
        (lambda: call(T=900, S=900, window=3), Backend.SHIFTED, "the fastest where it was measured"),
        (lambda: call(T=40, S=40, learns=True), Backend.COLUMNS, "the fastest where it was measured"),
        (lambda: call(T=65, S=65), Backend.DENSE, "without gradients"),
        (lambda: call(T=16, S=16, window=3), Backend.DENSE, "without gradients"),
        (lambda: call(B=5, T=64, S=64, is_causal=True), Backend.DENSE, "without gradients"),
        (lambda: call(B=4, T=64, S=64), Backend.COLUMNS, "the fastest where it was measured"),
        (lambda: call(B=4, window=3), Backend.DENSE, "without gradients"),
        (lambda: call(learns=True), Backend.DENSE, "the fastest where it was measured"),
        (lambda: call(B=64, learns=True), Backend.DENSE, "the fastest where it was measured"),
        (lambda: call(B=65, learns=True), Backend.SHIFTED, "dense pays up to 2,097,152 weights with gradients"),
        (lambda: call(B=5), Backend.SHIFTED, "131,072 without"),
        (lambda: call(T=9, S=9), Backend.COLUMNS, "the fastest where it was measured"),
        (lambda: call(T=9, S=9, softcap=1.0), Backend.REFERENCE, "only the reference applies a softcap"),
        (lambda: call(split=False, is_causal=True), Backend.COLUMNS, "nothing is split"),
        (lambda: call(split=False, T=128, S=4), Backend.COLUMNS, "nothing is split"),
        (lambda: call(split=False, attn_mask=torch.ones(128, 128) > 0), Backend.COLUMNS, "nothing is split"),
        (lambda: call(split=False, T=900, S=900, window=9), Backend.SHIFTED, "the fastest where it was measured"),
        (lambda: call(split=False, T=8, S=900, is_causal=True), Backend.SHIFTED, "the fastest where it was measured"),
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


def test_a_gradient_that_nobody_wants_is_none():
    with torch.no_grad():
        assert choose(call(learns=True)).reason.startswith("without gradients")


def line(machine="a", device="cpu", dtype="float32", causal=True, head_width=64, tokens=(16,), backends=("columns",)):
    return choices.Line(machine, device, dtype, causal, head_width, tokens, backends)


def fastest(dtype=torch.float32, causal=True, head_width=64, tokens=100):
    return choices.fastest(torch.device("cpu"), dtype, causal, head_width, tokens)


class TestTable:
    """Which measured line a call takes."""

    @pytest.fixture
    def table(self, monkeypatch):
        def install(*lines):
            monkeypatch.setattr(choices, "LINES", list(lines))

        monkeypatch.setattr(choices, "machine_of", lambda *_: "here")
        return install

    def test_the_longest_length_that_is_not_longer(self, table):
        table(line("here", tokens=(16, 64, 256), backends=("columns", "triton", "shifted")))
        found = [fastest(tokens=tokens).backend for tokens in (16, 63, 64, 255, 256, 10**6)]
        assert found == ["columns", "columns", "triton", "triton", "shifted", "shifted"]
        assert fastest(tokens=15).backend == "columns"
        table(line("here", tokens=(512,), backends=("shifted",)))
        assert fastest(tokens=512).backend == "shifted"
        assert fastest(tokens=511) is None

    def test_this_machine_then_this_dtype_then_a_head_that_is_wide_enough(self, table):
        near = line("here", dtype="bfloat16", head_width=32, backends=("columns",))
        wide = line("there", head_width=128, backends=("shifted",))
        table(line("there", head_width=64, backends=("triton",)), wide, near)
        assert fastest().backend == "columns"
        table(line("there", head_width=64, backends=("triton",)), wide)
        assert fastest(head_width=65).backend == "shifted"
        assert fastest(head_width=64).backend == "triton"
        assert fastest(head_width=512).backend == "shifted"

    def test_another_machine_is_named(self, table):
        table(line("there"))
        assert "(there, float32, D = 64, from T = 16 on); this machine (here) is not in the table" in fastest().reason
        table(line("here"))
        assert fastest().reason == "the fastest where it was measured (here, float32, D = 64, from T = 16 on)"

    def test_nothing_measured(self, table):
        table(line("here", causal=False), line("here", device="cuda"))
        assert fastest() is None
        made = call(is_causal=True, learns=True)
        assert choose(made) == (Backend.COLUMNS, "shorter than what was measured: fewest launches")

    def test_a_backend_that_cannot_serve_is_not_taken(self, table):
        table(line("here", backends=("triton",)))
        chosen = choose(call(is_causal=True, learns=True)._replace(query=torch.randn(1, 2, 128, 8).double()))
        assert chosen.backend == Backend.SHIFTED
        assert "triton cannot serve" in chosen.reason

    def test_compiled_lengths_are_told_apart_only_where_the_backend_changes(self, table):
        torch.compiler.reset()
        many = tuple(range(16, 400, 16))
        table(line("here", tokens=many, backends=("columns",) * 12 + ("shifted",) * 12))
        attend = torch.compile(split_attention, fullgraph=True, dynamic=True, backend="aot_eager")
        for tokens in range(8, 400, 24):
            tensors = [torch.randn(1, 2, tokens, 8) for _ in range(5)]
            expected = split_attention(*tensors, is_causal=True, backend="reference")
            torch.testing.assert_close(attend(*tensors, is_causal=True), expected)
        torch.compiler.reset()

    def test_what_is_written_can_be_read(self, tmp_path):
        lines = [line("there", tokens=(3, 9), backends=("columns", "shifted")), line("here", device="cuda")]
        choices.write(tmp_path / "choices.json", lines)
        assert choices.read(tmp_path / "choices.json") == lines

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("", "JSONDecodeError"),
            ("{}", "KeyError"),
            ('{"lines": [{"machine": "a"}]}', "TypeError"),
            ('{"lines": [3]}', "TypeError"),
            (json.dumps({"lines": [line()._asdict() | {"more": 1}]}), "TypeError"),
            (json.dumps({"lines": [line(tokens=(9, 3), backends=("columns",) * 2)._asdict()]}), "tokens must ascend"),
            (json.dumps({"lines": [line(backends=("os.system",))._asdict()]}), "backends must be of"),
        ],
    )
    def test_a_broken_table_is_one_clear_error(self, tmp_path, text, what):
        path = tmp_path / "choices.json"
        path.write_text(text)
        with pytest.raises(ValueError, match=f"choices.json is no table of choices: .*{what}"):
            choices.read(path)


def on_gpu(T, is_causal=True, dtype=torch.bfloat16, **options):
    tensors = [torch.randn(1, 2, T, 128, device="cuda", dtype=dtype) for _ in range(5)]
    return choose(check(*tensors, is_causal=is_causal, **options))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("made", "backend"),
    [
        (lambda: on_gpu(16384), Backend.SHIFTED),
        (lambda: on_gpu(128), Backend.TRITON),
        (lambda: on_gpu(16384, is_causal=False), Backend.SHIFTED if cudnn.INSTALLED else Backend.TRITON),
        (lambda: on_gpu(4096, window=5), Backend.TRITON),
        (lambda: on_gpu(4096, softcap=5.0), Backend.TRITON),
        (lambda: on_gpu(4096, dtype=torch.float32), Backend.TRITON),
        (lambda: on_gpu(4096, dtype=torch.float64), Backend.COLUMNS),
    ],
)
def test_choice_on_a_gpu(made, backend):
    assert made().backend == backend
