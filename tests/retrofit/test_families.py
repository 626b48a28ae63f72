"""Every family: converted it is the original; with other own weights it is what the definition says, cache or not."""

import pytest
import torch
from transformers import AttentionInterface, DynamicCache, EncoderDecoderCache, StaticCache

from tests.retrofit.families import BOTH, DECODERS, FAMILIES, OTHERS, REFUSED, known, model_of, strengthened
from twofold import convert
from twofold.retrofit import freeze_all_but_self, report, revert
from twofold.retrofit.attend import EAGER, SPLIT
from twofold.retrofit.convert import split_modules
from twofold.retrofit.inputs import small_inputs

# Compiled only where time is no matter.
LONG = known("gemma3", "bert", "gpt2", "t5")


def output(model, **changes):
    with torch.no_grad():
        return model(**small_inputs(model) | changes)[0]


def defined(module, query, key, value, attention_mask, scaling, is_causal=None, position_bias=None, **options):
    """Split attention by its definition, without a cache, with whatever a family adds to the scores."""
    own = options.get("twofold_own")
    own_key, own_value = (key, value) if own is None else (own.key, own.value)
    groups = query.shape[1] // key.shape[1]
    key, value, own_key, own_value = (one.repeat_interleave(groups, 1) for one in (key, value, own_key, own_value))
    scores = torch.einsum("bhid,bhjd->bhij", query, key) * scaling
    square = scores.shape[-1] == scores.shape[-2]
    if own is not None and square:
        selves = torch.einsum("bhid,bhid->bhi", query, own_key) * scaling
        scores = torch.where(torch.eye(scores.shape[-1], dtype=torch.bool), selves[..., None], scores)
    if options.get("softcap"):
        scores = (scores / options["softcap"]).tanh() * options["softcap"]
    if position_bias is not None:
        scores = scores + position_bias
    if attention_mask is not None:
        hidden = ~attention_mask if attention_mask.dtype == torch.bool else attention_mask < -1e9
        scores = scores.masked_fill(hidden, -torch.inf)
    elif (module.is_causal if is_causal is None else is_causal) and square:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    if (sinks := options.get("s_aux")) is not None:
        scores = torch.cat([scores, sinks[None, :, None, None].expand(*scores.shape[:3], 1)], -1)
    weights = scores.softmax(-1)[..., : key.shape[2]]
    out = weights @ value
    if own is not None and square:
        out = out + weights.diagonal(dim1=-2, dim2=-1)[..., None] * (own_value - value)
    return out.transpose(1, 2), weights


@pytest.mark.parametrize("name", FAMILIES | OTHERS)
def test_converted_it_is_the_original_and_reverted_again(name):
    model = model_of(name)
    expected, before = output(model), {key: value.clone() for key, value in model.state_dict().items()}
    config, original = model.config, type(model)
    assert convert(model) is model
    torch.testing.assert_close(output(model), expected, atol=1e-5, rtol=1e-5)
    assert len(split_modules(model)) == (4 if name in BOTH else 2)
    assert model.config is not config
    revert(model)
    assert type(model) is original
    assert type(model.config) is type(config)
    assert model.config.to_dict() == config.to_dict()
    torch.testing.assert_close(model.state_dict(), before, atol=0, rtol=0)
    assert torch.equal(output(model), expected)


@pytest.mark.parametrize("kind", ["split_key", "split_value", "split_kv"])
@pytest.mark.parametrize("name", FAMILIES | OTHERS)
def test_own_weights_count_as_the_definition_says(name, kind, monkeypatch):
    # The experts of some models know no double precision.
    dtype, room = (torch.float32, 2e-5) if name in ("gpt_oss", "mixtral") else (torch.float64, 2e-6)
    model = strengthened(convert(model_of(name).to(dtype), kind), seed=2)
    standard = output(revert(strengthened(convert(model_of(name).to(dtype), kind), seed=2)))
    by_path = {}
    for path in (SPLIT, EAGER):
        if name == "gpt_oss" and path == SPLIT:
            # Sinks: only the family's own function has them.
            continue
        model.set_attn_implementation(path)
        by_path[path] = output(model)
    monkeypatch.setitem(AttentionInterface._global_mapping, EAGER, complete(defined))
    model.set_attn_implementation(EAGER)
    expected = output(model)
    assert (expected - standard).abs().max() > 1e-3
    for found in by_path.values():
        # Norms and rotary positions are in float32 in most families.
        torch.testing.assert_close(found, expected, atol=room, rtol=room)


def complete(attend):
    """Own states of a kind that splits one of the two are completed by the others."""

    def attended(module, query, key, value, mask, **options):
        own = options.get("twofold_own")
        if own is not None:
            own = own._replace(key=key if own.key is None else own.key, value=value if own.value is None else own.value)
            options["twofold_own"] = own
        return attend(module, query, key, value, mask, **options)

    return attended


def cache_of(kind, model):
    config = model.config.get_text_config(decoder=True)
    made = DynamicCache(config=config) if kind == "dynamic" else StaticCache(config=config, max_cache_len=20)
    return EncoderDecoderCache(made, DynamicCache(config=config)) if model.config.is_encoder_decoder else made


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", DECODERS | BOTH)
def test_piece_by_piece_over_a_cache_is_the_whole(name, cache):
    model = strengthened(convert(model_of(name)), seed=2)
    inputs, key = small_inputs(model), "decoder_input_ids" if name in BOTH else "input_ids"
    ids = torch.arange(3, 12)[None] * 7 % 99
    with torch.no_grad():
        whole = model(**inputs | {key: ids}, use_cache=False).logits
        past, pieces = cache_of(cache, model), []
        for start, end in ((0, 4), (4, 5), (5, 6), (6, 9)):
            pieces.append(model(**inputs | {key: ids[:, start:end]}, past_key_values=past, use_cache=True).logits)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=5e-5, rtol=5e-5)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("kind", ["split_key", "split_value", "split_kv"])
def test_a_step_leaves_in_the_cache_what_it_holds_with_gradients_on(kind, cache):
    """Without gradients the own pair lies in the cache while a token attends; it must not stay there."""
    model, ids, found = strengthened(convert(model_of("llama"), kind), seed=2), torch.arange(3, 10)[None], []
    for enabled in (False, True):
        past = cache_of(cache, model)
        with torch.set_grad_enabled(enabled):
            model(ids[:, :6], past_key_values=past)
            logits = model(ids[:, 6:], past_key_values=past).logits.detach()
        found.append([logits, *(state.detach() for layer in past.layers for state in (layer.keys, layer.values))])
    torch.testing.assert_close(found[0], found[1], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", known("llama", "gemma3", "gpt_oss", "gpt2", "t5"))
@pytest.mark.parametrize("beams", [1, 3])
def test_generation_over_caches_is_that_without(name, beams):
    """Of prompts of different lengths, padded on the left for those that read on."""
    model, options = strengthened(convert(model_of(name)), seed=2), {"max_new_tokens": 5, "do_sample": False}
    ids = torch.arange(12).view(2, 6) * 7 % 90 + 5
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    options |= {"attention_mask": mask, "num_beams": beams, "pad_token_id": 0}
    expected = model.generate(ids, use_cache=False, **options)
    assert torch.equal(model.generate(ids, **options), expected)
    assert torch.equal(model.generate(ids, cache_implementation="static", **options), expected)


@pytest.mark.parametrize("name", known("llama", "gpt_oss", "bert", "t5"))
def test_gradients_reach_own_weights_alone_also_through_checkpoints(name):
    model = freeze_all_but_self(convert(model_of(name)))
    found = []
    for checkpointed in (False, True):
        if checkpointed:
            model.gradient_checkpointing_enable()
        model.train()
        model.zero_grad()
        model(**small_inputs(model), use_cache=False)[0].square().mean().backward()
        own = {key: one.grad.clone() for key, one in model.named_parameters() if one.grad is not None}
        assert own
        assert all(".self_key." in key or ".self_value." in key for key in own)
        assert all(gradient.abs().max() > 0 for key, gradient in own.items() if "bias" not in key)
        found.append(own)
    if name not in ("bert", "t5"):
        # Those two have dropout.
        torch.testing.assert_close(found[1], found[0])
    assert report(model).trainable == report(model).own_parameters


@pytest.mark.parametrize("name", ["llama", *(pytest.param(name, marks=pytest.mark.long) for name in LONG)])
def test_compiles_to_one_graph(name):
    torch.compiler.reset()
    model = strengthened(convert(model_of(name)), seed=2)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        inputs = small_inputs(model) | ({} if name == "bert" else {"use_cache": False})
        torch.testing.assert_close(compiled(**inputs)[0], model(**inputs)[0], atol=1e-5, rtol=1e-5)
    torch.compiler.reset()


@pytest.mark.parametrize("name", known("llama", "gpt_oss", "bert", "t5", "whisper"))
def test_weights_are_those_of_every_column(name):
    """In eager mode they are shown; they sum to 1, but for what attention sinks take."""
    model = strengthened(convert(model_of(name)), seed=2)
    model.set_attn_implementation(EAGER)
    with torch.no_grad():
        found = model(**small_inputs(model), output_attentions=True)
    maps = found.get("attentions") or found.get("decoder_attentions")
    assert len(maps) == 2
    for weights in maps:
        assert weights.shape[-1] == weights.shape[-2]
        sums = weights.sum(-1)
        assert (sums <= 1 + 1e-5).all() if name == "gpt_oss" else torch.allclose(sums, torch.ones_like(sums))


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_converted_is_refused_and_left_as_it_was(name):
    make, reason = REFUSED[name]
    torch.manual_seed(0)
    model = make().eval()
    config, implementation = model.config, model.config._attn_implementation
    before = {key: value.clone() for key, value in model.state_dict().items()}
    kinds = [type(module) for module in model.modules()]
    with pytest.raises(ValueError, match=f"{type(model).__name__} cannot be converted: .*{reason}"):
        convert(model)
    assert model.config is config
    assert config._attn_implementation == implementation
    assert [type(module) for module in model.modules()] == kinds
    torch.testing.assert_close(model.state_dict(), before, atol=0, rtol=0)
    assert not any("self_key" in vars(module) for module in model.modules())
