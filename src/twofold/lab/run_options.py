"""What the runs of a comparison take beside the options of `twofold train`.

Imports no torch: a command reads it for its help.
"""

from dataclasses import dataclass
from typing import Annotated

from twofold_runtime.checked import Count, Limit, above, at_most, check_fields

Times = Annotated[float, Limit("that is whole and from 1 to 1024", lambda times: 1 <= times <= 1024 and times % 1 == 0)]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """What the runs of a comparison learn from, and what is read off them."""

    evaluations: Count = 10
    """How often a run is scored on the dev split."""
    test: bool = False
    """Read the test split at the end of every run that is compared."""
    lengths: tuple[Times, ...] = ()
    """Score runs that are compared at so many times the training length as well; language models alone."""
    share: Annotated[float, above(0), at_most(1)] = 1.0
    """Share of the training split that is learned from, always the same examples."""

    def __post_init__(self) -> None:
        check_fields(self)
        if len(set(self.lengths)) < len(self.lengths):
            raise ValueError(f"lengths must be different numbers, got {list(self.lengths)}")
