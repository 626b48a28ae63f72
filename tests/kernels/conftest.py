"""Kernel tests change what the choice of a backend depends on."""

import pytest

from twofold.kernels import repeated


@pytest.fixture(autouse=True)
def _nothing_remembered():
    repeated.forget()
