"""The layer: four kinds that differ in two projections only, a cache of the others' keys and values, and its edges."""

import functools
import math

import pytest
import torch
from torch import nn

from twofold import SplitSelfAttention, split_attention
from twofold.attention import Alibi, Copy, KeyValues, Kind, Rotary, SinusoidalPositions, Yarn
from twofold.kernels import reference

WIDTH, HEADS = 24, 4


def layer(kind="split_kv", *, kv_heads=2, init="independent", rotary=True, **options):
    rotary = Rotary(width=WIDTH // HEADS) if rotary else None
    made = SplitSelfAttention(
        WIDTH, HEADS, kv_heads=kv_heads, kind=kind, init=init, rotary=rotary, dtype=torch.float64, **options
    )
    return made.eval()


def x_of(B=2, T=7):
    return torch.randn(B, T, WIDTH, dtype=torch.float64)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("chunks", [[1] * 7, [7], [3, 1, 2, 1]], ids=str)
def test_prefill_and_decode_in_any_chunks_give_the_causal_pass(kind, qk_norm, chunks):
    made, x = layer(kind, qk_norm=qk_norm), x_of()
    exact, _ = made(x, is_causal=True, backend="reference")
    outs, past, start = [], None, 0
    with torch.no_grad():
        for chunk in chunks:
            out, past = made(x[:, start : start + chunk], past, is_causal=True)
            outs.append(out)
            start += chunk
    torch.testing.assert_close(torch.cat(outs, dim=1), exact)
    assert past.length == x.shape[1]


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("bias", [False, True])
def test_copy_starts_as_the_standard_layer(kind, kv_heads, bias):
    made = layer(kind, kv_heads=kv_heads, init="copy", bias=bias, qk_norm=True)
    standard = layer("standard", kv_heads=kv_heads, bias=bias, qk_norm=True)
    missing, unexpected = standard.load_state_dict(made.state_dict(), strict=False)
    assert not missing
    assert {name.split(".")[0] for name in unexpected} <= {"self_key", "self_value"}
    x = x_of()
    for causal in (False, True):
        torch.testing.assert_close(
            made(x, is_causal=causal)[0], standard(x, is_causal=causal)[0], atol=1e-12, rtol=1e-12
        )


@pytest.mark.parametrize(("kind", "extra"), [("standard", 0), ("split_key", 1), ("split_value", 1), ("split_kv", 2)])
def test_a_kind_adds_exactly_its_projections(kind, extra):
    def count(made):
        return sum(p.numel() for p in made.parameters())

    one = WIDTH * 2 * (WIDTH // HEADS)
    assert count(layer(kind)) == count(layer("standard")) + extra * one


@pytest.mark.parametrize("kind", Kind)
def test_every_parameter_gets_a_gradient(kind):
    made = layer(kind, bias=True, qk_norm=True)
    made(x_of(), is_causal=True)[0].square().sum().backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("kind", Kind)
def test_without_positions_the_layer_is_permutation_equivariant(kind):
    made, x, order = layer(kind, rotary=False), x_of(), torch.randperm(7)
    torch.testing.assert_close(made(x[:, order])[0], made(x)[0][:, order])
    placed = SinusoidalPositions(WIDTH)
    assert not torch.allclose(made(placed(x[:, order]))[0], made(placed(x))[0][:, order])


def test_causal_outputs_do_not_depend_on_the_future():
    made, x = layer(), x_of()
    changed = x.clone()
    changed[:, 4:] += 1
    a, b = made(x, is_causal=True)[0], made(changed, is_causal=True)[0]
    assert torch.equal(a[:, :4], b[:, :4])
    assert not torch.allclose(a[:, 4:], b[:, 4:])


def test_padding_changes_nothing_for_the_others():
    made, x = layer(rotary=False), x_of()
    keep = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    keep[:, ..., 5:] = False
    torch.testing.assert_close(made(x, attn_mask=keep)[0][:, :5], made(x[:, :5])[0])


def test_options_reach_the_kernel():
    made, x = layer(rotary=False), x_of()
    new = made.project(x)
    for options in ({"window": 1}, {"softcap": 2.0}, {"segment_ids": torch.tensor([[0, 0, 0, 1, 1, 1, 1]] * 2)}):
        expected = split_attention(*new, enable_gqa=True, **options)
        torch.testing.assert_close(made(x, **options)[0], made.output(expected.transpose(1, 2).flatten(-2)))


def test_alibi_is_a_mask():
    made, x = layer(rotary=False), x_of()
    bias = Alibi(HEADS).bias(7, 7).double()
    near, _ = made(x, attn_mask=bias, is_causal=True)
    past = None
    for t in range(7):
        step, past = made(x[:, t : t + 1], past, attn_mask=Alibi(HEADS).bias(1, t + 1).double())
        torch.testing.assert_close(step, near[:, t : t + 1])


def test_explicit_positions_change_the_rotation():
    made, x = layer(), x_of()
    torch.testing.assert_close(made(x, positions=torch.arange(7))[0], made(x)[0])
    torch.testing.assert_close(made(x, positions=torch.arange(7) + 100)[0], made(x)[0])
    each = torch.arange(7).expand(2, 7).clone()
    torch.testing.assert_close(made(x, positions=each)[0], made(x)[0])
    assert not torch.allclose(made(x, positions=torch.arange(7) * 2)[0], made(x)[0])


def test_the_own_key_is_rotated_like_any_other():
    """Leaving it out is exact for plain rotary, but off by the squared attention factor under YaRN."""
    yarn = Rotary(width=6, scaling=Yarn(factor=4.0, original_length=16))
    made = SplitSelfAttention(WIDTH, HEADS, rotary=yarn, dtype=torch.float64)
    new = made.project(x_of())
    torch.testing.assert_close(new.self_key, new.key)


def test_dropout_only_while_training():
    made, x = layer(dropout=0.5), x_of()
    assert torch.equal(made(x)[0], made(x)[0])
    made.train()
    assert not torch.equal(made(x)[0], made(x)[0])


def test_another_normaliser_by_replacing_the_attention_function():
    made, x = layer(attend=functools.partial(reference.attend, normaliser="sigmoid")), x_of()
    with torch.no_grad():
        exact, _ = made(x, is_causal=True)
        past = None
        for t in range(7):
            step, past = made(x[:, t : t + 1], past)
            torch.testing.assert_close(step, exact[:, t : t + 1])


def test_a_fixed_backend_by_replacing_the_attention_function():
    made = layer(attend=functools.partial(split_attention, backend="shifted"))
    with pytest.raises(ValueError, match="backend 'shifted' cannot serve"):
        made(x_of(), softcap=1.0)


def test_growing_caches_can_be_trained_through():
    made, x = layer(), x_of()
    _, past = made(x[:, :4], is_causal=True)
    assert isinstance(past, KeyValues)
    made(x[:, 4:], past, is_causal=True)[0].sum().backward()
    assert made.key.weight.grad.abs().sum() > 0


def test_mixed_precision_layer():
    made = SplitSelfAttention(WIDTH, HEADS, kv_heads=2, rotary=Rotary(width=6), qk_norm=True)
    x = torch.randn(2, 7, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        out, _ = made(x, is_causal=True)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), made(x, is_causal=True)[0], atol=0.03, rtol=0.03)


def test_compiles_to_one_graph():
    torch.compiler.reset()
    made, x = layer(qk_norm=True), x_of()
    compiled = torch.compile(lambda x: made(x, is_causal=True)[0], fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), made(x, is_causal=True)[0])
    torch.compiler.reset()


def test_state_is_only_parameters():
    made = layer(qk_norm=True, bias=True)
    assert set(made.state_dict()) == {name for name, _ in made.named_parameters()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"heads": 5}, "heads must divide width 24 unless head_width is given, got 5"),
        ({"heads": 0}, "heads must be a whole number of at least 1, got 0"),
        ({"width": 0}, "width must be a whole number of at least 1, got 0"),
        ({"kv_heads": 3}, "kv_heads must divide heads 4, got 3"),
        ({"head_width": 0}, "head_width must be a whole number of at least 1, got 0"),
        ({"kind": "split"}, "kind must be one of standard, split_key, split_value, split_kv, got 'split'"),
        ({"init": "zero"}, "init must be one of copy, patent, aligned, independent or an initialiser, got 'zero'"),
        ({"heads": 4.0}, "heads must be a whole number of at least 1, got 4.0"),
        ({"init": Copy}, "init must be one of copy, patent, aligned, independent or an initialiser, got <class"),
        ({"init": []}, "init must be one of copy, patent, aligned, independent or an initialiser, got"),
        ({"dropout": "much"}, "dropout must be a number from 0 to 1, got 'much'"),
        ({"rotary": True}, "rotary must be None or a Rotary, got True"),
        ({"dropout": 2}, "dropout must be a number from 0 to 1, got 2"),
        ({"rotary": Rotary(width=8)}, r"rotary must be as wide as a head \(6\), got 8"),
    ],
)
def test_bad_arguments(arguments, message):
    arguments = {"width": WIDTH, "heads": HEADS, **arguments}
    with pytest.raises(ValueError, match=message):
        SplitSelfAttention(**arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda made, x: made(x[..., :23]), r"x must have shape \(B, T, 24\), got \(2, 7, 23\)"),
        (lambda made, x: made(x.tolist()), r"x must be a torch\.Tensor, got list"),
        (lambda made, x: made(x.float()), "x must have the layer's dtype torch.float64, got torch.float32"),
        (lambda made, x: made(x, (x, x)), "past must be None or KeyValues, got tuple"),
        (
            lambda made, x: made(x, KeyValues(*torch.zeros(2, 2, 4, 3, 6, dtype=torch.float64))),
            r"past must hold keys of shape \(2, 2, length, 6\), got \(2, 4, 3, 6\)",
        ),
        (
            lambda made, x: made(x, positions=torch.tensor([3])),
            r"positions must have shape \(T,\) = \(7,\) or \(B, T\) = \(2, 7\), got \(1,\)",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(layer(), x_of())


def test_no_tokens_with_a_mask_of_none():
    made = SplitSelfAttention(8, 2)
    assert made(torch.zeros(2, 0, 8), attn_mask=torch.zeros(0, 0))[0].shape == (2, 0, 8)


def test_equals_torchs_multihead_attention():
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64).eval()
    made = SplitSelfAttention(WIDTH, HEADS, kind="standard", bias=True, dtype=torch.float64)
    with torch.no_grad():
        for part, weight, bias in zip(
            (made.query, made.key, made.value),
            theirs.in_proj_weight.chunk(3),
            torch.randn(3, WIDTH, dtype=torch.float64),
            strict=True,
        ):
            part.weight.copy_(weight)
            part.bias.copy_(bias)
        theirs.in_proj_bias.copy_(torch.cat([made.query.bias, made.key.bias, made.value.bias]))
        made.output.load_state_dict(theirs.out_proj.state_dict())
    x = x_of()
    mask = torch.full((7, 7), -math.inf, dtype=torch.float64).triu(1)
    torch.testing.assert_close(made(x)[0], theirs(x, x, x)[0])
    torch.testing.assert_close(made(x, is_causal=True)[0], theirs(x, x, x, attn_mask=mask)[0])
