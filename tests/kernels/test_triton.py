"""The fused kernels, on the GPU where there is one and in Triton's interpreter otherwise.

The interpreter is slow, so shapes are small and combinations are drawn rather than multiplied; tiles are cut at every
odd length all the same.
"""

import itertools

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from tests.kernels.test_backends import MASKS, assert_within, tensors, with_gradients, worst
from twofold import self_weight, split_attention, split_attention_weights
from twofold.kernels import cudnn, flash4, fused, ops

pytest.importorskip("triton", reason="triton is not to be had for this system")
from twofold.kernels.triton import fused as fused_kernels
from twofold.kernels.triton import one_pass

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# numpy, on which the interpreter stands, warns where a GPU gives inf or NaN without a word, and of the interpreter's
# own way of making numbers of arrays.
pytestmark = [
    pytest.mark.usefixtures("poisoned"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning"),
]


@pytest.fixture(params=["production tiles", "small tiles"], autouse=True)
def _tiles(request, monkeypatch):
    """Once as shipped, once with tiles so small that short sequences have blocks before, on and after the diagonal."""
    if request.param == "small tiles":
        for name in ("forward_tiles", "rows_tiles", "columns_tiles"):
            monkeypatch.setattr(fused_kernels, name, lambda *_: fused_kernels.Tiles(32, 16, 4, 1))


# For tests that the size of tiles does not concern, and for those that need sequences of several tiles.
ONCE = pytest.mark.parametrize("_tiles", ["production tiles"], indirect=True)
SMALL = pytest.mark.parametrize("_tiles", ["small tiles"], indirect=True)


def compare(inputs, *, exact_backend="reference", tolerance=3e-6, **options):
    """Output and gradients against float64, relative to the greatest entry."""
    grad = torch.randn(*inputs[0].shape[:3], inputs[2].shape[-1], device=inputs[0].device)
    ours = with_gradients(lambda *t: split_attention(*t, backend="triton", **options), inputs, grad)
    truth = [tensor.double() for tensor in inputs]
    exact = with_gradients(lambda *t: split_attention(*t, backend=exact_backend, **options), truth, grad)
    for error, expected in zip(worst(ours, exact), exact, strict=True):
        assert error <= tolerance * max(expected.abs().max().item(), 1.0)


# Lengths that cut tiles, and lengths at which all tiles are full; own slots begin at a tile's edge or inside one.
LENGTHS = {
    "small tiles": [(1, 1), (2, 2), (1, 40), (63, 63), (111, 111), (33, 80), (64, 64), (64, 80)],
    "production tiles": [(1, 1), (33, 80), (129, 129), (128, 128), (64, 160)],
}


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    ("_tiles", "T", "S"), [(tiles, *sizes) for tiles in LENGTHS for sizes in LENGTHS[tiles]], indirect=["_tiles"]
)
def test_lengths(T, S, causal):
    compare(tensors(1, 2, 1, T, S, 16, torch.float32, DEVICE, layout="projected"), is_causal=causal, enable_gqa=True)


@SMALL
@pytest.mark.parametrize("layout", ["plain", "strided", "transposed"])
def test_strides(layout):
    compare(tensors(1, 2, 2, 45, 45, 16, torch.float32, DEVICE, layout=layout), is_causal=True)


@pytest.mark.parametrize("D", [1, 8, 24, 32, 80, 256])
def test_head_widths(D):
    compare(tensors(1, 1, 1, 37, 37, D, torch.float32, DEVICE))


@pytest.mark.parametrize(("_tiles", "groups"), [("small tiles", 4), ("production tiles", 8)], indirect=["_tiles"])
def test_grouped_heads(groups):
    compare(tensors(2, groups, 1, 37, 37, 16, torch.float32, DEVICE), is_causal=True, enable_gqa=True)


@pytest.mark.parametrize(
    ("_tiles", "mask"),
    [*(("small tiles", mask) for mask in MASKS), ("production tiles", "entries"), ("production tiles", "numbers")],
    indirect=["_tiles"],
)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_masks(mask, causal):
    made = MASKS[mask](2, 2, 37, 41).to(DEVICE)
    made = made.float() if made.is_floating_point() else made
    compare(tensors(2, 2, 2, 37, 41, 8, torch.float32, DEVICE), attn_mask=made, is_causal=causal)


@SMALL
@pytest.mark.parametrize("window", [0, 2, 20, 1000])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_windows(window, causal):
    compare(tensors(1, 1, 1, 75, 80, 8, torch.float32, DEVICE), window=window, is_causal=causal)


@pytest.mark.parametrize(
    ("_tiles", "T", "causal"),
    [("small tiles", 64, False), ("small tiles", 70, True), ("production tiles", 70, False)],
    indirect=["_tiles"],
)
def test_everything_at_once(T, causal):
    segments = torch.randint(0, 3, (2, T), device=DEVICE).sort(-1).values
    mask = torch.rand(2, 1, T, T, device=DEVICE) > 0.2
    options = {"segment_ids": segments, "attn_mask": mask, "window": 30, "softcap": 3.0, "scale": 0.8}
    inputs = tensors(2, 2, 1, T, T, 8, torch.float32, DEVICE)
    compare(inputs, is_causal=causal, enable_gqa=True, tolerance=1e-5, **options)


@SMALL
def test_softcap_alone():
    compare(tensors(1, 2, 2, 40, 40, 16, torch.float32, DEVICE, sharpness=5.0), softcap=2.0, tolerance=1e-5)


# Triton's interpreter (3.6 and 3.7) multiplies bfloat16 tensors as if their bits were whole numbers.
DTYPES = [torch.float32, torch.float16, pytest.param(torch.bfloat16, marks=pytest.mark.gpu)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sharpness", [1, 3, 10])
@ONCE
class TestErrorBudget:
    def test_tied_pairs_err_like_torchs_own_attention(self, dtype, sharpness):
        q, k, v, *_ = tensors(1, 2, 2, 63, 63, 32, dtype, DEVICE, sharpness, "projected")
        grad = torch.randn_like(q)
        truth = [t.double() for t in (q, k, v)]
        exact = with_gradients(lambda *t: scaled_dot_product_attention(*t, is_causal=True), truth, grad)
        library = with_gradients(lambda *t: scaled_dot_product_attention(*t, is_causal=True), (q, k, v), grad)

        def tied(q, k, v):
            return split_attention(q, k, v, k, v, is_causal=True, backend="triton")

        ours = with_gradients(tied, (q, k, v), grad)
        # The exception of DESIGN.md section 6: 1.9 times the library's error was measured once, its cause not found.
        assert_within(ours, library, exact, dtype, 3.0 if dtype == torch.float32 and DEVICE == "cuda" else 1.5)

    def test_split_pairs_err_like_columns(self, dtype, sharpness):
        inputs = tensors(1, 2, 2, 63, 63, 32, dtype, DEVICE, sharpness, "projected")
        grad = torch.randn_like(inputs[0])

        def run(name, given):
            return with_gradients(lambda *t: split_attention(*t, backend=name), given, grad)

        exact = run("reference", [t.double() for t in inputs])
        factor = 3.0 if dtype == torch.float32 and DEVICE == "cuda" else 2.0
        assert_within(run("triton", inputs), run("columns", inputs), exact, dtype, factor)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("T", "D"), [(256, 64), (200, 128)])
@ONCE
def test_half_precision_over_several_tiles(T, D, causal):
    inputs = tensors(1, 1, 1, T, T, D, torch.float16, DEVICE, layout="projected")
    grad = torch.randn_like(inputs[0])

    def run(name, given):
        return with_gradients(lambda *t: split_attention(*t, is_causal=causal, backend=name), given, grad)

    exact = run("reference", [t.double() for t in inputs])
    assert_within(run("triton", inputs), run("columns", inputs), exact, torch.float16, 2.0)


@SMALL
def test_large_segment_numbers():
    segments = torch.tensor([[0] * 10 + [2**32] * 27], device=DEVICE)
    compare(tensors(1, 1, 1, 37, 37, 8, torch.float32, DEVICE), segment_ids=segments)


@SMALL
def test_rows_that_see_nothing():
    inputs = [t.requires_grad_() for t in tensors(2, 2, 2, 37, 37, 8, torch.float32, DEVICE)]
    mask = torch.ones(2, 1, 37, 37, dtype=torch.bool, device=DEVICE)
    mask[0, :, 5], mask[1] = False, False
    out = split_attention(*inputs, attn_mask=mask, backend="triton")
    assert (out[0, :, 5] == 0).all()
    assert (out[1] == 0).all()
    for grad in torch.autograd.grad(out.sum(), inputs):
        assert grad.isfinite().all()
        assert (grad[1] == 0).all()


@SMALL
@pytest.mark.parametrize("low", [-1e9, torch.finfo(torch.float32).min])
def test_a_row_of_large_finite_numbers_is_an_ordinary_row(low):
    mask = torch.zeros(37, 37, device=DEVICE)
    mask[4], mask[7, 3:] = low, low
    compare(tensors(1, 2, 2, 37, 37, 8, torch.float32, DEVICE), attn_mask=mask, tolerance=1e-5)


def test_self_weight():
    q, k, _, own_k, _ = tensors(1, 2, 2, 37, 40, 8, torch.float32, DEVICE)
    expected = split_attention_weights(q, k, own_k, is_causal=True).diagonal(offset=3, dim1=-2, dim2=-1)
    torch.testing.assert_close(self_weight(q, k, own_k, is_causal=True, backend="triton"), expected)


def dense_forward(query, key, value, out, lse, pattern, scale):
    """What `cudnn.forward` promises, in float64, for machines without cuDNN."""
    scores = dense_scores(query, key, pattern, scale)
    out.copy_(scores.softmax(-1) @ heads_of(value, query))
    lse.copy_(scores.logsumexp(-1))


def dense_backward(query, key, value, out, grad, lse, grad_query, grad_key, grad_value, pattern, scale):
    weights = (dense_scores(query, key, pattern, scale) - lse.double()[..., None]).exp()
    delta = (grad.double() * out.double()).sum(-1, keepdim=True)
    grad_scores = weights * (grad.double() @ heads_of(value, query).mT - delta) * scale
    groups = query.shape[1] // key.shape[1]
    grad_query.copy_(grad_scores @ heads_of(key, query))
    grad_key.copy_((grad_scores.mT @ query.double()).unflatten(1, (-1, groups)).sum(2))
    grad_value.copy_((weights.mT @ grad.double()).unflatten(1, (-1, groups)).sum(2))


def dense_scores(query, key, pattern, scale):
    there = torch.arange(key.shape[2], device=key.device)
    here = there[: query.shape[2], None]
    may = {"up to": there <= here, "from": there >= here, "all but": there != here}[pattern]
    return (query.double() @ heads_of(key, query).mT * scale).masked_fill(~may, -torch.inf)


def heads_of(tensor, query):
    return tensor.double().repeat_interleave(query.shape[1] // tensor.shape[1], 1)


@ONCE
class TestAroundTheLibrary:
    """A library's attention over the others and one fused pass after it, as `shifted` runs it on a GPU."""

    DTYPE = torch.float32 if DEVICE == "cpu" else torch.bfloat16

    def check(self, inputs, grad, causal, scale):
        """On a GPU the error budget; the interpreter's float32, which nobody runs, to rounding."""
        ours = with_gradients(lambda *t: ops.attend_one_pass(*t, causal, scale)[0], inputs, grad)

        def run(backend, given):
            options = {"is_causal": causal, "enable_gqa": True, "scale": scale, "backend": backend}
            return with_gradients(lambda *t: split_attention(*t, **options), given, grad)

        exact = run("reference", [t.double() for t in inputs])
        if DEVICE == "cuda":
            assert_within(ours, run("columns", inputs), exact, self.DTYPE, 2.0)
            return
        for error, expected in zip(worst(ours, exact), exact, strict=True):
            assert error <= 1e-5 * max(expected.abs().max().item(), 1.0)

    @pytest.fixture(params=["torch causal", "flash4 causal", "cudnn causal", "cudnn full", "cudnn full in triangles"])
    def causal(self, request, monkeypatch):
        """By torch's own flash attention, FlashAttention 4, or cuDNN's graphs (on a CPU: by what they promise)."""
        if "flash4" in request.param:
            monkeypatch.setattr(flash4, "FROM", 2)
            if DEVICE == "cpu":
                monkeypatch.setattr(flash4, "serves", lambda *_: True)
                monkeypatch.setattr(flash4, "forward", lambda *t: dense_forward(*t[:-1], "up to", t[-1]))
                monkeypatch.setattr(flash4, "backward", lambda *t: dense_backward(*t[:-1], "up to", t[-1]))
            elif not flash4.INSTALLED:
                pytest.skip("flash-attn-4 is not installed")
        else:
            monkeypatch.setattr(flash4, "INSTALLED", False)
        monkeypatch.setattr(one_pass, "TRIANGLES_FROM", 2 if "triangles" in request.param else 10**9)
        if "cudnn" not in request.param:
            monkeypatch.setattr(cudnn, "why_not", lambda _: "not in this test")
        elif DEVICE == "cpu":
            monkeypatch.setattr(cudnn, "why_not", lambda _: None)
            monkeypatch.setattr(cudnn, "forward", dense_forward)
            monkeypatch.setattr(cudnn, "backward", dense_backward)
        elif not cudnn.INSTALLED:
            pytest.skip("nvidia-cudnn-frontend is not installed")
        return "causal" in request.param

    # In the slow interpreter every length, layout and grouping, but not all of their combinations.
    LENGTHS, GROUPS, LAYOUTS = (2, 3, 33, 64, 70), (1, 2), ("projected", "strided", "odd")
    ALL = itertools.product(LENGTHS, GROUPS, LAYOUTS)
    SOME = (
        (2, 1, "odd"),
        (3, 2, "strided"),
        (33, 1, "projected"),
        (33, 2, "odd"),
        (64, 2, "projected"),
        (70, 1, "strided"),
    )
    CASES = [*ALL] if DEVICE == "cuda" else [*SOME]

    @pytest.mark.parametrize(("T", "groups", "layout"), CASES)
    def test_output_and_gradients(self, T, groups, layout, causal):
        inputs = tensors(2, 2 * groups, 2, T, T, 16, self.DTYPE, DEVICE, layout=layout)
        # The output's layout and another: cuDNN's backward is wrong in one of them unless it is put right.
        for grad in (torch.randn_like(inputs[0]), torch.randn(2, 2 * groups, T, 16, device=DEVICE, dtype=self.DTYPE)):
            self.check(inputs, grad, causal, 0.3)

    @pytest.mark.parametrize("scale", [0.01, 3.0])
    def test_other_scales(self, causal, scale):
        """Above 0: `check` turns the others into that."""
        inputs = tensors(1, 2, 2, 70, 70, 16, self.DTYPE, DEVICE, layout="projected")
        self.check(inputs, torch.randn_like(inputs[0]), causal, scale)

    def test_keeps_torchs_contract(self, causal):
        inputs = [t.requires_grad_() for t in tensors(1, 2, 1, 9, 9, 16, self.DTYPE, DEVICE, layout="projected")]
        torch.library.opcheck(ops.attend_one_pass.op, (*inputs, causal, 0.3))


@ONCE
def test_bidirectional_around_a_library_says_what_it_lacks(monkeypatch):
    monkeypatch.setattr(cudnn, "why_not", lambda _: "cuDNN is not here")
    dtype = torch.float32 if DEVICE == "cpu" else torch.bfloat16
    with pytest.raises(RuntimeError, match=r"cuDNN is not here; name backend=\"triton\""):
        ops.attend_one_pass(*tensors(1, 1, 1, 9, 9, 16, dtype, DEVICE), False, 0.3)


class TestDropout:
    @ONCE
    def test_keeps_the_mean_and_drops_the_own_weight_too(self):
        q, k, v, own_k, own_v = tensors(1, 1, 1, 16, 16, 8, torch.float32, DEVICE)
        exact = split_attention(q, k, v, own_k, own_v)
        runs = [split_attention(q, k, v, own_k, own_v, dropout_p=0.25, backend="triton") for _ in range(40)]
        runs = torch.stack(runs)
        assert ((runs.mean(0) - exact).abs() < 6 * runs.std(0) / 40**0.5 + 1e-6).all()
        nothing = torch.zeros_like(v)
        only_own = [split_attention(q, k, nothing, own_k, own_v, dropout_p=0.25, backend="triton") for _ in range(40)]
        assert 0.2 < (torch.stack(only_own) == 0).all(-1).float().mean() < 0.3

    @SMALL
    def test_backward_drops_what_forward_dropped(self):
        """Dropout with a fixed seed is a linear function of the values: its gradient is exact, not a mean."""
        inputs = tensors(1, 2, 1, 37, 37, 8, torch.float32, DEVICE)
        seed = torch.tensor([7], device=DEVICE)

        def attend(*t):
            return fused.fused_attend(*t, None, None, seed, None, True, None, 0.3, 0.35)[0]

        grad = torch.randn(1, 2, 37, 8, device=DEVICE)
        _, *found = with_gradients(attend, inputs, grad)
        for which in range(5):
            step = torch.randn_like(inputs[which])
            ends = []
            for sign in (-1, 1):
                moved = [t + sign * 1e-2 * step if i == which else t for i, t in enumerate(inputs)]
                ends.append((attend(*moved).double() * grad).sum())
            slope = (ends[1] - ends[0]) / 2e-2
            torch.testing.assert_close((found[which].double() * step).sum(), slope, atol=2e-3, rtol=2e-3)


@ONCE
def test_results_are_deterministic():
    inputs = tensors(1, 4, 2, 40, 40, 16, torch.float16, DEVICE)
    grad = torch.randn(1, 4, 40, 16, device=DEVICE)

    def run():
        options = {"is_causal": True, "enable_gqa": True, "backend": "triton"}
        return with_gradients(lambda *t: split_attention(*t, **options), inputs, grad)

    first = run()
    for _ in range(9 if DEVICE == "cuda" else 2):
        assert all(torch.equal(a, b) for a, b in zip(run(), first, strict=True))


@ONCE
def test_the_op_keeps_torchs_contract():
    q, k, v, own_k, own_v = (t.requires_grad_() for t in tensors(1, 2, 1, 9, 12, 8, torch.float32, DEVICE))
    mask = torch.rand(1, 1, 9, 12, device=DEVICE) > 0.3
    args = (q, k, v, own_k, own_v, mask, None, None, 3, True, None, 0.0, 0.3)
    torch.library.opcheck(fused.fused_attend.op, args)


@ONCE
def test_compile_keeps_one_graph():
    torch.compiler.reset()
    inputs = [t.requires_grad_() for t in tensors(1, 2, 2, 33, 33, 16, torch.float32, DEVICE)]

    def loss(*t):
        return split_attention(*t, is_causal=True, backend="triton").square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for ours, theirs in zip(
        torch.autograd.grad(compiled(*inputs), inputs), torch.autograd.grad(loss(*inputs), inputs), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
    torch.compiler.reset()


@ONCE
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param(
            {"dtype": torch.bfloat16},
            "interpreter multiplies bfloat16 tensors wrongly",
            marks=pytest.mark.skipif(DEVICE == "cuda", reason="a GPU multiplies bfloat16 rightly"),
        ),
        ({"dtype": torch.float64}, "accumulate in float32, so float64 is not served"),
        ({"B": 70_000}, "at most 65535 heads of a batch, got 70000"),
        ({"D": 320}, "at most 256 wide, got 320"),
        ({"dropout_p": 1.0}, "dropout of everything"),
        ({"mask": True}, "attn_mask requires a gradient"),
    ],
)
def test_limits_are_stated(changes, reason):
    D, dtype = changes.get("D", 8), changes.get("dtype", torch.float32)
    mask = torch.zeros(5, 5, device=DEVICE, requires_grad=True) if "mask" in changes else None
    with pytest.raises(ValueError, match=f"backend 'triton' cannot serve this call: .*{reason}"):
        split_attention(
            *tensors(changes.get("B", 1), 1, 1, 5, 5, D, dtype, DEVICE),
            attn_mask=mask,
            dropout_p=changes.get("dropout_p", 0.0),
            backend="triton",
        )


@ONCE
def test_without_an_interpreter_a_cpu_tensor_is_refused(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match="triton needs a CUDA tensor"):
        split_attention(*tensors(1, 1, 1, 5, 5, 8, torch.float32), backend="triton")
