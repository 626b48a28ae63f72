"""Rotary positions as configs ask for them: decoding is the full pass however they stretch, and nothing is ignored."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.models import test_decoder, test_seq2seq
from tests.models.test_decoder import config, tokens
from twofold.attention import Interpolation, Kind, Llama3, Rotary, Yarn
from twofold.models.rope import rotary_of

YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("rope", [YARN, {**LLAMA3, "original_max_position_embeddings": 4}], ids=["yarn", "llama3"])
def test_steps_are_the_full_pass(kind, rope):
    """Under YaRN the turn scales too: an own key left unturned would show here and in the copied model below."""
    made, ids = test_decoder.model(attention=kind, rope_parameters=rope), tokens()
    with torch.no_grad():
        full, past, found = made(ids, use_cache=False).logits, None, []
        for place in range(9):
            out = made(ids[:, place : place + 1], past_key_values=past, use_cache=True)
            past = out.past_key_values
            found.append(out.logits)
    torch.testing.assert_close(torch.cat(found, dim=1), full, atol=2e-4, rtol=0)
    expected = made.generate(ids, use_cache=False, max_new_tokens=4, num_beams=3, do_sample=False)
    assert torch.equal(made.generate(ids, max_new_tokens=4, num_beams=3, do_sample=False), expected)


@pytest.mark.parametrize("kind", ["split_key", "split_value", "split_kv"])
@pytest.mark.parametrize("build", [test_decoder.model, test_seq2seq.model], ids=["decoder", "seq2seq"])
def test_copied_own_weights_are_the_standard_model_under_yarn(kind, build):
    options = {"rope_parameters": YARN, "init": "copy"}
    split, standard = (build(attention=attention, **options).double() for attention in (kind, "standard"))
    with torch.no_grad():
        for module in split.modules():
            for own, other in (("self_key", "key"), ("self_value", "value")):
                if getattr(module, own, None) is not None:
                    getattr(module, own).load_state_dict(getattr(module, other).state_dict())
    standard.load_state_dict(split.state_dict(), strict=False)
    given = {"decoder_input_ids": tokens(T=5)} if split.config.is_encoder_decoder else {}
    found, expected = (model(tokens(), **given).logits for model in (split, standard))
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("told", "scaling"),
    [
        ({}, None),
        ({"rope_type": "linear", "factor": 2.0}, Interpolation(factor=2.0)),
        (LLAMA3, Llama3(factor=8.0, original_length=2048)),
        (YARN, Yarn(factor=8.0, original_length=4)),
        ({**YARN, "truncate": False, "beta_fast": 9}, Yarn(factor=8.0, original_length=4, truncate=False, beta_fast=9)),
    ],
    ids=str,
)
def test_every_name_that_transformers_has_had(told, scaling):
    expected = Rotary(width=8, base=5e5, scaling=scaling)
    given = dict(told)
    assert rotary_of(config(rope_theta=5e5, rope_parameters=given)) == expected
    # The caller's dictionary stays the caller's.
    assert given == told
    assert rotary_of(config(rope_parameters={**told, "rope_theta": 5e5})) == expected
    assert rotary_of(config(rope_theta=5e5, rope_scaling=told)) == expected
    old = {"type" if name == "rope_type" else name: value for name, value in told.items()}
    assert rotary_of(config(rope_theta=5e5, rope_scaling=old)) == expected


def test_a_trained_model_is_opened_for_longer_texts(tmp_path):
    made = test_decoder.model(rope_theta=5e5)
    made.save_pretrained(tmp_path)
    assert AutoConfig.from_pretrained(tmp_path).rope_theta == 5e5
    longer = AutoModelForCausalLM.from_pretrained(tmp_path, rope_parameters=YARN)
    expected = Rotary(width=8, base=5e5, scaling=Yarn(factor=8.0, original_length=4))
    assert longer.model.embedding.rotary == expected
    assert (longer(tokens()).logits - made(tokens()).logits).abs().max() > 1e-3
    longer.save_pretrained(tmp_path / "longer")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "longer")
    assert again.model.embedding.rotary == expected
    assert torch.equal(again(tokens()).logits, longer(tokens()).logits)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "default, linear, llama3, yarn, got 'dynamic'"),
        ({"rope_scaling": {"type": "spiral"}}, "rope_type must be one of .*, got 'spiral'"),
        ({"rope_parameters": {"rope_type": "linear"}}, "of type linear must have factor, got nothing"),
        ({"rope_parameters": {**YARN, "factor": None}}, "of type yarn must have factor, got original_max_position"),
        ({"rope_parameters": {**YARN, "twist": 1}}, "of type yarn may have attention_factor, .*, got twist"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 0.5}}, "factor must be a finite number of at least 1"),
        ({"rope_parameters": {**LLAMA3, "low_freq_factor": 5.0}}, r"low must lie between 0 and high \(4.0\), got 5.0"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "of type default may have nothing, got partial_rotary"),
        ({"rope_theta": 3e4, "rope_parameters": {"rope_theta": 4e4}}, r"rope_theta must be the same .* got 30000"),
        ({"rope_parameters": YARN, "rope_scaling": LLAMA3}, "give rope_parameters or rope_scaling, .* got both"),
        ({"rope_parameters": YARN, "recipe": "classic"}, "rope_parameters need positions=\"rotary\", got 'sinusoidal'"),
    ],
)
def test_what_cannot_be_done_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        config(**changes)
