"""The grammar engine: what templates mean, where values end up, which split a value belongs to."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from twofold.data.examples import Slot
from twofold.data.grammar import (
    Everyday,
    Generated,
    Lexicon,
    Open,
    Shared,
    Spoken,
    in_hash_order,
    kinds_of,
    parse,
    portion,
    say,
    seeded,
    split_of,
    wordings,
)
from twofold.data.speech import misspelt, written

NAMES = tuple("abcdefghijklmnopqrst")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("plain", {"plain"}),
        ("[a|b] c", {"a c", "b c"}),
        ("a (b) c", {"a b c", "a c"}),
        ("[a|] b", {"a b", "b"}),
        ("(a (b)) c", {"a b c", "a c", "c"}),
        ("[a [b|c]|d]", {"a b", "a c", "d"}),
    ],
)
def test_choices(template, expected):
    assert {say(template, seeded(seed), str).text for seed in range(50)} == expected
    assert set(wordings(template)) == expected


def test_values_are_labelled_where_they_stand():
    spoken = say(
        "  turn the {room} light , on  at {when:time}", seeded(0), {"room": "kitchen", "time": "ten"}.__getitem__
    )
    assert spoken.text == "turn the kitchen light, on at ten"
    assert spoken.slots == (Slot("room", 9, 16), Slot("when", 30, 33))


def test_labels_inside_of_an_unlabelled_value_are_kept_and_inside_of_a_labelled_one_dropped():
    values = {"when": "at {time}", "time": "ten <part>", "part": "pm"}
    assert say("wake me <when>", seeded(0), values.__getitem__).slots == (Slot("time", 11, 17),)
    assert say("wake me {when}", seeded(0), values.__getitem__).slots == (Slot("when", 8, 17),)


@pytest.mark.parametrize(("value", "text"), [("eye test", "book an eye test"), ("lunch", "book a lunch")])
def test_a_before_a_vowel(value, text):
    spoken = say("book a {event}", seeded(0), lambda kind: value)
    assert spoken.text == text
    assert spoken.text[spoken.slots[0].start : spoken.slots[0].end] == value


@pytest.mark.parametrize("template", ["[a|b", "a|b", "a]", "(a]", "{room", "{a b}", "<x", "a)"])
def test_broken_templates_are_named(template):
    with pytest.raises(ValueError, match="template "):
        parse(template)


def test_a_kind_that_nobody_knows_is_named():
    with pytest.raises(ValueError, match=r"asks for 'room'; the lexicon has \['city'\]"):
        Lexicon({"city": Shared(("x",))}).say("in the {room}", seeded(0), "train")


def test_kinds_of_a_template():
    assert kinds_of("[a {b}|(<c>)] {d:e}") == {"b", "c", "e"}


@pytest.mark.parametrize("size", [3, 4, 7, 20, 101])
def test_portions_are_disjoint_and_complete(size):
    items = list(range(size))
    parts = [portion(items, split) for split in ("train", "dev", "test")]
    assert [*parts[0], *parts[1], *parts[2]] == items
    assert all(parts)


def test_too_few_entries_for_three_splits():
    with pytest.raises(ValueError, match=r"at least 3 entries, got \['a', 'b'\]"):
        portion(["a", "b"], "train")


def test_an_order_that_nobody_chose():
    assert in_hash_order(["a", "b", "c", "a"]) == in_hash_order(["c", "b", "a"])


def draws(source, split):
    rng = seeded(0)
    return {source.draw("kind", rng, split) for _ in range(500)}


def test_open_values_never_meet_another_split():
    train, dev, test = (draws(Open(NAMES), split) for split in ("train", "dev", "test"))
    assert train | dev | test == set(NAMES)
    assert not train & dev
    assert not train & test
    assert not dev & test


def test_everyday_values_of_test_are_partly_new():
    train, test = draws(Everyday(NAMES), "train"), draws(Everyday(NAMES), "test")
    assert train & test
    assert test - train
    assert not train - test


def test_made_values_go_where_their_hash_says():
    source = Generated(lambda rng: str(rng.randrange(200)))
    assert not draws(source, "train") & draws(source, "test")
    assert {split_of(value) for value in draws(source, "dev")} == {"dev"}
    elsewhere = "dev" if split_of("always") == "test" else "test"
    with pytest.raises(ValueError, match=f"kind 'kind' has too few values for the {elsewhere} split"):
        draws(Generated(lambda rng: "always"), elsewhere)


TEXTS = st.text(min_size=1, max_size=60).filter(lambda text: text.strip() == text)


@settings(deadline=None)
@given(text=TEXTS, seed=st.integers(0, 1000), data=st.data())
def test_case_and_errors_keep_slots_over_the_same_words(text, seed, data):
    """Whatever happens to the text, what is before, in and after a slot stays there, but for one letter."""
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    value = text[start:end]
    assume(value.strip() == value)
    for change in (misspelt, written):
        made = change(Spoken(text, (Slot("x", start, end),)), seeded(seed))
        (slot,) = made.slots
        found = made.text[slot.start : slot.end]
        assert abs(len(found) - len(value)) <= 1
        assert found.strip() == found
        assert (found[0].casefold(), found[-1].casefold()) == (value[0].casefold(), value[-1].casefold())


def test_errors_happen_and_move_slots():
    spoken = Spoken("turn the kitchen lights off in the bathroom", (Slot("a", 9, 16), Slot("b", 35, 43)))
    made = {misspelt(spoken, seeded(seed)) for seed in range(300)}
    assert {len(one.text) - len(spoken.text) for one in made} == {-1, 0, 1}
    assert len({one.text for one in made}) > 20
    assert {tuple(slot.start for slot in one.slots) for one in made} == {(9, 34), (9, 35), (9, 36)} | {
        (8, 34),
        (10, 36),
    }
