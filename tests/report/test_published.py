"""What docs/results says is what the code makes of the records beside it."""

import re
from pathlib import Path

import pytest

from twofold.cli import main
from twofold.report.lab.figures import figures
from twofold.report.lab.study import read_study
from twofold.report.lab.tables import tables
from twofold.report.lab.text import lab_text

RESULTS = Path(__file__).parents[2] / "docs" / "results"
REPORTS = sorted(RESULTS.glob("*/report.md"))
# Parts of a verdict: how far apart two arms ended, and what that saves.
ENDS = r"\w+ ends [\d.]+ (?:above|below) \w+ in \S+ \([^)]*\)"
REACHES = r"reaches that end with [^(]*\([^)]*\)"


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.parent.name)
def test_a_report_is_what_its_records_say(report):
    study = read_study(report.parent)
    assert report.read_text(encoding="utf-8") == lab_text(study, tables(study), figures(study))


def test_the_table_calls_better_or_worse_what_the_reports_do():
    rows = re.findall(
        r"^\| \[([\w-]+)\]\(.*?\) \|.*?\|(.*)\|$", (RESULTS / "README.md").read_text(encoding="utf-8"), re.M
    )
    told = {name: text for name, text in rows if (RESULTS / name / "report.md").exists()}
    assert len(told) >= 15
    for name, text in told.items():
        report = (RESULTS / name / "report.md").read_text(encoding="utf-8")
        said = set(re.findall(r"\*\*(better|worse)\*\*", text))
        assert (name, said) == (name, set(re.findall(r"^\*\*(better|worse)\*\*", report, re.M)))


def test_quoted_verdicts_are_those_of_reports():
    page = " ".join((RESULTS / "README.md").read_text(encoding="utf-8").split())
    told = " ".join(report.read_text(encoding="utf-8").replace("\\", "") for report in REPORTS)
    quoted = re.findall(f"{ENDS}|{REACHES}", page)
    assert len(quoted) >= 10
    assert [one for one in quoted if one not in told] == []


def test_the_table_of_all_claims_is_what_the_command_prints(capsys):
    """Their p values adjusted for being so many."""
    assert main(["compare", "--claims", *(str(report.parent) for report in REPORTS)]) == 0
    assert capsys.readouterr().out.strip() in (RESULTS / "README.md").read_text(encoding="utf-8")
