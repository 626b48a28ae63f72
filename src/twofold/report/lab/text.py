"""The report as Markdown, for repositories and logs; its pictures lie in figures/."""

from collections.abc import Sequence

from twofold.report.lab.figures import Figure
from twofold.report.lab.study import Study
from twofold.report.lab.tables import Table


def lab_text(study: Study, listed: Sequence[Table], drawn: Sequence[Figure]) -> str:
    """The whole file."""
    plan, registration = study.plan, study.registration
    if study.departures:
        kept = ["Not, or not yet, as planned:", "", *(f"- {_plain(line)}" for line in study.departures)]
    else:
        kept = ["The plan was registered before the first run, and followed."]
    lines = [
        f"# {_plain(plan.question)}",
        "",
        *(f"**{said.word}**{_plain(said.sentence.removeprefix(said.word))}\n" for said in study.told_first),
        *kept,
        "",
        f"Experiment {_plain(plan.experiment)}: {_plain(plan.task)} on {_plain(plan.data)}. "
        f"Hypothesis: {_plain(plan.hypothesis)}",
        "",
        *(line for table in listed for line in _table(table)),
        *(f"![{_plain(figure.title)}](figures/{figure.name}.svg)\n" for figure in drawn),
        f"Registered {registration.registered:%Y-%m-%d %H:%M} UTC, sha256 `{registration.sha256}`.",
        *(f"\n{_plain(note)}" for note in study.notes),
    ]
    return "\n".join(lines) + "\n"


def _table(table: Table) -> list[str]:
    return [
        f"## {table.title}",
        "",
        _plain(table.about),
        "",
        _row(table.heads),
        _row(["---", *["---:"] * (len(table.heads) - 1)]),
        *map(_row, table.rows),
        "",
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_plain(cell) for cell in cells)} |"


def _plain(text: str) -> str:
    """Names may hold whatever Markdown would read as more than a text."""
    for mark in "\\`*_[]<>|#":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
