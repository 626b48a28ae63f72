"""`twofold compare --claims`: what is left of several comparisons' claims when they are taken together."""

from collections.abc import Sequence
from pathlib import Path

from twofold.cli import printable, say, say_json

RATE = 0.05


def claims_of(folders: Sequence[Path], *, as_json: bool) -> int:
    """Every judged primary comparison of the folders, with p after Holm in its plan and among all claims."""
    from twofold.lab.claims import claims
    from twofold.report.lab.study import read_study

    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ValueError("--claims must name every folder once, got one twice")
    studies = sorted((read_study(folder) for folder in folders), key=lambda study: study.plan.experiment)
    made = claims([(study.plan, *pair) for study in studies if not study.plan.exploratory for pair in study.primary])
    if not made:
        raise ValueError(f"--claims must name comparisons that were judged, got none of {len(folders)}")
    rows = [
        {
            "experiment": claim.plan.experiment,
            "arm": claim.comparison.pairs.arm,
            "against": claim.comparison.pairs.against,
            "verdict": claim.verdict.word,
            "p": claim.p,
            "after_holm": claim.comparison.adjusted_p,
            "among_all": claim.adjusted_p,
        }
        for claim in made
    ]
    if as_json:
        say_json({"claims": rows, "rate": RATE, "hold": sum(claim.holds(RATE) for claim in made)})
        return 0
    say(f"| experiment | comparison | verdict | p | after Holm | among all {len(rows)} |\n|---|---|---|---|---|---|")
    for row in rows:
        ps = (f"{row[name]:.4f}" for name in ("p", "after_holm", "among_all"))
        pair = f"{row['arm']} - {row['against']}"
        say(f"| {printable(row['experiment'])} | {printable(pair)} | {row['verdict']} | {' | '.join(ps)} |")
    hold = sum(claim.holds(RATE) for claim in made)
    say(f"\n{hold} of {len(rows)} hold at a rate of false discoveries of {RATE:.0%}.")
    return 0
