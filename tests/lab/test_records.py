"""A file of records: what it takes, what it refuses, and what a killed or crowded writer leaves."""

import json
import math
import multiprocessing
import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.made_up import record
from twofold.lab.records import Key, Point, Record, append, read_records

NUMBER = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results" / "records.jsonl"


def test_what_is_written_is_read(path):
    one, other = record(), record(seed=1, arm="exclusive", value=None, environment={"gpu": "Ἀθῆναι 😀"})
    assert append(path, one)
    assert append(path, other)
    assert read_records(path) == [one, other]
    assert read_records(path)[0].curve[0] == Point(*one.curve[0])
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert list(lines[0])[:6] == ["experiment", "phase", "arm", "seed", "lr", "budget"]
    assert lines[1]["value"] is None


@given(value=NUMBER, lr=st.floats(1e-12, 10), seed=st.integers(0), name=st.text(min_size=1), curve=st.lists(NUMBER))
def test_json_and_back(value, lr, seed, name, curve):
    points = [Point(place, place / 2, one) for place, one in enumerate([*curve, value])]
    one = record(value=value, lr=lr, seed=3, curve=points)
    one = replace(one, seed=seed, arm=name, environment={name: value})
    assert Record.from_json(json.loads(json.dumps(one.as_json()))) == one


def test_what_is_not_known_is_left_out(path):
    bare = record(peak_memory=None, gradient_tail=None, self_weights=(), uniform_self_weight=None, environment={})
    append(path, bare)
    told = json.loads(path.read_text())
    names = "experiment phase arm seed lr budget parameters metric value tokens seconds curve"
    assert list(told) == names.split()
    assert read_records(path) == [bare]


def test_no_file_has_no_records(path):
    assert read_records(path) == []


def test_a_run_is_kept_once(path):
    first = record(value=1.0)
    assert append(path, first)
    assert not append(path, record(value=2.0))
    assert append(path, record(value=2.0, budget=7))
    assert read_records(path)[0] == first
    assert first.key == Key("made up", "final", "standard", 0, 1e-3, 20_000_000)


def test_who_began_first_has_fixed_the_data(path):
    """Two that began at once, each with its own: the second run is not written, and the first can go on."""
    first = record(seed=1, environment={"data": "one"})
    assert append(path, first)
    with pytest.raises(ValueError, match=r"has runs on other data \(one\), got two: this run is not added"):
        append(path, record(seed=2, environment={"data": "two"}))
    assert append(path, record(seed=2, environment={"data": "one"}))
    assert [one.seed for one in read_records(path)] == [1, 2]


def test_who_ended_first_has_fixed_the_version_of_own_arms(path):
    assert append(path, record(seed=1, environment={"own_arms": "one"}))
    with pytest.raises(
        ValueError, match=r"of another version of your own arms \(one\), got two: this run is not added"
    ):
        append(path, record(seed=2, environment={"own_arms": "two"}))
    assert append(path, record(seed=2, environment={"own_arms": "one"}))


def test_half_a_surrogate_pair_names_its_line(path):
    append(path, record())
    path.write_text(path.read_text().replace('"standard"', '"\\ud800"'))
    with pytest.raises(ValueError, match=r"records\.jsonl:1: 'utf-8' codec can't encode"):
        read_records(path)


@pytest.mark.parametrize("cut", [1, 2, 40, 200])
def test_a_torn_line_is_passed_over_and_cut_off(path, cut):
    append(path, record())
    append(path, record(seed=1))
    os.truncate(path, path.stat().st_size - cut)
    notes = []
    assert read_records(path, notes.append) == [record()]
    assert notes == [f"{path}:2: passed over, its writer did not finish it"]
    assert append(path, record(seed=2))
    assert read_records(path, pytest.fail) == [record(), record(seed=2)]


def test_a_full_disk_leaves_whole_lines(path, monkeypatch):
    append(path, record())
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda handle, text: write(handle, text[:50]))
        with pytest.raises(OSError, match="only a part of a record"):
            append(path, record(seed=1))
    assert read_records(path, pytest.fail) == [record()]


def _append_many(path, arm):
    for seed in range(20):
        append(path, record(arm, seed, curve=[Point(tokens, 1.0 + tokens, 2.0) for tokens in range(200)]))


def test_processes_append_side_by_side(path):
    processes = [
        multiprocessing.get_context("fork").Process(target=_append_many, args=(path, arm))
        for arm in ("standard", "exclusive", "standard")
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    found = read_records(path, pytest.fail)
    # What two of them did alike is there once.
    assert len(found) == 40
    assert {one.key for one in found} == {
        record(arm, seed).key for arm in ("standard", "exclusive") for seed in range(20)
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{}", "field 'experiment' is missing"),
        (b"[]", r"a record must be a table of fields, got \[\]"),
        (b"{", "Expecting property name"),
        (b"\xff", "can't decode byte"),
        (b"", "Expecting value"),
        (
            json.dumps(record(seed=1).as_json() | {"seconds": 10**400}).encode(),
            "seconds must be a number above 0, got 1000",
        ),
    ],
)
def test_another_line_is_an_error_with_its_place(path, line, said):
    append(path, record())
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(ValueError, match=rf"records.jsonl:2: .*{said}"):
        read_records(path)


def test_a_run_is_written_beside_whatever_is_there(path):
    path.parent.mkdir()
    path.write_bytes(b"not a record\n")
    assert append(path, record())
    assert not append(path, record())
    assert len(path.read_bytes().splitlines()) == 2


def test_the_same_run_twice_is_an_error(path):
    append(path, record())
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(ValueError, match=r"records.jsonl:2: the same run as line 1: \('made up', 'final', 'standard'"):
        read_records(path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"phase": "middle"}, "phase must be"),
        ({"experiment": ""}, "experiment must be"),
        ({"metric": 3}, "metric must be"),
        ({"seed": -1}, "seed must be"),
        ({"seed": True}, "seed must be"),
        ({"tokens": 1.5}, "tokens must be"),
        ({"budget": 0}, "budget must be"),
        ({"lr": 0.0}, "lr must be"),
        ({"seconds": math.inf}, "seconds must be"),
        ({"value": math.nan}, "value must be"),
        ({"value": "2"}, "value must be"),
        ({"test": math.inf}, "test must be"),
        ({"environment": []}, "environment must be"),
        ({"curve": 3}, "curve must be"),
        ({"curve": [[1, 2]]}, "curve must be"),
        ({"curve": [[1, 2, None]]}, "curve must be"),
        ({"curve": [[2, 1, 1], [2, 1, 1]]}, "curve must be"),
        ({"curve": [[1, 2, 1], [2, 1, 1]]}, "curve must be"),
        ({"curve": [[1, -2, 1]]}, "curve must be"),
        ({"curve": [[1, 2, 3]], "value": 0.5}, "curve must be"),
        ({"value": 10**400}, "value must be"),
        ({"tokens": 10**400}, "tokens must be"),
        ({"self_weights": [[1, [0.1]], [2, [0.1, 0.2]]]}, "self_weights must be"),
        ({"self_weights": [[1, []]]}, "self_weights must be"),
        ({"more": 1}, "unknown field 'more'"),
    ],
)
def test_what_is_no_record_is_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        Record.from_json(record().as_json() | changes)
