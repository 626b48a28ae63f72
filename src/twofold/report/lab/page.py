"""The report as one HTML file, and its pictures as files of their own."""

from collections.abc import Sequence
from pathlib import Path

from twofold.lab.verdict import Verdict, Word
from twofold.report.lab.figures import Figure, figures
from twofold.report.lab.study import Study
from twofold.report.lab.tables import Table, tables
from twofold.report.lab.text import lab_text
from twofold.report.markup import Markup, joined, tag
from twofold.report.page import alone, card, grid, page, section, table
from twofold_runtime.folder import write_whole

REPORTS = ("report.html", "report.md")


def write_report(folder: Path, study: Study) -> list[Path]:
    """Write report.html, report.md and its pictures into a comparison's folder, and say what was written."""
    drawn, listed = figures(study), tables(study)
    texts = dict(zip(REPORTS, (lab_page(study, listed, drawn), lab_text(study, listed, drawn)), strict=True))
    texts |= {f"figures/{figure.name}.svg": alone(figure.picture) for figure in drawn}
    (folder / "figures").mkdir(exist_ok=True)
    for name, text in texts.items():
        # Processes of a comparison end together, and all write what it came to.
        write_whole(folder / name, text)
    return [folder / name for name in texts]


def lab_page(study: Study, listed: Sequence[Table], drawn: Sequence[Figure]) -> str:
    """The whole file."""
    plan, registration = study.plan, study.registration
    top = tag(
        "header",
        tag(
            "div",
            tag("p", f"{plan.experiment} · {plan.task} · {plan.data}", class_="eyebrow"),
            tag("h1", plan.question),
            *(_verdict(verdict) for verdict in study.told_first),
            _followed(study),
        ),
    )
    known = {figure.name: figure for figure in drawn}
    numbers = [_section(one, [known[name] for name in one.figures if name in known]) for one in listed]
    rates = _cards(
        "Learning rates",
        "Mean over seeds of every rate of the grid; what diverged is left out.",
        [figure for figure in drawn if figure.name.startswith("rates-")],
    )
    weights = _cards(
        "Self weights",
        "What a token keeps of itself, the mean of each layer, after so many tokens of training. The first seed's.",
        [figure for figure in drawn if figure.name.startswith("self-weight-")],
    )
    told = f"Registered {registration.registered:%Y-%m-%d %H:%M} UTC, sha256 {registration.sha256}."
    return page(plan.question, top, tag("main", *numbers, rates, weights, _plan(study)), tag("footer", told))


def _verdict(verdict: Verdict) -> Markup:
    tones = {Word.BETTER: "word good", Word.BETTER_AT_TOKENS: "word good", Word.WORSE: "word bad"}
    rest = verdict.sentence.removeprefix(verdict.word)
    return tag("p", tag("span", verdict.word, class_=tones.get(verdict.word, "word")), rest, class_="verdict")


def _followed(study: Study) -> Markup:
    if not study.departures:
        return tag("p", "The plan was registered before the first run, and followed.", class_="quiet")
    lines = tag("ul", *(tag("li", departure) for departure in study.departures))
    return joined(tag("p", "Not, or not yet, as planned:", class_="departed"), lines)


def _section(one: Table, below: list[Figure]) -> Markup:
    return section(one.title, one.about, table(one.heads, one.rows, one.style), _grid(below))


def _cards(title: str, about: str, drawn: list[Figure]) -> Markup:
    return section(title, about, _grid(drawn)) if drawn else Markup("")


def _grid(drawn: list[Figure]) -> Markup:
    return grid(*(card(figure.title, figure.picture) for figure in drawn)) if drawn else Markup("")


def _plan(study: Study) -> Markup:
    """What was registered, word by word."""
    plan = study.registration.plan
    rows = [
        (name.replace("_", " "), _said(value))
        for name, value in plan.as_json().items()
        if name not in ("experiment", "question") and value not in ({}, (), None, "")
    ]
    notes = [tag("p", note, class_="quiet") for note in study.notes]
    about = "What was fixed before the first run."
    return section("The plan", about, table(("field", "value"), rows, "words"), *notes)


def _said(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_said(one)}" for name, one in value.items())
    if isinstance(value, tuple | list):
        parts = [" against ".join(one) if isinstance(one, tuple) else _said(one) for one in value]
        return ", ".join(parts)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
