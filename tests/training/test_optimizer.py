"""What decays, and how the rate goes."""

import math

import pytest
from torch import nn

from tests.training import tiny
from twofold.training.optimizer import optimizer_of, rate
from twofold.training.settings import Settings


@pytest.mark.parametrize("decay_embeddings", [False, True])
def test_matrices_decay_and_nothing_else(decay_embeddings):
    model = tiny.model(recipe="classic")
    optimizer = optimizer_of(model, Settings(weight_decay=0.3, decay_embeddings=decay_embeddings))
    decays = {id(one): group["weight_decay"] for group in optimizer.param_groups for one in group["params"]}
    # lm_head is tied to the embedding, and comes once.
    assert len(decays) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        is_embedding = name.endswith("tokens.weight")
        expected = 0.3 if parameter.ndim > 1 and (decay_embeddings or not is_embedding) else 0.0
        assert decays[id(parameter)] == expected, name


def test_averages_are_those_asked_for():
    (group, *_) = optimizer_of(tiny.model(), Settings(betas=(0.5, 0.75))).param_groups
    assert group["betas"] == (0.5, 0.75)


def test_frozen_parameters_are_left_alone():
    model = nn.Linear(2, 2)
    model.weight.requires_grad_(False)
    (group,) = optimizer_of(model, Settings()).param_groups
    assert [id(one) for one in group["params"]] == [id(model.bias)]
    model.bias.requires_grad_(False)
    with pytest.raises(ValueError, match="model must have parameters to train"):
        optimizer_of(model, Settings())


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
@pytest.mark.parametrize("warmup", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("total", [1, 2, 100])
def test_rates_rise_then_fall(schedule, warmup, total):
    settings = Settings(schedule=schedule, warmup=warmup, learning_rate=2.0, final_rate=0.1)
    rates = [rate(settings, step, total) for step in range(1, total + 1)]
    top = max(math.ceil(warmup * total), 1)
    assert rates[top - 1] == max(rates) == 2.0
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert all(0.2 <= one <= 2.0 for one in rates[top:])


def test_rates_end_where_they_should():
    def last(schedule, final_rate):
        return rate(Settings(schedule=schedule, final_rate=final_rate, learning_rate=1.0), 10_000, 10_000)

    assert last("constant", 0.0) == 1.0
    for schedule in ("cosine", "linear"):
        assert 0 < last(schedule, 0.0) < 2e-4
        assert last(schedule, 0.25) == pytest.approx(0.25, abs=2e-4)
    middle = [rate(Settings(schedule=name, warmup=0), 5001, 10_000) for name in ("cosine", "linear")]
    assert middle == pytest.approx([0.5e-3, 0.5e-3], rel=1e-3)
