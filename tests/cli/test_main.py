"""The command as a process: its streams, its folder, its errors of one line."""

import os
import subprocess
import sys

import pytest

from twofold.cli import main, standard_input, warn
from twofold.cli.arguments import parse
from twofold.cli.predict import Predict
from twofold.cli.processes import Pool

LONG = "x" * 100_000


def run(command, **options):
    """A command of a shell, in which $T is twofold."""
    environment = os.environ | {"T": f"{sys.executable} -P -m twofold"}
    return subprocess.run(command, shell=True, capture_output=True, text=True, env=environment, check=False, **options)  # noqa: S602


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("$T --version > /dev/full", "standard output: No space left on device"),
        ("$T predict --help > /dev/full", "standard output: No space left on device"),
        ("$T --version >&-", "standard output is closed"),
        ("mkdir gone && cd gone && rmdir ../gone && $T --version", "the working folder is gone"),
    ],
)
def test_what_cannot_be_written_to_is_named_in_one_line(command, names, tmp_path):
    done = run(command, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"twofold: {names}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_an_error_that_nobody_can_be_told_is_an_exit_code(where):
    done = run(f"$T nothing {where}")
    assert (done.returncode, done.stdout) == (2, "")


def test_what_reads_the_output_may_leave():
    assert run("$T --help | true").stderr == ""


def test_no_file_gets_the_number_of_a_closed_stream():
    """Or what a library says on standard error would be written into it."""
    code = "import sys; from twofold.cli import main; main(['--version']); sys.exit(open('/dev/null').fileno() < 3)"
    assert run(f'{sys.executable} -c "{code}" <&- 2>&-').returncode == 0


def test_a_closed_standard_input_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="standard input is closed"):
        standard_input()


def test_a_closed_standard_error_is_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    warn("nobody hears this")


class PanicException(BaseException):
    pass


def test_a_panic_is_one_line(monkeypatch, capsys):
    def panic(words):
        raise PanicException("index out of bounds\n" * 1000)

    monkeypatch.setattr("twofold.cli.evaluate.run", panic)
    assert main(["evaluate"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("twofold: PanicException: index out of bounds ")
    assert said.count("\n") == 1
    assert len(said) < 400


@pytest.mark.parametrize(
    "words",
    [
        [LONG],
        ["train", LONG],
        ["train", "goals", f"--{LONG}", "1"],
        ["train", "goals", "--epochs", LONG],
        ["train", "goals", f"--epochs={LONG}"],
        ["train", "goals", *["word"] * 20_000],
        ["predict", LONG, "hello"],
        ["predict", "x" * 4_000, "hello"],
        ["predict", "run", "--device", LONG],
    ],
)
def test_long_words_are_not_repeated_whole(words, capsys):
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("twofold: ")
    assert len(said) <= 2100
    assert "x" * 300 not in said


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("--lr", "--learning-rate"),
        ("-lr", "--learning-rate"),
        ("--lr=3", "--learning-rate"),
        ("--learn", "--learning-rate"),
        ("--learnin-rate", "--learning-rate"),
        ("--no-jsn", "--no-json"),
        ("--atention", "--attention"),
    ],
)
def test_an_option_of_nearly_that_name_is_proposed(word, meant, capsys):
    assert main(["train", "goals", word, "3"]) == 2
    assert f"there is no option {word.partition('=')[0]}; did you mean {meant}? (see" in capsys.readouterr().err


def test_where_no_option_is_like_it_none_is_proposed(capsys):
    assert main(["train", "goals", "--qqqq", "3"]) == 2
    assert "there is no option --qqqq (see twofold train goals --help)" in capsys.readouterr().err


def test_texts_may_look_like_options():
    assert parse(Predict, ["run", "--", "--lr", LONG], "twofold predict").text == ["--lr", LONG]
    with pytest.raises(ValueError, match="invalid choice 'gpu'"):
        parse(Predict, ["run", "--device", "gpu", "--", "--lr"], "twofold predict")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "goals", "--learning-rate", "1e300"], "twofold: learning_rate must be a number above 0 and at most"),
        (["train", "goals", "--weight-decay", "inf"], "twofold: weight_decay must be a number from 0 to"),
        (["generate", "run", "--prompt", "a", "--temperature", "1e300"], "twofold: temperature must be a number from"),
        (["generate", "run", "--prompt", "a", "--beams", "1000000"], "twofold: beams must be a whole number from 1 to"),
    ],
)
def test_numbers_that_would_overflow_are_refused_before_anything_begins(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(message)
    assert not list(tmp_path.iterdir())


def test_processes_import_nothing_of_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "random.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    pool = Pool()
    process = pool.launch(["--version"], {})
    assert process.wait() == 0
    pool.end()
