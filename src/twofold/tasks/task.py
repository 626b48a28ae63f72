"""What a task is: examples in, a model, scores, and predictions as people and programs read them.

A task learns its tokenizer and labels from the training split, and keeps them as `state`, which is plain JSON. It knows
nothing of how a model is trained, nor of folders, unless it has files of its own to keep there.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from twofold.data.examples import Splits
from twofold.data.streaming import Streamed
from twofold.models.recurrent_config import RecurrentConfig
from twofold.tasks.options import ModelOptions
from twofold.tasks.tallies import Tally

Example = TypeVar("Example")
Features = dict[str, Any]
IGNORED = -100


class Task(ABC, Generic[Example]):
    name: ClassVar[str]
    metric: ClassVar[str]
    """The number by which models are compared, and, on the dev split, the best one of a training is kept."""
    kept_by: ClassVar[str | None] = None
    """Another number for the latter, where the metric is too coarse for it."""
    metrics: ClassVar[tuple[str, ...]]
    """What models can be compared by, of what `scores` gives; some need examples of a kind, out of scope for one."""
    lower: ClassVar[tuple[str, ...]] = ()
    """Those of which less is better."""
    model_class: ClassVar[type[PreTrainedModel]]
    recurrent_class: ClassVar[type[PreTrainedModel] | None] = None
    """The same of recurrent layers, where this task offers them."""
    reads_hub: ClassVar[bool] = False
    """Whether `examples` takes the address of a data set of the hub for `data`."""
    Choices: ClassVar[type[Any] | None] = None
    """What a user may choose about this task alone: a frozen dataclass of plain JSON values, each with a default.

    Where there is one, the command line offers its fields, `examples` and `prepared` take one as `choices`, and
    task.json keeps it.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, state: Mapping[str, Any]) -> None:
        self.tokenizer, self.state = tokenizer, dict(state)

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """Asked once: the tokenizer makes it anew every time."""
        return self.tokenizer.get_vocab()

    @classmethod
    @abstractmethod
    def examples(cls, data: Path | None, seed: int = 0) -> Splits[Example]:
        """From files, or the embedded set."""

    @classmethod
    @abstractmethod
    def prepared(cls, train: Sequence[Example]) -> Self:
        """With a tokenizer and labels learned from the training split."""

    @staticmethod
    def labels(example: Any) -> Iterable[str]:
        """Names that nothing can predict unless training has shown them."""
        del example
        return ()

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        """Where a run of this task departs from the defaults of training."""
        del size
        return {}

    @abstractmethod
    def config(self, options: ModelOptions) -> PreTrainedConfig: ...

    def class_of(self, config: PreTrainedConfig) -> type[PreTrainedModel]:
        """Which of the two a configuration is for."""
        if self.recurrent_class is not None and isinstance(config, RecurrentConfig):
            return self.recurrent_class
        return self.model_class

    @abstractmethod
    def features(self, example: Example) -> Features:
        """What the model is trained on, as numbers."""

    def rows(self, examples: Sequence[Example]) -> Sequence[Features] | Streamed[Features]:
        """What training goes through: an example a row, unless a task cuts them otherwise."""
        return [self.features(example) for example in examples]

    def tokens_of(self, row: Features) -> float:
        """How many tokens training sees of a row; the mean, where chance decides."""
        return len(row["input_ids"])

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        """A training batch: every list of numbers padded to the longest, labels with what is ignored."""
        return padded(batch, self.tokenizer.pad_token_id)

    @abstractmethod
    def scores(self, model: PreTrainedModel, examples: Sequence[Example]) -> dict[str, float]: ...

    def tallies(self, model: PreTrainedModel, examples: Sequence[Example]) -> dict[str, Tally]:
        """What every example adds to those of the `scores` that are made of sums, by their names.

        Two models are compared by them. A task without any cannot be compared so.
        """
        del model, examples
        return {}

    @abstractmethod
    def predict(self, model: PreTrainedModel, text: str) -> dict[str, Any]: ...

    @abstractmethod
    def shown(self, prediction: Mapping[str, Any]) -> str:
        """A prediction for people, in a line or a few."""

    def longer(self, times: int) -> Self:
        """The same, reading so many times as much at once as training did."""
        raise ValueError(f"{self.name} reads each text as long as it is, so that nothing is {times} times as long")

    def notes(self) -> dict[str, str]:
        """What must stand beside the scores for others to compare with them, a library's signature for one."""
        return {}

    def doubts(self, train: Sequence[Example]) -> list[str]:
        """What of a training split cannot be learned as it stands, a line each."""
        del train
        return []

    def tune(self, model: PreTrainedModel, dev: Sequence[Example]) -> None:
        """Set what is not learned by gradients, on the dev split, after training."""
        del model, dev

    @contextmanager
    def tuned(self, model: PreTrainedModel, dev: Sequence[Example]) -> Generator[None]:
        """Inside, task and model are as `tune` leaves them; afterwards as they were.

        What a training is judged by on its way is then what it is judged by at its end.
        """
        state, config = deepcopy(self.state), dict(vars(model.config))
        self.tune(model, dev)
        try:
            yield
        finally:
            self.state = state
            vars(model.config).update(config)

    def write_files(self, folder: Path) -> None:
        """Put what predictions need beside model and state into a run's folder, as the last scoring left it."""
        del folder

    def opened_in(self, folder: Path) -> None:
        """Told when a run is opened, for a task that wrote files there."""
        del folder


def padded(batch: Sequence[Features], pad: int) -> dict[str, Tensor]:
    """Tensors of a batch of features; lists are padded on the right, and an attention_mask tells where.

    A list may hold lists, all of one length, which is then the last dimension.
    """
    made: dict[str, Tensor] = {}
    for name in batch[0]:
        values = [features[name] for features in batch]
        if isinstance(values[0], list):
            longest = max(map(len, values))
            fill: Any = IGNORED if "labels" in name else pad
            if isinstance(values[0][0], list):
                fill = [pad] * len(values[0][0])
            values = [value + [fill] * (longest - len(value)) for value in values]
        made[name] = torch.tensor(values)
    lengths = torch.tensor([len(features["input_ids"]) for features in batch])
    made["attention_mask"] = (torch.arange(made["input_ids"].shape[1]) < lengths[:, None]).long()
    return made


def batches(features: Sequence[Features], pad: int, size: int = 64) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
    """Batches for prediction, similar lengths together: places in `features`, and tensors."""
    order = sorted(range(len(features)), key=lambda place: len(features[place]["input_ids"]))
    for start in range(0, len(order), size):
        places = order[start : start + size]
        yield places, padded([features[place] for place in places], pad)


def check_labels(labels: Iterable[str], known: Sequence[str], what: str = "label") -> None:
    """Raises for a label that was not in the training split, which no model of it could ever give."""
    if strange := sorted(set(labels) - set(known)):
        had = ", ".join(known) or "none"
        raise ValueError(f"{what} {strange[0]!r} was not in the training split, which had {had}")
