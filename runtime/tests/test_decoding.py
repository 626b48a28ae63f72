"""How tokens are chosen: what is refused, and what counts as sampling."""

import pytest

from twofold_runtime.decoding import Decoding


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beams", 0),
        ("beams", 10**9),
        ("top_k", 0),
        ("max_new_tokens", 0),
        ("max_new_tokens", 10**9),
        ("temperature", 0.0),
        ("temperature", 1e-40),
        ("temperature", 0.0009),
        ("temperature", float("nan")),
        ("temperature", 1e300),
        ("top_p", 1.5),
        ("min_p", 0.0),
        ("seed", -1),
        ("seed", 2**64),
    ],
)
def test_a_value_out_of_range_is_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be "):
        Decoding(**{name: value})


def test_beams_do_not_sample():
    with pytest.raises(ValueError, match="beams must be 1 where tokens are sampled, got 2"):
        Decoding(beams=2, temperature=0.5)


@pytest.mark.parametrize("options", [{"temperature": 0.5}, {"top_k": 5}, {"top_p": 0.9}, {"min_p": 0.1}])
def test_any_of_four_options_samples(options):
    assert Decoding(**options).is_random
    assert not Decoding(beams=4, max_new_tokens=3, seed=1).is_random
