"""From a size, or measures of one's own, to a configuration."""

import pytest

from twofold.models.configs import DecoderConfig
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import SIZES, recurrent, sized


@pytest.mark.parametrize("size", SIZES)
def test_a_size_says_width_layers_and_heads(size):
    config = sized(DecoderConfig, ModelOptions(size=size), 100)
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == SIZES[size]


def test_what_is_said_apart_wins_over_the_size():
    config = sized(DecoderConfig, ModelOptions(size="base", width=96, layers=3, heads=6), 100)
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (96, 3, 6)
    assert config.head_dim == 16
    made = recurrent(ModelOptions(model="lstm", width=48, layers=1), 100)
    assert (made.hidden_size, made.num_hidden_layers) == (48, 1)


def test_heads_share_the_width_evenly():
    with pytest.raises(ValueError, match=r"width must be a multiple of heads \(5\), got 128"):
        sized(DecoderConfig, ModelOptions(heads=5), 100)


@pytest.mark.parametrize("name", ["width", "layers", "heads"])
def test_measures_are_at_least_one(name):
    with pytest.raises(ValueError, match=f"^{name} must be a whole number from 1 to .*, got 0"):
        ModelOptions(**{name: 0})


@pytest.mark.parametrize("name", ["dropout", "attention_dropout"])
def test_dropouts_leave_something(name):
    config = sized(DecoderConfig, ModelOptions(**{name: 0.3}), 100)
    assert (config.hidden_dropout, config.attention_dropout) == ((0.3, 0.0) if name == "dropout" else (0.1, 0.3))
    with pytest.raises(ValueError, match=f"^{name} must be a number of at least 0 and below 1, got 1"):
        ModelOptions(**{name: 1.0})


@pytest.mark.parametrize(
    ("name", "value"),
    [("attention", "split_key"), ("heads", 2), ("recipe", "classic"), ("init", "aligned"), ("attention_dropout", 0.1)],
)
def test_what_recurrent_layers_do_not_have_is_not_taken(name, value):
    with pytest.raises(ValueError, match=f"{name} must be left out where model is gru, got {value!r}"):
        ModelOptions(model="gru", **{name: value}).check_meant()
    ModelOptions(**{name: value}).check_meant()
    ModelOptions(model="gru", attention="standard").check_meant()


def test_standard_attention_has_no_own_weights_to_start():
    with pytest.raises(ValueError, match="init must be left out where attention is standard"):
        ModelOptions(attention="standard", init="aligned").check_meant()
