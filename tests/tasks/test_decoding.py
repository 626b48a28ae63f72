"""How tokens are chosen: what is refused, and what transformers is told."""

import pytest
from twofold.tasks.decoding import Decoding


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beams", 0),
        ("beams", 10**9),
        ("top_k", 0),
        ("max_new_tokens", 0),
        ("max_new_tokens", 10**9),
        ("temperature", 0.0),
        ("temperature", float("nan")),
        ("temperature", 1e300),
        ("top_p", 1.5),
        ("min_p", 0.0),
        ("seed", -1),
        ("seed", 2**64),
    ],
)
def test_what_cannot_be_is_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be "):
        Decoding(**{name: value})


def test_beams_do_not_sample():
    with pytest.raises(ValueError, match="beams must be 1 where tokens are sampled, got 2"):
        Decoding(beams=2, temperature=0.5)


def test_nothing_said_is_greedy():
    assert Decoding().as_arguments() == {"num_beams": 1, "do_sample": False}


def test_beams_search_without_chance():
    assert Decoding(beams=4).as_arguments() == {"num_beams": 4, "do_sample": False}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"temperature": 0.5}, {"temperature": 0.5, "top_k": 0, "top_p": 1.0}),
        ({"top_k": 5}, {"temperature": 1.0, "top_k": 5, "top_p": 1.0}),
        ({"top_p": 0.9}, {"temperature": 1.0, "top_k": 0, "top_p": 0.9}),
        ({"min_p": 0.1}, {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.1}),
    ],
)
def test_any_way_to_draw_draws_from_all_tokens_unless_limited(options, told):
    assert Decoding(**options).as_arguments() == {"num_beams": 1, "do_sample": True, **told}
