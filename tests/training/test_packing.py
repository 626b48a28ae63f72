"""Packed sequences are seen as they are alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.training import tiny
from twofold.training import packed

SEQUENCES = st.lists(st.lists(st.integers(3, 16), max_size=12), max_size=12)


@given(SEQUENCES, st.integers(2, 9))
def test_nothing_is_lost(sequences, length):
    rows = packed(sequences, length, pad=99)
    tokens = [token for row in rows for token in row["input_ids"]]
    expected = [token for sequence in sequences for token in sequence]
    assert tokens[: len(expected)] == expected
    assert set(tokens[len(expected) :]) <= {99}
    assert len(tokens) - len(expected) < length
    for row in rows:
        assert {len(values) for values in row.values()} == {length}
        for token, place, label in zip(*row.values(), strict=True):
            assert label == (token if place and token != 99 else -100)


@pytest.mark.parametrize("attention", ["standard", "split_kv"])
def test_neighbours_are_not_seen(attention):
    sequences = [[3, 4, 5], [6], [7, 8, 9, 10, 11], [12, 13], [14, 15, 16, 3]]
    model = tiny.model(attention=attention, hidden_dropout=0.0)
    rows = packed(sequences, 9)
    assert [row["position_ids"] for row in rows] == [[0, 1, 2, 0, 0, 1, 2, 3, 4], [0, 1, 0, 1, 2, 3, 0, 1, 2]]
    batch = {name: torch.tensor([row[name] for row in rows]) for name in rows[0]}
    together = model(**batch, use_cache=False).logits.flatten(0, 1)[: sum(map(len, sequences))]
    alone = torch.cat([model(torch.tensor([sequence]), use_cache=False).logits[0] for sequence in sequences])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_packed_rows_train(tmp_path):
    rows = packed([one["input_ids"] for one in tiny.data()], 16)

    def stacked(features):
        return {name: torch.tensor([one[name] for one in features]) for name in features[0]}

    from twofold.training import Settings, fit

    outcome = fit(
        tiny.model(),
        rows,
        stacked,
        settings=Settings(epochs=1, batch_size=4, device="cpu", log_steps=1),
        folder=tmp_path,
        evaluate=None,
        metric="loss",
        higher_is_better=False,
    )
    assert outcome.steps == len(tiny.curve(tmp_path)) == -(-len(rows) // 4)
    assert outcome.tokens == 16 * len(rows)


def test_a_row_needs_room():
    with pytest.raises(ValueError, match="length must be at least 2, got 1"):
        packed([[1, 2]], 1)
