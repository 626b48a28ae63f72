"""An experiment that is judged after so many pairs, and takes more where it is not decided.

Its stages and their shares of the threshold are fixed by the plan (`statistics.stage_levels`), so that looking early
costs what it must and no more.
"""

from collections.abc import Sequence
from datetime import datetime

from twofold.lab.analysis import compared
from twofold.lab.plan import Plan
from twofold.lab.records import Record
from twofold.lab.verdict import Word, judged


def current_stage(plan: Plan, records: Sequence[Record], registered: datetime | None = None) -> Plan:
    """The plan at the first stage that is decided, or not yet whole; at its last one otherwise."""
    for stage in range(plan.last_stage):
        staged = plan.at_stage(stage)
        primary = compared(staged, records, registered)[: len(plan.primary)]
        whole = all(comparison.is_whole for comparison in primary)
        if not whole or all(judged(staged, comparison).word is not Word.UNDECIDED for comparison in primary):
            return staged
    return plan.at_stage(plan.last_stage)
