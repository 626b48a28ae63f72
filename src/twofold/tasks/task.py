"""What a task is: examples in, a model, predictions, and scores of predictions.

A task learns its tokenizer and labels from the training split. How an input is read and an answer made is its codec's,
which runs without torch as well (twofold_runtime). It knows nothing of how a model is trained, nor of folders.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from twofold.data.examples import Splits
from twofold.data.streaming import Streamed
from twofold.models.engine import TorchEngine
from twofold.models.recurrent_config import RecurrentConfig
from twofold.tasks.options import ModelOptions
from twofold.tasks.tallies import Tally, scores_of
from twofold_runtime.codec import Encoded, padded
from twofold_runtime.engine import Arrays
from twofold_runtime.predictor import codec_class
from twofold_runtime.tokens import PAD, TextTokenizer, WordVocabulary

Example = TypeVar("Example")
Features = dict[str, Any]
IGNORED = -100
Result = tuple[Encoded[Any], Sequence[Arrays]]


class Task(ABC, Generic[Example]):
    name: ClassVar[str]
    metric: ClassVar[str]
    """The score by which models are compared and, on the dev split, the best one of a training is kept."""
    kept_by: ClassVar[str | None] = None
    """Another score for the latter, where the metric is too coarse for it."""
    metrics: ClassVar[tuple[str, ...]]
    """Scores by which models can be compared; some need examples of a kind, out of scope for one."""
    lower: ClassVar[tuple[str, ...]] = ()
    """Those of which less is better."""
    model_class: ClassVar[type[PreTrainedModel]]
    recurrent_class: ClassVar[type[PreTrainedModel] | None] = None
    """The model with recurrent layers, where this task offers one."""
    reads_hub: ClassVar[bool] = False
    """Whether `examples` takes the address of a data set of the hub for `data`."""
    Choices: ClassVar[type[Any] | None] = None
    """What a user may choose about this task alone: a frozen dataclass of plain JSON values, each with a default.

    Where there is one, the command line offers its fields, `examples` and `prepared` take one as `choices`, and
    run.json keeps it.
    """
    engine: ClassVar[type[TorchEngine]] = TorchEngine

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        reading: Mapping[str, Any],
        calibration: Mapping[str, Any] | None = None,
    ) -> None:
        kind = codec_class(self.name)
        tokens: Any = (
            WordVocabulary(tokenizer.get_vocab()) if kind.reads_words else TextTokenizer(tokenizer.backend_tokenizer)
        )
        self.tokenizer = tokenizer
        self.codec: Any = kind(reading, calibration or {}, tokens)

    @property
    def reading(self) -> Mapping[str, Any]:
        """What encoding and decoding need: labels, lengths."""
        return self.codec.reading

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
    def config(self, options: ModelOptions) -> PreTrainedConfig:
        """The configuration of the model to train."""

    def known_labels(self) -> frozenset[str] | None:
        """The names that a model of this task can predict, as `labels` gives them; None where it has no labels."""
        return None

    def label_counts(self) -> dict[str, int]:
        """Fields of the configuration that must say how many labels there are, and how many."""
        return {}

    def class_of(self, config: PreTrainedConfig) -> type[PreTrainedModel]:
        """The class of model that a configuration is for."""
        if self.recurrent_class is not None and isinstance(config, RecurrentConfig):
            return self.recurrent_class
        return self.model_class

    @abstractmethod
    def features(self, example: Example) -> Features:
        """What the model is trained on: arrays of numbers by name."""

    def rows(self, examples: Sequence[Example]) -> Sequence[Features] | Streamed[Features]:
        """What training goes through: an example a row, unless a task cuts them otherwise."""
        return [self.features(example) for example in examples]

    def tokens_of(self, row: Features) -> float:
        """How many tokens training sees of a row; the mean, where that is random."""
        return len(row["input_ids"])

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        """A training batch of rows: padded to the longest, labels with what is ignored."""
        return tensors_of(batch)

    def encode(self, example: Example) -> Encoded[Any]:
        """What the model reads of an example."""
        return self.codec.encode(self.input_of(example))

    @abstractmethod
    def input_of(self, example: Example) -> Any:
        """The input of an example, without its answer."""

    def run(self, model: PreTrainedModel, examples: Sequence[Example]) -> list[Result]:
        """Every example as it is read, and the model's outputs for it."""
        encoded = [self.encode(example) for example in examples]
        return [*zip(encoded, self.codec.run(self.engine(model), encoded), strict=True)]

    def answer(self, encoded: Encoded[Any], outputs: Sequence[Arrays]) -> Any:
        """The prediction that `judged` takes."""
        return self.codec.decode(encoded, outputs)

    def answers(self, model: PreTrainedModel, examples: Sequence[Example]) -> list[Any]:
        """The prediction for every example."""
        return [self.answer(*result) for result in self.run(model, examples)]

    @abstractmethod
    def judged(self, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, Tally]:
        """The scores of predictions, whoever made them, with what each example adds to them."""

    def tallies(self, model: PreTrainedModel, examples: Sequence[Example]) -> dict[str, Tally]:
        """The same of a model's predictions."""
        return self.judged(examples, self.answers(model, examples))

    def scores(self, model: PreTrainedModel, examples: Sequence[Example]) -> dict[str, float]:
        """The scores alone."""
        return scores_of(self.tallies(model, examples))

    def tuned(self, model: PreTrainedModel, dev: Sequence[Example]) -> Self:
        """The task with what is tuned on the dev split after training; most tasks have nothing to tune."""
        del model, dev
        return self

    def tuned_and_scored(self, model: PreTrainedModel, dev: Sequence[Example]) -> tuple[Self, dict[str, float]]:
        """The same, and the scores on the dev split that follow: what evaluations while training say, and the end."""
        return self, self.scores(model, dev)

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

    def write_files(self, folder: Path) -> None:
        """Put what predictions need beside the model into a finished run's folder, as the last scoring left it."""
        del folder


class CalibratedTask(Task[Example]):
    """A task whose answers depend on numbers that are tuned on the dev split rather than learned by gradients."""

    @abstractmethod
    def calibration(
        self, model: PreTrainedModel, examples: Sequence[Example], results: Sequence[Result]
    ) -> dict[str, Any]:
        """Those numbers, from the results of `run` for examples of the dev split."""

    def tuned(self, model: PreTrainedModel, dev: Sequence[Example]) -> Self:
        return self._calibrated(model, dev, self.run(model, dev))

    def tuned_and_scored(self, model: PreTrainedModel, dev: Sequence[Example]) -> tuple[Self, dict[str, float]]:
        results = self.run(model, dev)
        task = self._calibrated(model, dev, results)
        return task, scores_of(task.judged(dev, [task.answer(*result) for result in results]))

    def _calibrated(self, model: PreTrainedModel, dev: Sequence[Example], results: Sequence[Result]) -> Self:
        task = copy(self)
        task.codec = self.codec.calibrated(self.calibration(model, dev, results))
        return task


def tensors_of(batch: Sequence[Features]) -> dict[str, Tensor]:
    """Rows as padded tensors, labels padded with what is ignored; attention_mask says where tokens are."""
    fills = {name: IGNORED if "labels" in name else PAD for name in batch[0]}
    return {name: torch.from_numpy(array) for name, array in padded(batch, fills).items()}
