"""Curves for other programs: TensorBoard and trackio, if they are installed."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from twofold.training.settings import Settings

Numbers = Mapping[str, float]
MODULES = {"tensorboard": "torch.utils.tensorboard", "trackio": "trackio"}


class Reporter(NamedTuple):
    log: Callable[[Numbers, int], None]
    close: Callable[[], None]


def reporter(settings: Settings, folder: Path, step: int) -> Reporter:
    """Where the numbers go besides metrics.jsonl; a resumed run goes on from `step`."""
    check_reporter(settings)
    match settings.report_to:
        case "tensorboard":
            return _tensorboard(folder, step)
        case "trackio":
            return _trackio(settings, folder)
        case _:
            return Reporter(log=lambda numbers, step: None, close=lambda: None)


def check_reporter(settings: Settings) -> None:
    """Refuse one that is not installed."""
    name = settings.report_to
    if name not in MODULES:
        return
    try:
        import_module(MODULES[name])
    except ModuleNotFoundError as error:
        raise ValueError(
            f"report_to {name} needs {name}, which is not installed: pip install '.[{name}]' in Twofold's sources"
        ) from error


def _tensorboard(folder: Path, step: int) -> Reporter:
    from torch.utils.tensorboard import SummaryWriter

    # Hides what was written after the checkpoint that a resumed run goes on from.
    writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def log(numbers: Numbers, step: int) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)

    return Reporter(log, writer.close)


def _trackio(settings: Settings, folder: Path) -> Reporter:
    import trackio  # type: ignore[import-not-found]

    run: Any = trackio.init(project="twofold", name=folder.name, config=settings.as_json(), resume="allow")
    return Reporter(lambda numbers, step: run.log(dict(numbers), step=step), run.finish)
