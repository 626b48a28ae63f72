"""What tests share: one thread a worker, NaN in unwritten memory for those that ask, a list of what was skipped."""

import math
import os
import shutil

import pytest
import torch

# Triton reads this when its kernels are defined: without a GPU they run in its interpreter.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


def pytest_configure(config):
    # Two workers on two cores: more threads would only wait for each other.
    torch.set_num_threads(1)


def pytest_collection_modifyitems(config, items):
    left_out = set() if torch.cuda.is_available() else {"gpu"}
    if not config.option.markexpr and not any("::" in argument for argument in config.args):
        left_out.add("long")
    deselected = [item for item in items if any(map(item.get_closest_marker, left_out))]
    items[:] = [item for item in items if item not in deselected]
    config.hook.pytest_deselected(items=deselected)


def pytest_runtest_setup(item):
    for marker in item.iter_markers("needs"):
        program = marker.args[0]
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (make system installs it)")


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section("SKIPPED: these tests did not run", red=True)
        for report in skipped:
            terminalreporter.write_line(f"{report.nodeid}: {report.longrepr[-1]}")


def pytest_sessionfinish(session, exitstatus):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and exitstatus == 0 and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture
def poisoned(monkeypatch):
    """Memory that nobody has written holds NaN, so that a forgotten store shows at once."""
    # At the first call inside a device's context torch notes which functions make tensors, for good. They must be its
    # own: with ours, `torch.device("meta")` would make real weights in every later test of this process.
    with torch.device("cpu"):
        torch.empty(0)

    def poison(maker):
        def made(*args, **kwargs):
            tensor = maker(*args, **kwargs)
            return tensor.fill_(math.nan) if tensor.is_floating_point() else tensor

        return made

    for owner, name in (
        (torch, "empty"),
        (torch, "empty_like"),
        (torch, "empty_strided"),
        (torch.Tensor, "new_empty"),
    ):
        monkeypatch.setattr(owner, name, poison(getattr(owner, name)))
