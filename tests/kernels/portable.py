"""The backends that every machine has, in every dtype; Triton's has a file of tests of its own."""

from twofold.kernels.api import Backend

PORTABLE = [Backend.REFERENCE, Backend.COLUMNS, Backend.DENSE, Backend.SHIFTED]
