"""The benches' models: equal parameters whatever is split, one graph for all layers, and steps that repeat."""

import pytest
import torch
from torch._dynamo.utils import counters
from transformers.cache_utils import Cache

from twofold.attention import Kind
from twofold.bench import decode, layer, training
from twofold.bench.models import decoder, parameters, standard_config

CPU = torch.device("cpu")


def config(**changes):
    return standard_config(**{"heads": 4, "kv_heads": 2, "head_width": 8, "layers": 2, "vocabulary": 50, **changes})


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_every_kind_has_the_same_number_of_parameters(kv_heads):
    assert len({parameters(decoder(config(kv_heads=kv_heads), kind, CPU)) for kind in Kind}) == 1


def test_three_times_the_width_where_four_were():
    """What full heads and both splits cost is one width of the feed-forward."""
    made = decoder(config(kv_heads=4), "split_kv", CPU)
    assert made.config.intermediate_size == 3 * made.config.hidden_size
    assert made.lm_head.weight is made.get_input_embeddings().weight


def test_heads_of_odd_width_are_refused():
    with pytest.raises(ValueError, match="head_dim must be even for rotary positions, got 3"):
        config(head_width=3)


@pytest.mark.needs("g++")
@pytest.mark.parametrize("kind", ["split_kv", "standard"])
def test_all_layers_of_training_share_one_graph(kind):
    torch.compiler.reset()
    counters.clear()
    model, data = training._compiled(config(layers=3), kind, CPU), torch.randint(50, (2, 9))
    loss = model(data, labels=data, use_cache=False).loss
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]
    plain = decoder(config(layers=3), kind, CPU)
    logits = plain(data, use_cache=False).logits
    expected = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), data[:, 1:].flatten())
    torch.testing.assert_close(loss, expected)
    torch.compiler.reset()


@pytest.mark.parametrize("kind", Kind)
def test_a_step_over_either_cache_is_the_full_pass_and_can_be_repeated(kind):
    torch.manual_seed(0)
    model, tokens = decoder(config(), kind, CPU).eval(), torch.randint(50, (2, 7))
    cache = decode._filled(model.config, 2, 6, torch.float32, CPU)
    with torch.no_grad():
        cache.reset()
        full = model(tokens, use_cache=False).logits
        model(tokens[:, :6], past_key_values=cache)
        for past in (cache, Cache(layers=[decode.FullLayer(layer) for layer in cache.layers])):
            for _ in range(3):
                logits, token = decode._step(model, tokens[:, 6:], past)
                torch.testing.assert_close(logits[:, 0], full[:, 6])
                assert torch.equal(token, logits.argmax(-1))
                assert int(past.get_seq_length()) == 6


def test_a_step_that_is_off_is_not_timed(monkeypatch):
    model = decoder(config(), "split_kv", CPU).eval()
    tokens, cache = torch.randint(50, (2, 1)), decode._filled(model.config, 2, 6, torch.float32, CPU)
    decode._verify(model, tokens, cache)
    exact = decode.split_attention
    monkeypatch.setattr(decode, "split_attention", lambda *given, **options: exact(*given, **options) * 1.01)
    with pytest.raises(ArithmeticError, match=r"a step is off by .*: no time is reported"):
        decode._verify(model, tokens, cache)


def test_a_layer_that_is_off_is_not_timed(monkeypatch):
    case = layer.LayerCase(
        batch=1, config=config(layers=1), tokens=9, causal=True, kind="split_kv", dtype="float32", device=CPU
    )
    layer._verify(case)
    exact = layer.split_attention
    monkeypatch.setattr(layer, "split_attention", lambda *given, **options: exact(*given, **options) * 1.01)
    with pytest.raises(ArithmeticError, match=r"the layer is off by .*: no time is reported"):
        next(layer.rows_of(case, rounds=1))


def test_a_model_that_does_not_learn_is_not_timed():
    losses = iter([1.0, 2.0, 0.5, 1.0])
    with pytest.raises(ArithmeticError, match=r"split does not learn: losses .*: no time is reported"):
        training._verify({"split": lambda: torch.tensor(next(losses))})
    falling = iter([4.0, 3.0, 5.0, 1.0])
    training._verify({"split": lambda: torch.tensor(next(falling))})
