"""Each rival is the plain formula of its idea, gradients included, with every kind of mask and cache."""

import math

import pytest
import torch
from torch.nn.functional import linear, rms_norm
from transformers import StaticCache

from tests.lab.small import CALCULATIONS, FAMILIES, batch, shaken, standard, tokens
from twofold.attention.rotary import Rotary
from twofold.kernels.api import split_attention
from twofold.lab.arms import ARMS, build
from twofold.lab.rivals import FAR_BELOW, scoring
from twofold.models import self_weights

QUERY_KEYED = ("self_bias", "masked_diagonal")
each_arm = pytest.mark.parametrize("name", CALCULATIONS)


def layer_of(name, *, is_causal=True, dtype=torch.float64, **changes):
    model = build(ARMS[name], standard(**changes), FAMILIES["decoder"][1], matched=False, seed=0)
    layer = shaken(model.to(dtype)).model.layers[0].self_attn
    layer.is_causal = is_causal
    return layer


def heads(x, layer):
    return x.unflatten(-1, (-1, layer.head_width)).transpose(1, 2)


def plain(name, layer, x, rotary_table, may):
    """The idea on paper: all T x T scores, an explicit diagonal, one head after the other."""
    groups, T, D = layer.heads // layer.kv_heads, x.shape[1], layer.head_width
    q, k, v = (heads(linear(x, part.weight, part.bias), layer) for part in (layer.query, layer.key, layer.value))
    own_k = own_v = None
    if layer.self_key is not None:
        own_k = heads(linear(x, layer.self_key.weight, layer.self_key.bias), layer)
    if layer.self_value is not None:
        own_v = heads(linear(x, layer.self_value.weight, layer.self_value.bias), layer)
    if name.startswith("low_rank"):
        own_k = k + heads(x @ (layer.key_up.weight @ layer.key_down.weight).T, layer)
        own_v = v + heads(x @ (layer.value_up.weight @ layer.value_down.weight).T, layer)

    def placed(tensor, norm):
        tensor = rms_norm(tensor, (D,), norm.weight, 1e-6) if hasattr(norm, "weight") else tensor
        return tensor if rotary_table is None else rotary_table(tensor)

    q, k = placed(q, layer.query_norm), placed(k, layer.key_norm)
    own_k = k if own_k is None else placed(own_k, layer.key_norm)
    k, v, own_k, own_v = (
        tensor.repeat_interleave(groups, dim=1) for tensor in (k, v, own_k, v if own_v is None else own_v)
    )
    own = torch.eye(T, dtype=torch.bool)
    scores = torch.where(own, q @ own_k.mT, q @ k.mT) / math.sqrt(D)
    if name == "self_bias":
        scores = scores + torch.diag_embed(layer.self_bias[:, None].expand(-1, T))
    may = may & ~own if name == "masked_diagonal" else may
    weights = scores.masked_fill(~may, -1e300).softmax(-1).masked_fill(~may, 0.0)
    out = weights.masked_fill(own, 0.0) @ v + weights.masked_fill(~own, 0.0) @ own_v
    if name == "exclusive":
        unit = v / v.norm(dim=-1, keepdim=True)
        out = out - (out * unit).sum(-1, keepdim=True) * unit
    out = out.transpose(1, 2).flatten(-2)
    if name == "gated":
        out = out * torch.sigmoid(linear(x, layer.gate.weight, layer.gate.bias))
    out = linear(out, layer.output.weight, layer.output.bias)
    return out + x @ layer.path.weight.T if name == "linear_path" else out


def mask_of(kind, T, B=2):
    """True where a query may look: (B, 1, T, T), and what the layer is told of it."""
    causal = torch.ones(T, T, dtype=torch.bool).tril()[None, None].expand(B, 1, T, T)
    if kind == "causal":
        return causal, None
    if kind == "bidirectional":
        return torch.ones_like(causal), None
    seen = torch.ones(B, 1, 1, T, dtype=torch.bool)
    seen[1, ..., : T // 2] = False  # padding on the left, so that some rows see only themselves, or nothing
    may = (causal if kind == "causal padded" else torch.ones_like(causal)) & seen
    return may, may


MASKS = ["causal", "bidirectional", "causal padded", "bidirectional padded"]


@each_arm
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(
    ("T", "changes"),
    [(1, {}), (2, {}), (9, {}), (9, {"recipe": "classic"}), (9, {"num_key_value_heads": 2})],
    ids=["1", "2", "9", "9-classic", "9-grouped"],
)
def test_is_its_formula_and_so_are_its_gradients(name, kind, T, changes):
    if "num_key_value_heads" in changes and name in QUERY_KEYED:
        with pytest.raises(ValueError, match=r"num_key_value_heads must be num_attention_heads \(4\) with a .*, got 2"):
            layer_of(name, **changes)
        return
    layer = layer_of(name, is_causal="causal" in kind, **changes)
    x = torch.randn(2, T, 32, dtype=torch.float64, requires_grad=True)
    rotary_table = None if changes.get("recipe") else Rotary(width=8).at(torch.arange(T), torch.float64)
    may, told = mask_of(kind, T)
    toward = torch.randn(2, T, 32, dtype=torch.float64)
    into = [x, *layer.parameters()]
    found, _ = layer(x, rotary_table, told)
    expected = plain(name, layer, x, rotary_table, may)
    torch.testing.assert_close(found, expected, atol=1e-11, rtol=1e-10)
    found = torch.autograd.grad((found * toward).sum(), into, allow_unused=True, materialize_grads=True)
    expected = torch.autograd.grad((expected * toward).sum(), into, allow_unused=True, materialize_grads=True)
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-9)


@each_arm
def test_gradients_reach_the_kernels_as_standard_attention_lays_them_out(name):
    """(B, T, H, D) in memory, which is how a GPU's kernels lay their outputs: cuDNN's backward is wrong otherwise."""
    strides = []

    def watched(*tensors, **options):
        out = split_attention(*tensors, **options)
        out.register_hook(lambda gradient: strides.append(gradient.stride()))
        return out

    layer = layer_of(name)
    layer.attend = watched
    layer(torch.randn(2, 9, 32, dtype=torch.float64))[0].square().sum().backward()
    assert strides == [(9 * 32, 8, 32, 1)]


@pytest.mark.parametrize("bias", [-8.0, -0.5, 0.0, 2.0])
@pytest.mark.parametrize("length", [1e-2, 1.0, 1e2])
def test_a_score_by_way_of_a_key_errs_by_a_rounding(bias, length):
    """In bfloat16, for queries of any length, the own score is off by less than two roundings of itself or the bias."""
    q, k = (torch.randn(1, 1, 4096, 64, dtype=torch.float64).to(torch.bfloat16).double() for _ in range(2))
    q = (q * length).to(torch.bfloat16).double()
    shift = scoring(q.to(torch.bfloat16), torch.tensor(bias))
    assert shift.dtype == torch.float32
    own = (k.float() + shift).to(torch.bfloat16).double()
    error = ((q * own).sum(-1) - (q * k).sum(-1)) / 8 - bias
    size = (q.norm(dim=-1) * k.norm(dim=-1)) / 8 + abs(bias)
    assert (error.abs() / size).max() < 2**-8
    assert (error.square().mean().sqrt() / size.mean()) < 2**-10


@pytest.mark.parametrize("name", ["self_bias", "masked_diagonal"])
def test_a_query_of_zero_gives_numbers(name):
    layer = layer_of(name, dtype=torch.float32)
    torch.nn.init.zeros_(layer.query.weight)
    x = torch.randn(2, 7, 32, requires_grad=True)
    out, _ = layer(x)
    out.sum().backward()
    assert out.isfinite().all()
    assert all(tensor.grad is None or tensor.grad.isfinite().all() for tensor in (x, *layer.parameters()))


def test_nobody_sees_itself():
    layer = layer_of("masked_diagonal")
    x = torch.randn(2, 6, 32, dtype=torch.float64)
    out, weights = layer(x, output_attentions=True)
    assert torch.equal(out[:, 0], torch.zeros_like(out[:, 0]))
    assert (weights.diagonal(dim1=-2, dim2=-1)[..., 1:] == 0).all()
    score = (scoring(x, FAR_BELOW) * x).sum(-1) / math.sqrt(32)
    torch.testing.assert_close(score, torch.full_like(score, FAR_BELOW))


@each_arm
@pytest.mark.parametrize("cache", ["dynamic", "static", "sliding"])
@pytest.mark.parametrize("chunks", [(5, 4), (1,) * 9], ids=str)
def test_steps_with_a_cache_are_the_full_pass(name, cache, chunks):
    changes = {"sliding_window": 4} if cache == "sliding" else {}
    model = shaken(build(ARMS[name], standard(**changes), FAMILIES["decoder"][1], matched=False, seed=0)).eval()
    ids = tokens()
    with torch.no_grad():
        full = model(ids, use_cache=False).logits
        past = StaticCache(config=model.config, max_cache_len=11) if cache == "static" else None
        start, found = 0, []
        for chunk in chunks:
            out = model(ids[:, start : start + chunk], past_key_values=past, use_cache=True)
            past, start = out.past_key_values, start + chunk
            found.append(out.logits)
    torch.testing.assert_close(torch.cat(found, dim=1), full, atol=2e-4, rtol=1e-4)


@each_arm
@pytest.mark.parametrize("family", ["decoder", "seq2seq"])
def test_generation_is_that_of_the_full_pass(name, family):
    model = shaken(build(ARMS[name], standard(family), FAMILIES[family][1], matched=False, seed=0)).eval()
    ids, mask = batch(family)["input_ids"].flip(1), batch(family)["attention_mask"].flip(1)
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "num_beams": 2, "do_sample": False}
    with_cache, without = (
        model.generate(input_ids=ids, attention_mask=mask, use_cache=use, **options) for use in (True, False)
    )
    assert torch.equal(with_cache, without)


@each_arm
@pytest.mark.parametrize("family", FAMILIES)
def test_maps_and_self_weights_are_those_of_the_model(name, family):
    model = shaken(build(ARMS[name], standard(family), FAMILIES[family][1], matched=ARMS[name].can_match, seed=0))
    found = self_weights(model.eval(), **batch(family))
    maps = model(**batch(family), output_attentions=True)
    maps = (*maps.encoder_attentions, *maps.decoder_attentions) if family == "seq2seq" else maps.attentions
    for own, weights in zip(found, maps, strict=True):
        torch.testing.assert_close(own, weights.diagonal(dim1=-2, dim2=-1), atol=1e-5, rtol=1e-4)
