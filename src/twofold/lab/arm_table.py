"""Every arm of this package in one table, for help and for `lab.arms`, which makes parts of it. Imports no torch."""

from collections.abc import Mapping
from typing import NamedTuple

PATENT = "the patent application"
CONTROL = "a control of this project"
LOW_RANK = f"{PATENT}, with the low rank of arXiv 2106.09685"


class Row(NamedTuple):
    """An arm as `lab.arms.Arm` has it; the class that computes attention by its name in `lab.rivals`."""

    source: str
    fields: Mapping[str, str] = {}
    attention: str | None = None
    wider: bool = False
    """Whether its feed-forward is widened to the size of split_kv instead (`lab.arms.Wide`)."""


def _split(kind: str, start: str, started: str = "started by this project") -> Row:
    return Row(f"{PATENT}, {started}", {"attention": kind, "init": start})


TABLE: dict[str, Row] = {
    "standard": Row("arXiv 1706.03762"),
    "wide": Row(CONTROL, wider=True),
    "tied": Row(CONTROL, attention="Tied"),
    "split_key": _split("split_key", "copy"),
    "split_value": _split("split_value", "copy"),
    "split_kv": _split("split_kv", "copy"),
    "split_key_aligned": _split("split_key", "aligned"),
    "split_kv_patent": _split("split_kv", "patent", "started as there"),
    "split_kv_aligned": _split("split_kv", "aligned"),
    "split_kv_independent": _split("split_kv", "independent", "started as is usual"),
    "self_bias": Row("arXiv 1910.10683, its relative bias for distance 0 alone", attention="SelfBias"),
    "self_start": Row(CONTROL, attention="SelfStart"),
    "masked_diagonal": Row("arXiv 2112.13492, its diagonal masking", attention="MaskedDiagonal"),
    "exclusive": Row("arXiv 2603.09078", attention="Exclusive"),
    "gated": Row("arXiv 2505.06708, its elementwise gate after attention", attention="Gated"),
    "low_rank_8": Row(LOW_RANK, attention="LowRank8"),
    "low_rank_32": Row(LOW_RANK, attention="LowRank32"),
    "linear_path": Row(CONTROL, attention="LinearPath"),
}
# After the name of an arm whose feed-forward keeps its width instead of being fitted to equal parameters.
RAW = ":raw"
