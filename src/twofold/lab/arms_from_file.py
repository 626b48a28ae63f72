"""Arms of one's own: loaded from a Python file that the user names, and known in records by what makes them."""

import hashlib
import inspect
import json
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

from twofold.lab.arms import ARMS, OURS, Arm

# Of arms that were loaded from a file, what that file was.
LOADED: dict[str, str] = {}
# Packages of which a record tells the code or the version.
NAMED_IN_RECORDS = ("twofold", "torch", "transformers")


class _AsRead(SourceFileLoader):
    """Runs the text that it read at first, and never what an earlier one was compiled to."""

    @cached_property
    def text(self) -> bytes:
        return Path(self.path).read_bytes()

    def get_data(self, path: str) -> bytes:  # type: ignore[override]
        del path
        return self.text

    def path_stats(self, path: str) -> Mapping[str, Any]:  # type: ignore[override]
        raise OSError(f"{path} is not compiled beforehand")


def load_arms(path: Path) -> list[str]:
    """Run a Python file, and make every `Arm` in it known by its name to comparisons. Returns the names."""
    if not path.is_file():
        raise ValueError(f"{path} must be a Python file with arms in it")
    loader = _AsRead(f"arms_of_{path.stem}", str(path))
    module = module_from_spec(ModuleSpec(loader.name, loader, origin=str(path)))
    module.__file__ = str(path)
    # Where a class looks for the module that it is of.
    sys.modules[module.__name__] = module
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{path} could not be run: {type(error).__name__}: {error}") from error
    found = [one for one in vars(module).values() if isinstance(one, Arm) and ARMS.get(one.name) is not one]
    if not found:
        raise ValueError(
            f"{path} must have an Arm of its own by a name at its top, such as: mine = Arm(name='mine', ...)"
        )
    for arm in found:
        if ARMS.get(arm.name, arm) is not arm:
            raise ValueError(f"{path}: there is an arm {arm.name!r} already: choose another name")
        if not arm.name.isprintable() or not arm.name.strip() or ":" in arm.name:
            raise ValueError(f"{path}: name must be a line without a colon, got {arm.name!r}")
        ARMS[arm.name], LOADED[arm.name] = arm, hashlib.sha256(loader.text).hexdigest()
    return list(dict.fromkeys(arm.name for arm in found))


def is_own(arm: Arm) -> bool:
    """Whether a user defined the arm, so that the version of this package does not say what it is."""
    return all(arm is not one for one in OURS)


def digest_of_own(arms: Iterable[Arm]) -> str | None:
    """A short hash of what user-defined arms are made of; None where all arms are of this package.

    That is what an arm says of itself, the file that it was loaded from, and those its classes stand in.
    """
    own = sorted((arm for arm in arms if is_own(arm)), key=lambda arm: arm.name)
    made = [[arm.name, arm.can_match, dict(arm.fields), LOADED.get(arm.name), _classes(arm)] for arm in own]
    try:
        told = json.dumps(made, sort_keys=True)
    except TypeError as error:
        raise ValueError(
            f"fields of an arm must be what JSON can say, for they go into config.json: {error}"
        ) from error
    return hashlib.sha256(told.encode()).hexdigest()[:16] if made else None


def _classes(arm: Arm) -> list[list[str]]:
    """The classes that an arm is made of, and the code of those whose package a record does not tell of."""
    kinds = dict.fromkeys((*type(arm).__mro__, *arm.attention.__mro__))
    return [[kind.__module__, kind.__qualname__, _code_beside(arm, kind)] for kind in kinds]


def _code_beside(arm: Arm, kind: type) -> str:
    """A hash of the whole file that a class is defined in, for it may use anything there."""
    if kind.__module__.partition(".")[0] in (*NAMED_IN_RECORDS, *sys.stdlib_module_names):
        return ""
    try:
        return hashlib.sha256(Path(inspect.getfile(kind)).read_bytes()).hexdigest()
    except (OSError, TypeError) as error:
        raise ValueError(f"arm {arm.name!r} must stand in a file, so that runs can say what made them") from error
