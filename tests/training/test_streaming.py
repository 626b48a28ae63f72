"""A stream is read as far as it is needed, and a resumed run finds its rows again."""

from itertools import chain

import pytest

from tests.training import tiny
from tests.training.test_resume import At, Crash, crash
from twofold.data.streaming import Streamed
from twofold.training import Settings
from twofold.training.order import STREAM_STEPS, epoch_batches
from twofold.training.streaming import POOL, Numbered

SETTINGS = Settings(steps=4, batch_size=4)


def numbers(count, seen=None):
    def begin():
        for number in range(count):
            if seen is not None:
                seen.append(number)
            yield number

    return Streamed(begin)


def test_rows_have_numbers_and_no_more_are_read_than_needed():
    seen = []
    rows = Numbered(numbers(10**9, seen), SETTINGS)
    # Within a batch in any order, as pieces are.
    asked = [0, 2, 1, 3, 7, 4, 6, 5]
    found = {number: rows[number] for number in asked}
    assert len(seen) <= POOL + 8 + 1
    assert len(set(found.values())) == 8
    # What went before the last batch is forgotten.
    assert len(rows.recent) <= SETTINGS.batch_size
    again = Numbered(numbers(10**9), SETTINGS)
    assert {number: again[number] for number in sorted(asked)} == found
    # A later life begins in the middle.
    assert [Numbered(numbers(10**9), SETTINGS)[number] for number in (5, 6)] == [found[5], found[6]]


def test_the_seed_mixes_rows_and_none_is_lost():
    rows = Numbered(numbers(3 * POOL), SETTINGS)
    drawn = [rows[number] for number in range(2 * POOL)]
    assert drawn != sorted(drawn)
    assert len(set(drawn)) == 2 * POOL
    other = Numbered(numbers(3 * POOL), Settings(seed=1, steps=4, batch_size=4))
    assert [other[number] for number in range(9)] != drawn[:9]


def test_a_stream_that_ends_begins_again():
    rows = Numbered(numbers(3), SETTINGS)
    drawn = [rows[number] for number in range(600)]
    assert all(150 < drawn.count(number) < 250 for number in range(3))


def test_an_empty_stream():
    with pytest.raises(ValueError, match="train must have at least one example, got none"):
        Numbered(numbers(0), SETTINGS)[0]


def test_epochs_of_a_stream_count_on():
    batches = epoch_batches(SETTINGS, None, None, 0) + epoch_batches(SETTINGS, None, None, 1)
    assert len(batches) == 2 * STREAM_STEPS
    assert list(chain(*batches)) == list(range(8 * STREAM_STEPS))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": None}, "steps must be given where the data is a stream, which has no end, got None"),
        ({"batch_tokens": 50}, "batch_tokens must not be given where the data is a stream, got 50"),
        ({"workers": 1}, "workers must not be given where the data is a stream, got 1"),
    ],
)
def test_what_a_stream_cannot_do(changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        tiny.train(tmp_path, train=Streamed(lambda: iter(tiny.data())), changes={"steps": 4, **changes})


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_resumed_run_is_the_uninterrupted_one(pieces, tmp_path):
    changes = {"steps": 9, "accumulate": pieces}

    def train(folder, **options):
        return tiny.train(folder, train=Streamed(lambda: iter(tiny.data())), changes=changes, **options)

    whole = train(tmp_path / "whole")
    with pytest.raises(Crash):
        train(tmp_path / "cut", progress=At(5, crash))
    assert train(tmp_path / "cut", resume=True).tokens == whole.tokens
    assert tiny.curve(tmp_path / "cut") == tiny.curve(tmp_path / "whole")
    assert tiny.equal(tiny.weights(tmp_path / "cut"), tiny.weights(tmp_path / "whole"))
