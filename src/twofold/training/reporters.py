"""Curves for other programs: TensorBoard and trackio, if they are installed."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from twofold.training.settings import Settings

Numbers = Mapping[str, float]


class Reporter(NamedTuple):
    log: Callable[[Numbers, int], None]
    close: Callable[[], None]


def reporter(settings: Settings, folder: Path, step: int) -> Reporter:
    """Where the numbers go; `step` is the one that a resumed run goes on from."""
    match settings.report_to:
        case "tensorboard":
            return _tensorboard(folder, step)
        case "trackio":
            return _trackio(settings, folder)
        case _:
            return Reporter(log=lambda numbers, step: None, close=lambda: None)


def _tensorboard(folder: Path, step: int) -> Reporter:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError as error:
        raise _missing("tensorboard") from error
    # What an earlier life wrote after its last checkpoint is hidden by what comes.
    writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def log(numbers: Numbers, step: int) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)

    return Reporter(log, writer.close)


def _trackio(settings: Settings, folder: Path) -> Reporter:
    try:
        import trackio  # type: ignore[import-not-found]
    except ModuleNotFoundError as error:
        raise _missing("trackio") from error
    run: Any = trackio.init(project="twofold", name=folder.name, config=settings.as_json(), resume="allow")
    return Reporter(lambda numbers, step: run.log(dict(numbers), step=step), run.finish)


def _missing(name: str) -> ValueError:
    return ValueError(
        f"report_to {name} needs {name}, which is not installed: pip install '.[{name}]' in Twofold's sources"
    )
