"""Where a number was measured: versions, processor, commit. Part of every results file."""

import hashlib
import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import twofold


def machine(device: torch.device) -> dict[str, object]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "code": _code(),
        "twofold": twofold.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": version_of("triton"),
        "transformers": version_of("transformers"),
        "numpy": version_of("numpy"),
        "cudnn_frontend": version_of("nvidia-cudnn-frontend"),
        "system": platform.platform(terse=True),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "cudnn": torch.backends.cudnn.version() if device.type == "cuda" else None,
    }


def where(device: torch.device) -> dict[str, str]:
    """The field of a result that names the device."""
    return {"gpu": torch.cuda.get_device_name(device)} if device.type == "cuda" else {"cpu": "cpu"}


def version_of(package: str) -> str | None:
    """The installed version; None where the package is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


@cache
def _commit() -> str | None:
    """The commit this code was run from, with "+" if files differ from it; None outside a repository.

    TWOFOLD_COMMIT names it for a copy without its repository. Read once: what runs is the code as it was imported.
    """
    if name := os.environ.get("TWOFOLD_COMMIT"):
        return name
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)  # noqa: S603
        # Of the package alone: results and notes beside it are not code.
        status = [*git, "status", "--porcelain", "-uno", "--", "."]
        changes = subprocess.run(status, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.stdout.strip() + ("+" if changes.stdout.strip() else "")


@cache
def _code() -> str | None:
    """A short hash of the package's files: the same for commits that differ elsewhere, and for a copy. Read once."""
    digest, package = hashlib.sha256(), Path(__file__).parent
    # Hidden files are an editor's.
    files = [path for path in package.rglob("[!.]*") if path.suffix in (".py", ".json") and path.is_file()]
    for path in sorted(files):
        digest.update(f"{path.relative_to(package).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16] if files else None
