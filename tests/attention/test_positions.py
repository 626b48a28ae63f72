"""Positions: the sources' worked examples, and truths written by others."""

import math

import pytest
import torch

from twofold.attention import Alibi, LearnedPositions, Rotary, SinusoidalPositions, Yarn
from twofold.attention.positions import sinusoidal


def test_the_code_of_position_1_is_in_radians():
    """The transformer notes compute in degrees and print sin 1 = 0.02."""
    expected = torch.tensor([0.84, 0.54, 0.01, 1.00])
    torch.testing.assert_close(sinusoidal(torch.tensor(1), 4), expected, atol=0.005, rtol=0)


def test_show_me_the_money():
    """The transformer notes' fourth word, embedded as (0.41, 0.08, 0.51, 0.87), in radians."""
    money = torch.tensor([0.41, 0.08, 0.51, 0.87]).expand(1, 1, 4)
    expected = torch.tensor([0.55, -0.91, 0.54, 1.87])
    torch.testing.assert_close(SinusoidalPositions(4)(money, start=3)[0, 0], expected, atol=0.005, rtol=0)


@pytest.mark.parametrize("delta", [1, 5, 100])
def test_moving_by_delta_is_a_rotation_of_every_pair(delta):
    """003: M(delta) PE_i = PE_{i + delta}."""
    width, positions = 16, torch.arange(50)
    code = sinusoidal(positions, width).double().unflatten(-1, (-1, 2))
    moved = sinusoidal(positions + delta, width).double().unflatten(-1, (-1, 2))
    angle = delta * 10_000.0 ** (-torch.arange(0, width, 2).double() / width)
    sine, cosine = code[..., 0], code[..., 1]
    rotated = torch.stack(
        [sine * angle.cos() + cosine * angle.sin(), cosine * angle.cos() - sine * angle.sin()], dim=-1
    )
    torch.testing.assert_close(rotated, moved, atol=1e-6, rtol=0)


def test_long_positions_stay_exact():
    code = sinusoidal(torch.tensor(1_000_003), 4)
    torch.testing.assert_close(code[0].item(), math.sin(1_000_003), atol=1e-6, rtol=0)


@pytest.mark.parametrize("make", [lambda **o: SinusoidalPositions(6, **o), lambda **o: LearnedPositions(20, 6, **o)])
class TestAddedOrConcatenated:
    def test_added(self, make):
        made, x = make(), torch.randn(2, 5, 6)
        code = made(torch.zeros(2, 5, 6))
        torch.testing.assert_close(made(x), x + code)
        assert not torch.equal(code[:, 0], code[:, 1])

    def test_concatenated(self, make):
        made, x = make(combine="concatenate"), torch.randn(2, 5, 3)
        out = made(x)
        assert out.shape == (2, 5, 9)
        assert torch.equal(out[..., :3], x)

    def test_counted_on_from_a_start(self, make):
        made, x = make(), torch.randn(1, 8, 6)
        torch.testing.assert_close(made(x[:, 5:], start=5), made(x)[:, 5:])

    def test_a_wrong_width_is_refused(self, make):
        with pytest.raises(ValueError, match=r"x must be as wide as the added positions \(6\), got 7"):
            make()(torch.randn(1, 2, 7))

    def test_an_unknown_way_to_combine_is_refused(self, make):
        with pytest.raises(ValueError, match="combine must be 'add' or 'concatenate', got 'multiply'"):
            make(combine="multiply")


def test_learned_positions_end():
    with pytest.raises(ValueError, match="x must end within the 4 learned positions, got positions 2 to 5"):
        LearnedPositions(4, 6)(torch.zeros(1, 4, 6), start=2)


def test_learned_positions_do_not_count_backwards():
    with pytest.raises(ValueError, match="got positions -1 to -1"):
        LearnedPositions(4, 6)(torch.zeros(1, 1, 6), start=-1)


def test_double_precision_positions():
    rotary_table = Rotary(width=4).at(torch.tensor([1_000_003]), torch.float64)
    torch.testing.assert_close(rotary_table.cos[0, 0].item(), math.cos(1_000_003), atol=1e-9, rtol=0)
    code = SinusoidalPositions(4)(torch.zeros(1, 1, 4, dtype=torch.float64), start=3)
    torch.testing.assert_close(code[0, 0, 0].item(), math.sin(3), atol=1e-15, rtol=0)


def test_senseless_numbers_are_refused():
    with pytest.raises(ValueError, match="base must be a finite number above 1, got 0"):
        Rotary(width=4, base=0.0)
    with pytest.raises(ValueError, match="heads must be at least 1, got 0"):
        Alibi(0)


@pytest.mark.parametrize("width", [1, 3, 0])
def test_odd_widths_are_refused(width):
    with pytest.raises(ValueError, match=f"width must be even and at least 2, got {width}"):
        SinusoidalPositions(width)
    with pytest.raises(ValueError, match=f"width must be even and at least 2, got {width}"):
        Rotary(width=width)


def test_rotary_scores_depend_on_the_distance_alone():
    rotary = Rotary(width=8)
    q, k = torch.randn(1, 1, 1, 8, dtype=torch.float64), torch.randn(1, 1, 1, 8, dtype=torch.float64)

    def score(i, j):
        return (rotary.at(torch.tensor([i]), q.dtype)(q) * rotary.at(torch.tensor([j]), k.dtype)(k)).sum()

    torch.testing.assert_close(score(3, 1), score(53, 51), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(score(3, 1), score(3, 2))


def test_rotary_keeps_lengths_unless_scaled():
    x = torch.randn(2, 3, 9, 8)
    rotated = Rotary(width=8).at(torch.arange(9), x.dtype)(x)
    torch.testing.assert_close(rotated.norm(dim=-1), x.norm(dim=-1))
    scaled = Rotary(width=8, scaling=Yarn(factor=4.0, original_length=32)).at(torch.arange(9), x.dtype)(x)
    torch.testing.assert_close(scaled.norm(dim=-1), x.norm(dim=-1) * (0.1 * math.log(4) + 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"factor": 0.5, "original_length": 8}, "factor must be a finite number of at least 1, got 0.5"),
        ({"factor": 2.0, "original_length": 0}, "original_length must be at least 1, got 0"),
    ],
)
def test_bad_yarn(arguments, message):
    with pytest.raises(ValueError, match=message):
        Yarn(**arguments)


def test_alibi_slopes_as_published():
    torch.testing.assert_close(Alibi(8).slopes(), torch.tensor([2.0**-i for i in range(1, 9)]))
    assert Alibi(1).slopes().tolist() == [2**-8]


def test_alibi_bias_counts_from_the_own_slot():
    bias = Alibi(2).bias(2, 5)
    assert bias.shape == (1, 2, 2, 5)
    slope = Alibi(2).slopes()[0].item()
    torch.testing.assert_close(bias[0, 0, 0], torch.tensor([-3.0, -2.0, -1.0, 0.0, -1.0]) * slope)
    torch.testing.assert_close(bias[0, 0, 1], torch.tensor([-4.0, -3.0, -2.0, -1.0, 0.0]) * slope)
