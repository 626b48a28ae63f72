"""Every example once an epoch, in an order that depends on nothing but settings, data and epoch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.training.order import epoch_batches, shares, total_steps
from twofold.training.settings import Settings

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=300)
SETTINGS = st.builds(
    Settings,
    batch_size=st.integers(1, 9),
    batch_tokens=st.one_of(st.none(), st.integers(1, 120)),
    buckets=st.booleans(),
    seed=st.integers(0, 3),
    epochs=st.sampled_from([0.3, 1, 2.5]),
)


@given(SETTINGS, LENGTHS, st.integers(0, 5))
def test_every_example_comes_once(settings, lengths, epoch):
    batches = epoch_batches(settings, len(lengths), lengths, epoch)
    assert sorted(example for batch in batches for example in batch) == list(range(len(lengths)))
    assert batches == epoch_batches(settings, len(lengths), lengths, epoch)
    for batch in batches:
        if settings.batch_tokens is None:
            assert 1 <= len(batch) <= settings.batch_size
        else:
            assert len(batch) == 1 or len(batch) * max(lengths[one] for one in batch) <= settings.batch_tokens


@given(SETTINGS, LENGTHS)
def test_steps_are_counted_as_they_come(settings, lengths):
    each = [len(epoch_batches(settings, len(lengths), lengths, epoch)) for epoch in range(3)]
    total = total_steps(settings, len(lengths), lengths)
    assert total >= 1
    if settings.epochs == 1:
        assert total == each[0]
    elif settings.epochs == 2.5:
        assert each[0] + each[1] < total <= sum(each)
    else:
        assert total <= each[0]


@given(st.lists(st.integers(), min_size=1, max_size=40), st.integers(1, 4), st.integers(1, 5))
def test_shares_make_the_batch(batch, processes, pieces):
    of_all = [shares(batch, rank, processes, pieces) for rank in range(processes)]
    assert len({len(share) for share in of_all}) == 1
    assert sorted(one for share in of_all for piece in share for one in piece) == sorted(batch)
    sizes = [len(piece) for share in of_all for piece in share]
    assert max(sizes) - min(sizes) <= 1
    assert not any(all(not share[number] for share in of_all) for number in range(len(of_all[0])))


def test_epochs_and_seeds_differ():
    def order(seed, epoch):
        return epoch_batches(Settings(seed=seed, batch_size=4), 100, list(range(1, 101)), epoch)

    assert order(0, 0) != order(0, 1) != order(1, 0) != order(0, 0)


def test_buckets_leave_little_padding():
    lengths = [1 + 37 * number % 64 for number in range(1000)]

    def padding(buckets):
        settings = Settings(batch_size=10, buckets=buckets)
        batches = epoch_batches(settings, len(lengths), lengths, 0)
        padded = sum(len(batch) * max(lengths[one] for one in batch) for batch in batches)
        return 1 - sum(lengths) / padded

    assert padding(True) < 0.05 < 0.3 < padding(False)


def test_steps_win_over_epochs():
    assert total_steps(Settings(steps=7, epochs=100), 50, None) == 7
    # As many as the product has, whose last bit is one too many.
    assert total_steps(Settings(epochs=0.07, batch_size=1), 100, None) == 7
    assert total_steps(Settings(epochs=1e-12, batch_size=1), 100, None) == 1
    assert total_steps(Settings(epochs=0.075, batch_size=1), 100, None) == 8


def test_sorting_needs_lengths():
    with pytest.raises(ValueError, match="lengths must be given for buckets and for batch_tokens"):
        epoch_batches(Settings(), 3, None, 0)
    assert len(epoch_batches(Settings(buckets=False, batch_size=1), 3, None, 0)) == 3
