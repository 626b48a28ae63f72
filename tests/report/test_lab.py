"""The report of a comparison: right, whole, and well-formed whatever is missing."""

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.lab.made_up import ARMS, plan, record, records
from twofold.lab.records import append
from twofold.lab.registration import register
from twofold.lab.verdict import Word
from twofold.report.lab.page import lab_page, write_report
from twofold.report.lab.study import read_study
from twofold.report.lab.tables import tables

HOSTILE = "</title><script>alert('1')</script>|&\"' Ἀθῆναι *"


def filled(folder, plan, records):
    register(plan, folder)
    path = folder / "registration.json"
    path.write_text(re.sub(r'"registered": "[^"]*"', '"registered": "2026-11-01T00:00:00+00:00"', path.read_text()))
    for one in records:
        append(folder / "records.jsonl", one)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = filled(tmp_path_factory.mktemp("whole"), plan(), records(plan()))
    write_report(folder, read_study(folder))
    return folder


def rows(folder):
    return {table.title: {row[0]: row[1:] for row in table.rows} for table in tables(read_study(folder))}


def test_writes_a_page_a_text_and_pictures(whole):
    written = sorted(str(path.relative_to(whole)) for path in whole.rglob("*") if path.is_file())
    assert {"report.html", "report.md", "figures/gap.svg", "figures/rates-20000000.svg"} <= set(written)
    text = (whole / "report.md").read_text(encoding="utf-8")
    for name in re.findall(r"\]\((figures/[^)]*)\)", text):
        picture = ElementTree.parse(whole / name).getroot()  # noqa: S314 (our own)
        assert picture.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(picture)) > 1
    assert text.count("](figures/") == len([name for name in written if name.endswith(".svg")]) == 11


def test_begins_with_the_verdict_and_whether_the_plan_was_followed(whole):
    page, text = ((whole / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    study = read_study(whole)
    assert [said.word for said in study.headlines] == ["better", "better"]
    assert study.headlines[0].sentence.removeprefix("better") in page
    assert text.index("**better**: split\\_kv matched ends 0.0290 below standard") < text.index("followed.")
    assert "The plan was registered before the first run, and followed." in page
    assert study.registration.sha256 in page
    assert study.registration.sha256 in text


def test_tables_say_what_the_numbers_are(whole):
    found = rows(whole)
    assert found["Differences"]["split_kv matched − standard"][:2] == ("better", "8")
    assert found["Differences"]["split_kv matched − standard"][4:7] == ("-0.0325 to -0.0255", "0.00781", "0.0156")
    # Exploratory: a p of its own, and none after Holm.
    assert found["Differences"]["exclusive − standard"][0] == "exploratory"
    assert found["Differences"]["exclusive − standard"][6] == "–"
    assert found["Cost"]["exclusive"] == ("10,000,000", "952.4k", "21", "105 %", "3.00")
    assert found["Where the arms ended"]["standard"][:2] == ("0.001", "8")
    assert found["Stability"]["standard"] == ("0.004", "0 of 24", "0", "4.00")
    assert found["Environment"]["gpu"] == ("NVIDIA H200",)
    assert found["The shortest schedule to the rival's end"]["split_kv matched − standard"][1] == "17.3M"


def test_runs_from_before_the_registration_of_a_folder_are_not_judged(tmp_path):
    folder = filled(tmp_path, plan(), records(plan()))
    assert read_study(folder).verdicts[0].word is Word.BETTER
    told = json.loads((folder / "registration.json").read_text(encoding="utf-8"))
    told["registered"] = "2026-11-21T00:00:00+00:00"
    (folder / "registration.json").write_text(json.dumps(told), encoding="utf-8")
    assert "runs began before the plan was registered" in read_study(folder).verdicts[0].sentence


def test_rates_that_were_chosen_on_shorter_runs_are_told(tmp_path, whole):
    shorter = plan(grid_budgets=(5_000_000,), grid_reason="the best rate is the same at both")
    about = {table.title: table.about for table in tables(read_study(filled(tmp_path, shorter, records(shorter))))}
    assert "of the grid, which was run for 5M tokens." in about["Where the arms ended"]
    assert "which was run for" not in (whole / "report.md").read_text(encoding="utf-8")


def test_lengths_beyond_training_are_compared_with_the_baseline(tmp_path):
    asked = plan(arms=ARMS[:2], primary=((ARMS[1], ARMS[0]),))
    lag = {ARMS[0]: 0.0, ARMS[1]: -0.25}
    runs = [
        replace(one, beyond=((2, 3.0 + one.seed / 8 + lag[one.arm]), (4, 5.0))) if one.phase == "final" else one
        for one in records(asked)
    ]
    [table] = [one for one in tables(read_study(filled(tmp_path, asked, runs))) if one.title.startswith("Beyond")]
    assert [row[:4] for row in table.rows if row[1] == "2 x"] == [
        (ARMS[0], "2 x", "8", "3.4375"),
        (ARMS[1], "2 x", "8", "3.1875"),
    ]
    assert [row[4] for row in table.rows] == ["–", "–", "-0.250", "0.00"]


def test_the_page_loads_nothing_and_shows_all(whole):
    page = (whole / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|<script|<link|<img", page)
    for title in ("Differences", "Learning rates", "Cost", "Stability", "Self weights", "Environment", "The plan"):
        assert f"<h2>{title}</h2>" in page
    assert "Self weight by layer, standard (uniform: 0.01)" in page


def test_departures_and_torn_lines_are_told(tmp_path):
    filled(tmp_path, plan(), records(plan())[:-3])
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write('{"experiment": ')
    write_report(tmp_path, read_study(tmp_path))
    page, text = ((tmp_path / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    for said in (page, text):
        assert "not judged" in said
        assert "3 of 144 runs are missing" in said
        assert "its writer did not finish it" in said
        assert "Not, or not yet, as planned:" in said


def bare(arm, seed, **changes):
    told = {"curve": (), "environment": {}, "peak_memory": None, "gradient_tail": None, "self_weights": ()}
    return record(arm, seed, budget=1000, **told | changes)


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [bare("standard", 0)],
        [bare(arm, 0) for arm in ARMS],
        [bare(arm, seed, value=None) for arm in ARMS for seed in (0, 1)],
        [bare(arm, seed, curve=[(1000, 1.0, 2.0)]) for arm in ARMS for seed in (0, 1)],
        [replace(bare(arm, 0), phase="grid", value=None) for arm in ARMS],
    ],
    ids=["none", "one", "a pair", "diverged", "one look", "a grid that diverged"],
)
def test_whatever_is_missing_there_is_a_report(tmp_path, runs):
    small = plan(seeds=(0, 1), lrs=(1e-3,), budgets=(1000,), exploratory=True)
    written = write_report(tmp_path, read_study(filled(tmp_path, small, runs)))
    page = written[0].read_text(encoding="utf-8")
    assert "nan" not in page.lower()
    assert re.search(r"<span class=\"word\">(not judged|exploratory)</span>", page)


def test_a_grid_alone_shows_its_rates(tmp_path):
    grid = [one for one in records(plan()) if one.phase == "grid"]
    page = write_report(tmp_path, read_study(filled(tmp_path, plan(), grid)))[0].read_text(encoding="utf-8")
    assert page.count("<h3>Learning rates, ") == 3
    assert "<h2>Learning rates</h2>" in page
    assert "<h2>Self weights</h2>" not in page


def test_without_primary_comparisons_all_are_headlines(tmp_path):
    small = plan(seeds=(0, 1), budgets=(1000,), primary=(), exploratory=True)
    study = read_study(filled(tmp_path, small, [bare(arm, seed) for arm in ARMS for seed in (0, 1)]))
    assert [said.word for said in study.headlines] == ["exploratory", "exploratory"]


def test_more_seeds_than_an_exact_test_takes_have_a_report(tmp_path):
    many = plan(seeds=tuple(range(25)), budgets=(1000,), primary=(), exploratory=True)
    folder = filled(tmp_path, many, [bare(arm, seed) for arm in ARMS for seed in range(25)])
    assert write_report(folder, read_study(folder))
    assert rows(folder)["Differences"]["exclusive − standard"][:2] == ("exploratory", "25")


def test_no_name_becomes_markup(tmp_path):
    names = ("standard", HOSTILE)
    words = {"question": HOSTILE, "data": HOSTILE, "analysis": HOSTILE}
    odd = plan(arms=names, primary=((HOSTILE, "standard"),), seeds=(0, 1), exploratory=True, **words)
    runs = [
        replace(one, arm=name, environment={HOSTILE: HOSTILE})
        for name in names
        for one in (record(seed=0), record(seed=1), record(seed=0, phase="grid"))
    ]
    folder = filled(tmp_path, odd, runs)
    paths = write_report(folder, read_study(folder))
    for path in paths:
        assert "<script" not in path.read_text(encoding="utf-8").replace("\\<script", "")
    assert r"\|&" in paths[1].read_text(encoding="utf-8")


def test_higher_may_be_better(tmp_path):
    turned = [
        replace(one, value=-one.value, curve=[point._replace(value=-point.value) for point in one.curve])
        for one in records(plan())
    ]
    study = read_study(filled(tmp_path, plan(lower_is_better=False), turned))
    assert [said.word for said in study.headlines] == ["better", "better"]
    assert study.departures == []
    assert "above zero is a gain" in lab_page(study, tables(study), [])
