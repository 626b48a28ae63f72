"""Rules of the house that a linter does not know."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
class TestEverySource:
    def test_pickles_nothing(self, path):
        assert not re.search(r"\bpickle\b|torch\.load\(|torch\.save\(|(?<![.\w])(eval|exec)\(", path.read_text())

    def test_is_one_idea_long(self, path):
        assert len(path.read_text().splitlines()) <= 400


def test_data_flows_one_way():
    """The contracts of pyproject.toml, as import-linter reads them."""
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_version_is_said_once():
    import twofold

    assert f'version = "{twofold.__version__}"' in (ROOT / "pyproject.toml").read_text()
