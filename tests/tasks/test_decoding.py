"""How tokens are chosen: what is refused, and what transformers is told."""

import pytest

from twofold.tasks.decoding import Decoding


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beams": 0}, "beams must be at least 1, got 0"),
        ({"top_k": 0}, "top_k must be at least 1, got 0"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1, got 0"),
        ({"temperature": 0.0}, r"temperature must be finite and at least 0.001 .*, got 0.0"),
        ({"temperature": float("nan")}, r"temperature must be finite and at least 0.001 .*, got nan"),
        ({"top_p": 1.5}, "top_p must be above 0 and at most 1, got 1.5"),
        ({"min_p": 0.0}, "min_p must be above 0 and at most 1, got 0.0"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": 2**64}, r"seed must be below 2\*\*64, got 18446744073709551616"),
        ({"beams": 2, "temperature": 0.5}, "beams must be 1 where tokens are drawn by chance, got 2"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Decoding(**options)


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
