"""Training that survives: one loop for every task, safe checkpoints, one process or many.

`fit` trains a model on features and knows nothing of tasks, text or the command line. Names are imported on first use,
so that a command can read `Settings` for its help without importing torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twofold.training.distribution import is_main_process as is_main_process
    from twofold.training.distribution import leave as leave
    from twofold.training.folder import is_finished as is_finished
    from twofold.training.folder import prepare_folder as prepare_folder
    from twofold.training.folder import read_metrics as read_metrics
    from twofold.training.loop import Outcome as Outcome
    from twofold.training.loop import fit as fit
    from twofold.training.packing import packed as packed
    from twofold.training.progress import Bar as Bar
    from twofold.training.progress import Progress as Progress
    from twofold.training.progress import Step as Step
    from twofold.training.settings import Settings as Settings
    from twofold.training.stopping import Diverged as Diverged
    from twofold.training.stopping import Stopped as Stopped

_HOMES = {
    "Bar": "progress",
    "Outcome": "loop",
    "Progress": "progress",
    "Settings": "settings",
    "Step": "progress",
    "Diverged": "stopping",
    "Stopped": "stopping",
    "fit": "loop",
    "is_finished": "folder",
    "is_main_process": "distribution",
    "leave": "distribution",
    "packed": "packing",
    "prepare_folder": "folder",
    "read_metrics": "folder",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'twofold.training' has no attribute {name!r}")
    value = getattr(import_module(f"twofold.training.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
