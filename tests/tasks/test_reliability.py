"""Bins of confidence, and the calibration error that is made of them."""

import pytest

from twofold.tasks.calibration import BINS, expected_calibration_error, reliability


def test_bins_count_what_is_in_them():
    found = reliability([0.0, 0.01, 0.99, 1.0], [False, True, True, True])
    assert len(found) == BINS
    assert found[0] == (2, pytest.approx(0.005), 0.5)
    assert found[-1] == (2, pytest.approx(0.995), 1.0)
    assert all(one == (0, 0.0, 0.0) for one in found[1:-1])


def test_the_error_is_the_mean_distance():
    assert expected_calibration_error([0.0, 0.01, 0.99, 1.0], [False, True, True, True]) == pytest.approx(
        (2 * 0.495 + 2 * 0.005) / 4
    )
    assert expected_calibration_error([1.0], [True]) == 0
