"""What `twofold --print-completion bash` prints makes bash complete, as it is asked to at a key."""

import contextlib
import io
import shutil
import subprocess

import pytest

from twofold.cli import VERBS, main
from twofold.tasks import TASKS

# Asks the function that the script registered, as bash does.
ASK = """
source "$1"; shift
function=$(complete -p twofold | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
"$function" twofold "${@: -1}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):

    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        assert main(["--print-completion", "bash"]) == 0
    path = tmp_path_factory.mktemp("completion") / "twofold.bash"
    path.write_text(written.getvalue(), encoding="utf-8")
    return path


@pytest.fixture
def complete(printed, tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")

    def ask(*words):
        command = [bash, "--norc", "-c", ASK, "bash", str(printed), "twofold", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert done.stderr == ""
        return set(done.stdout.split("\n")) - {""}

    return ask


def test_verbs(complete):
    assert set(VERBS) <= complete("")
    assert complete("eva") == {"evaluate"}
    assert complete("nothing") == set()


def test_tasks_and_their_options(complete):
    assert set(TASKS) <= complete("train", "")
    assert complete("train", "goals", "--att") == {"--attention", "--attention-dropout"}
    assert complete("train", "goals", "--attention", "split_k") == {"split_key", "split_kv"}
    assert complete("train", "translation", "--bea") == {"--beams"}
    assert complete("train", "goals", "--bea") == set()
    assert complete("bench", "dec") == {"decode"}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_options(complete, verb):
    """Also those that come after this test: a verb's dataclass is called as the verb is."""
    after = {"train": ["train", "goals"], "bench": ["bench", "attention"]}.get(verb, [verb])
    assert {"--help", "--json"} <= complete(*after, "--")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(shell, capsys):
    assert main(["--print-completion", shell]) == 0
    said = capsys.readouterr().out
    assert "split_kv" in said
    assert "twofold" in said


@pytest.mark.parametrize("words", [[], ["tcsh"], ["bash", "zsh"]])
def test_shells_that_are_not_known(words, capsys):
    assert main(["--print-completion", *words]) == 2
    said = capsys.readouterr().err
    assert f"--print-completion must be followed by one of bash, zsh, fish, got {' '.join(words)!r}" in said
