"""torch.compile keeps one graph, torch.export keeps dynamic sizes, checkpointing and the op's own contract hold."""

from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.kernels.portable import PORTABLE
from twofold import SplitSelfAttention, self_weight, split_attention
from twofold.kernels import ops


def five(B=2, H=2, T=9, D=8, dtype=torch.float32):
    return [torch.randn(B, T, H, D, dtype=dtype).transpose(1, 2).requires_grad_() for _ in range(5)]


OPTIONS = {
    "causal": {"is_causal": True},
    "full": {},
    "padded": {"attn_mask": torch.arange(9)[None, None, None] < torch.tensor([9, 5])[:, None, None, None]},
    "window": {"window": 2, "is_causal": True},
    "packed": {"segment_ids": torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2]] * 2)},
}


@pytest.fixture
def _fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize(
    ("backend", "options"),
    [
        *(("shifted", options) for options in OPTIONS),
        *(("dense", options) for options in OPTIONS),
        ("columns", "causal"),
        ("columns", "padded"),
        ("reference", "window"),
        ("auto", "full"),
    ],
)
def test_compile_keeps_one_graph(backend, options):
    inputs = five()

    def loss(*tensors):
        return split_attention(*tensors, backend=backend, **OPTIONS[options]).square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*inputs), loss(*inputs))
    for ours, theirs in zip(
        torch.autograd.grad(compiled(*inputs), inputs), torch.autograd.grad(loss(*inputs), inputs), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("tokens", [9, 100])
def test_compile_takes_one_tensor_for_all(tokens):
    (x, *_) = five(T=tokens)

    def loss(x):
        return split_attention(x, x, x, x, x, is_causal=True).square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x), torch.autograd.grad(loss(x), x))


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("tokens", [9, 800])
def test_compile_of_transformed_calls(tokens):
    q, k, v, own_k, own_v = (one.detach() for one in five(T=tokens))

    def loss(x):
        return split_attention(q, k, v, x, own_v, is_causal=True).square().sum()

    compiled = torch.compile(torch.func.grad(loss), backend="aot_eager")
    torch.testing.assert_close(compiled(own_k), torch.func.grad(loss)(own_k))


@pytest.mark.needs("g++")
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize(("lengths", "dynamic"), [((9, 14), False), ((100, 120), True)])
def test_compile_to_machine_code(lengths, dynamic):
    def loss(*tensors):
        return split_attention(*tensors, is_causal=True).square().sum()

    compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic)
    for tokens in lengths:
        inputs = five(T=tokens)
        ours = torch.autograd.grad(compiled(*inputs), inputs)
        for found, expected in zip(ours, torch.autograd.grad(loss(*inputs), inputs), strict=True):
            torch.testing.assert_close(found, expected)


@pytest.mark.usefixtures("_fresh_compiler")
def test_compile_self_weight_for_inference():
    q, k, _, own_k, _ = five()
    compiled = torch.compile(self_weight, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(q, k, own_k, is_causal=True), self_weight(q, k, own_k, is_causal=True))


class Exported(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, query, key, value, self_key, self_value, attn_mask=None):
        return split_attention(query, key, value, self_key, self_value, attn_mask=attn_mask, **self.options)


@pytest.mark.parametrize("options", [{"is_causal": True}, {}, {"window": 3}, {"softcap": 5.0}], ids=str)
@pytest.mark.parametrize("padded", [False, True])
def test_exports_with_dynamic_batch_and_length(options, padded):
    """One graph for lengths between which "auto" would change its backend."""
    batch, tokens = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("tokens", min=2, max=2048)
    inputs = tuple(t.detach() for t in five(B=3, T=10))
    shapes = tuple({0: batch, 2: tokens} for _ in inputs)
    mask = (torch.rand(3, 1, 1, 10) > 0.3,) if padded else ()
    mask_shapes = ({0: batch, 3: tokens},) if padded else ()
    program = torch.export.export(Exported(**options), (*inputs, *mask), dynamic_shapes=(*shapes, *mask_shapes))
    for B, T in ((1, 2), (5, 33), (2, 130), (1, 800)):
        new = [t.detach() for t in five(B=B, T=T)]
        new_mask = (torch.rand(B, 1, 1, T) > 0.3,) if padded else ()
        expected = split_attention(*new, attn_mask=new_mask[0] if padded else None, backend="reference", **options)
        torch.testing.assert_close(program.module()(*new, *new_mask), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("mask", "segments", "window", "causal"),
    [
        (None, None, None, True),
        (None, None, None, False),
        (torch.rand(2, 1, 1, 9) > 0.3, None, None, True),
        (None, torch.zeros(2, 9, dtype=torch.int64), 2, False),
    ],
)
def test_the_op_keeps_torchs_contract(mask, segments, window, causal, dtype):
    """Schema, fake kernel, autograd registration and dynamic shapes, as torch itself checks them."""
    q, k, v, _, own_v = five(dtype=dtype)
    logit = torch.randn(2, 2, 9, requires_grad=True)
    args = (q, k, v, logit, own_v, mask, segments, window, causal, 0.25)
    torch.library.opcheck(ops.attend_with_own.op, args)


def test_nothing_can_be_trained_through_the_log_sum_exp():
    q, k, v, _, own_v = five()
    _, lse = ops.attend_with_own(q, k, v, torch.randn(2, 2, 9), own_v, None, None, None, True, 0.25)
    assert not lse.requires_grad


def test_the_op_returns_the_log_sum_exp_of_all_a_row_sees():
    q, k, v, _, own_v = (t.detach() for t in five(dtype=torch.float64))
    logit = torch.randn(2, 2, 9, dtype=torch.float64)
    _, lse = ops.attend_with_own(q, k, v, logit, own_v, None, None, None, True, 0.25)
    scores = torch.where(torch.eye(9, dtype=torch.bool), logit[..., None], q @ k.mT * 0.25)
    scores = scores.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -torch.inf)
    torch.testing.assert_close(lse, scores.logsumexp(-1))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("backend", ["auto", "columns", "dense", "shifted"])
def test_a_second_derivative_is_refused_not_wrong(backend, power):
    """Also where what comes back to attention is a constant: that of a sum, power 1."""

    def twice():
        inputs = five(T=96)
        out = split_attention(*inputs, is_causal=True, backend=backend)
        (grad,) = torch.autograd.grad(out.pow(power).sum(), inputs[0], create_graph=True)
        grad.square().sum().backward()

    with pytest.raises(RuntimeError):
        twice()


def test_the_reference_has_second_derivatives():
    inputs = five(B=1, T=3, D=2, dtype=torch.float64)
    assert torch.autograd.gradgradcheck(lambda *t: split_attention(*t, is_causal=True, backend="reference"), inputs)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("backend", ["auto", *PORTABLE])
def test_activation_checkpointing_changes_nothing(backend, reentrant):
    inputs = five()

    def attend(*tensors):
        return split_attention(*tensors, is_causal=True, backend=backend)

    plain = torch.autograd.grad(attend(*inputs).square().sum(), inputs)
    checkpoint(attend, *inputs, use_reentrant=reentrant).square().sum().backward()
    for ours, theirs in zip(inputs, plain, strict=True):
        torch.testing.assert_close(ours.grad, theirs, atol=0, rtol=0)


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("changed", [0, 2, 4])
def test_what_changes_in_place_after_a_compiled_call_changes_no_gradient(changed):
    inputs = five()

    def loss(*tensors, in_place):
        seen = [tensor * 2 for tensor in tensors]
        out = split_attention(*seen, is_causal=True, backend="dense")
        later = seen[changed].mul_(3) if in_place else seen[changed] * 3
        return out.square().sum() + later.sum()

    compiled = torch.compile(partial(loss, in_place=True), fullgraph=True, backend="aot_eager")
    expected = torch.autograd.grad(loss(*inputs, in_place=False), inputs)
    for ours, theirs in zip(torch.autograd.grad(compiled(*inputs), inputs), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.usefixtures("_fresh_compiler")
def test_a_long_text_takes_linear_memory_when_compiled_too():
    inputs, found = five(T=1024), []

    def look(graph, _):
        found.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    torch.compile(lambda *t: split_attention(*t, is_causal=True), fullgraph=True, backend=look)(*inputs)
    assert any("twofold.attend_with_own" in target for target in found)


@pytest.mark.usefixtures("_fresh_compiler")
def test_a_mask_of_one_size_fits_what_has_any():
    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attend = SplitSelfAttention(16, 4)
            self.register_buffer("mask", torch.ones(6, 6, dtype=torch.bool).tril())

        def forward(self, x):
            return self.attend(x, attn_mask=self.mask)[0]

    model, x = Masked(), torch.randn(2, 6, 16)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.usefixtures("_fresh_compiler")
def test_compile_takes_numbers_as_arguments_and_grouped_heads_of_any_size():
    q, k, v = (tensor.detach() for tensor in five()[:3])
    scaled = torch.compile(lambda s: split_attention(q, k, v, scale=s), fullgraph=True, backend="aot_eager")
    for scale in (0.1, 0.2):
        torch.testing.assert_close(scaled(scale), split_attention(q, k, v, scale=scale))
    grouped = torch.compile(
        lambda q, k, v: split_attention(q, k, v, enable_gqa=True), fullgraph=True, backend="aot_eager", dynamic=True
    )
    torch.testing.assert_close(grouped(q, k[:, :1], v[:, :1]), split_attention(q, k[:, :1], v[:, :1], enable_gqa=True))


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("backend", ["columns", "reference"])
def test_export_with_more_keys_than_queries_both_dynamic(backend, numbers):
    class Chunk(torch.nn.Module):
        def forward(self, query, key, value, self_key, self_value, attn_mask):
            tensors = (query, key, value, self_key, self_value)
            return split_attention(*tensors, attn_mask=attn_mask, is_causal=True, backend=backend)

    def inputs(T, S):
        tensors = [torch.randn(1, 2, n, 8) for n in (T, S, S, T, T)]
        mask = torch.rand(T, S) > 0.3
        return *tensors, torch.zeros(T, S).masked_fill(~mask, -torch.inf) if numbers else mask

    T, S = torch.export.Dim("T", min=2, max=99), torch.export.Dim("S", min=2, max=99)
    shapes = ({2: T}, {2: S}, {2: S}, {2: T}, {2: T}, {0: T, 1: S})
    program = torch.export.export(Chunk(), inputs(5, 8), dynamic_shapes=shapes)
    for sizes in ((4, 9), (7, 20)):
        given = inputs(*sizes)
        expected = split_attention(*given[:5], attn_mask=given[5], is_causal=True, backend="shifted")
        torch.testing.assert_close(program.module()(*given), expected)


@pytest.mark.gpu
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("tokens", [64, 2048])
@pytest.mark.parametrize("causal", [False, True])
def test_gpu_compiles_to_one_graph(causal, tokens, mode):
    """What "auto" takes, fused or the library and a merge, in one graph and in CUDA graphs."""

    def draw():
        return [
            torch.randn(2, tokens, 2, 64, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
            for _ in range(5)
        ]

    def loss(*tensors):
        return split_attention(*tensors, is_causal=causal).float().square().sum()

    compiled = torch.compile(loss, fullgraph=True, mode=mode)
    for _ in range(3):
        inputs = draw()
        ours = [grad.clone() for grad in torch.autograd.grad(compiled(*inputs), inputs)]
        for found, expected in zip(ours, torch.autograd.grad(loss(*inputs), inputs), strict=True):
            torch.testing.assert_close(found, expected, atol=0.02, rtol=0.02)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*inputs), loss(*inputs), atol=0.02, rtol=0.02)
