"""All claims of one page together: of 29 verdicts, each at 5 %, one or two are found where there is nothing.

Holm adjusts the primary comparisons of one plan for each other. Beside it stands what is left of each when all plans of
a page are taken together, by the rate of false discoveries (Benjamini and Hochberg 1995).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from twofold.lab.analysis import Comparison
from twofold.lab.plan import Plan
from twofold.lab.statistics import benjamini_hochberg
from twofold.lab.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Claim:
    """A primary comparison that was judged."""

    plan: Plan
    comparison: Comparison
    verdict: Verdict
    p: float
    """Of the exact test, adjusted for nothing."""
    adjusted_p: float
    """Among all claims of the page."""

    def holds(self, rate: float = 0.05) -> bool:
        """Whether it is among the claims of which at most so many, in expectation, are wrong."""
        return self.adjusted_p <= rate


def claims(judged: Sequence[tuple[Plan, Comparison, Verdict]]) -> list[Claim]:
    """The claims among primary comparisons, in their order; those that were not judged claim nothing."""
    known = [(*one, one[1].p) for one in judged if one[1].adjusted_p is not None and one[1].p is not None]
    adjusted = benjamini_hochberg([p for *_, p in known])
    return [Claim(*one, share) for one, share in zip(known, adjusted, strict=True)]
