"""`twofold bench attention` as a user runs it, and the format of its rows."""

import json
import os
import subprocess
import sys

import pytest

import twofold
from twofold.cli import main
from twofold.kernels import choices

SMALL = ["bench", "attention", "--tokens", "32", "--heads", "2", "--head-width", "8", "--rounds", "2"]
FIELDS = {
    "bench": str,
    "cpu": str,
    "dtype": str,
    "kind": str,
    "B": int,
    "H": int,
    "Hkv": int,
    "T": int,
    "D": int,
    "causal": bool,
    "pass": str,
    "standard_ms": float,
    "standard_backend": str,
    "split_ms": float,
    "split_backend": str,
    "chosen": bool,
    "ratio": float,
    "spread": float,
    "peak_bytes": int,
}
EAGER = ("standard_eager_ms", "split_eager_ms", "eager_ratio", "eager_spread")


def test_writes_the_agreed_format(tmp_path, capsys):
    out = tmp_path / "rows.json"
    assert main([*SMALL, "--kinds", "split_key", "split_kv", "--kv-heads", "1", "--out", str(out)]) == 0
    results = json.loads(out.read_text())
    assert {"torch", "python", "commit", "cpu", "threads", "date"} <= set(results["machine"])
    assert {(row["kind"], row["causal"], row["pass"], row["split_backend"]) for row in results["rows"]} == {
        (kind, causal, passes, backend)
        for kind in ("split_key", "split_kv")
        for causal in (True, False)
        for passes in ("fwd", "fwd+bwd")
        for backend in ("shifted", "dense", "columns")
    }
    for row in results["rows"]:
        for field, kind in FIELDS.items():
            assert isinstance(row[field], kind), field
        assert all(isinstance(row[field], float) for field in EAGER)
        assert row["standard_ms"] > 0
        assert row["split_ms"] > 0
        assert row["peak_bytes"] > 0
    cases = {(row["kind"], row["causal"], row["pass"]) for row in results["rows"] if row["chosen"]}
    assert len(cases) == 8, "auto takes exactly one backend a case"
    said = capsys.readouterr()
    assert "split_kv" in said.out
    assert said.err == "twofold: flex left out: FlexAttention has gradients on GPUs only, got cpu\n"


def test_the_suite_holds_the_required_shapes(capsys):
    assert main(["bench", "attention", "--suite", "--explain", "--json", "--kinds", "split_kv"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["T"], row["D"]) for row in rows} == {
        *((T, 64) for T in (256, 512, 1024)),
        *((T, 128) for T in (2048, 4096, 8192, 16384)),
    }
    assert all(row["B"] * row["T"] == 16384 for row in rows)
    for T in {row["T"] for row in rows}:
        assert {row["H"] // row["Hkv"] for row in rows if row["T"] == T} == {1, 4}
        assert {row["causal"] for row in rows if row["T"] == T} == {True, False}


def test_json_is_all_that_is_printed(capsys):
    assert main([*SMALL, "--patterns", "causal", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["causal"] is True


def test_explain_measures_nothing_and_gives_the_reason(capsys):
    assert main(["bench", "attention", "--tokens", "100000", "--patterns", "causal", "--explain"]) == 0
    assert "split_kv causal T=100000 float32 -> shifted: the fastest where it was measured" in capsys.readouterr().out
    assert main([*SMALL, "--patterns", "full", "--explain", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["T"] == 32
    assert ": " in row["choice"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sing"], "unknown verb 'sing'; there are: demo, train"),
        (["bench", "sing"], "unknown bench 'sing'; there are: attention"),
        (["bench", "attention", "--tokens", "many"], "Error parsing --tokens"),
        (["bench", "attention", "--heads", "0"], "heads must be at least 1, got 0"),
        (["bench", "attention", "--tokens", "0"], "tokens must be at least 1, got"),
        (["bench", "attention", "--kv-heads", "3"], "kv-heads must divide heads 8, got 3"),
        (["bench", "attention", "--speed"], "there is no option --speed"),
        (["bench", "attention", "--dtype", "int4"], "invalid choice 'int4'"),
        (["bench", "attention", "--out", "no/such/folder/x.json"], "out must be a file in an existing folder"),
    ],
)
def test_mistakes_get_one_line_and_a_code(words, message, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("twofold: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--help"], "usage: twofold VERB"),
        (["bench", "--help"], "usage: twofold bench"),
        (["bench", "attention", "--help"], "usage: twofold bench attention"),
        (["--version"], f"twofold {twofold.__version__}"),
    ],
)
def test_help_and_version(words, said, capsys):
    assert main(words) == 0
    assert capsys.readouterr().out.startswith(said)


@pytest.mark.parametrize("words", [[], ["train"], ["compare"], ["bench"]])
def test_help_of_our_own_fits_a_terminal(words, capsys):
    assert main([*words, "--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_no_words_show_the_help_and_fail(capsys):
    assert main([]) == 2
    assert "usage: twofold VERB" in capsys.readouterr().out


def test_python_dash_m():
    done = subprocess.run([sys.executable, "-m", "twofold", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "twofold 0.1.0\n")


def test_a_reader_that_leaves_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "twofold", "--help"], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_full_disk_gets_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "twofold", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (2, "twofold: standard output: No space left on device\n")


TINY = ["--heads", "2", "--head-width", "8", "--rounds", "2", "--json"]
SPEEDS = {"standard_tokens_per_s": float, "split_tokens_per_s": float, "parameters": int, "standard_parameters": int}


def rows_of(words, capsys):
    assert main(["bench", *words, *TINY]) == 0
    return json.loads(capsys.readouterr().out)["rows"]


@pytest.mark.needs("g++")
def test_layer_compares_equal_parameters(capsys):
    (row,) = rows_of(["layer", "--tokens", "32", "--patterns", "causal"], capsys)
    for field, kind in FIELDS.items():
        assert isinstance(row[field], kind), field
    assert (row["bench"], row["parameters"]) == ("layer", row["standard_parameters"])
    assert row["feed_forward"] == row["standard_feed_forward"] - 16


@pytest.mark.needs("g++")
def test_training_counts_tokens_a_second(capsys):
    words = ["training", "--tokens", "16", "--batch", "2", "--layers", "1", "--vocabulary", "30"]
    (row,) = rows_of(words, capsys)
    assert all(isinstance(row[field], kind) for field, kind in SPEEDS.items())
    assert row["parameters"] == row["standard_parameters"]
    # The median of ratios is not the ratio of medians, least of all on a busy machine.
    assert 0.2 < row["ratio"] / (row["split_tokens_per_s"] / row["standard_tokens_per_s"]) < 5


def test_eager_training_compiles_nothing(monkeypatch, capsys):
    monkeypatch.setattr("torch.compile", None)
    words = ["training", "--tokens", "16", "--batch", "2", "--layers", "1", "--vocabulary", "30", "--eager"]
    (row,) = rows_of(words, capsys)
    assert row["eager"] is True
    assert row["ratio"] > 0


@pytest.mark.needs("g++")
def test_decode_uses_one_cache_for_both(capsys):
    words = ["decode", "--context", "16", "--layers", "1", "--vocabulary", "30", "--batch", "3"]
    (row,) = rows_of(words, capsys)
    assert (row["B"], row["context"]) == (3, 16)
    assert all(isinstance(row[field], kind) for field, kind in SPEEDS.items())
    assert row["cache_bytes"] == 2 * row["B"] * 2 * 17 * 8 * 4


def test_tune_writes_a_table_that_auto_takes(tmp_path, monkeypatch, capsys):
    table = tmp_path / "choices.json"
    assert main([*SMALL, "--tune", str(table)]) == 0
    lines = [line for line in choices.read(table) if line.head_width == 8]
    assert {line.causal for line in lines} == {True, False}
    assert all(line.tokens == (32,) for line in lines)
    monkeypatch.setattr(choices, "LINES", lines)
    capsys.readouterr()
    assert main([*SMALL, "--explain"]) == 0
    assert "(cpu, float32, D = 8, from T = 32 on)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["layer", "--tokens", "0"], "tokens must be at least 1, got 0"),
        (["training", "--tokens", "1"], "tokens and vocabulary must be at least 2, got 1 and 32768"),
        (["decode", "--context", "0"], "context must be at least 1, got 0"),
        (["decode", "--heads", "3", "--kv-heads", "2"], "kv-heads must divide heads 3, got 2"),
        (["attention", "--tune", "missing/choices.json"], "tune must be a file in an existing folder"),
        (["attention", "--out", "/"], "out must be a file in an existing folder, got /"),
        (["training", "--dtype", "float64"], "dtype must be float32 or, for mixed precision, bfloat16, got float64"),
        (["attention", "--tune", "choices.json", "--kinds", "split_key"], "kinds must hold split_kv"),
        (["attention", "--explain", "--out", "rows.json"], "out must be left out beside --explain"),
        (["attention", "--explain", "--tune", "choices.json"], "tune must be left out beside --explain"),
        (["layr"], "unknown bench 'layr'; there are: attention, layer, training, decode"),
    ],
)
def test_mistakes_in_any_bench_are_one_line(words, what, capsys):
    assert main(["bench", *words]) == 2
    assert what in capsys.readouterr().err


def test_what_was_measured_before_a_failure_is_kept(tmp_path, monkeypatch, capsys):
    def rows_of(case, **_):
        if case.tokens == 64:
            raise ArithmeticError("off")
        yield {"T": case.tokens}

    monkeypatch.setattr("twofold.cli.bench.attention.rows_of", rows_of)
    out = tmp_path / "rows.json"
    assert main(["bench", "attention", "--tokens", "32", "64", "--patterns", "full", "--out", str(out)]) == 2
    assert capsys.readouterr().err == "twofold: off\n"
    assert [row["T"] for row in json.loads(out.read_text())["rows"]] == [32]


@pytest.mark.parametrize("bench", ["attention", "layer", "training", "decode"])
def test_every_bench_explains_itself(bench, capsys):
    assert main(["bench", bench, "--help"]) == 0
    assert "--dtype" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--kinds", "--patterns"])
def test_nothing_to_measure_is_a_mistake(option, capsys):
    assert main([*SMALL, option]) == 2
    assert f"{option[2:]} must name at least one, got none" in capsys.readouterr().err
