"""A run's folder as a task sees it: its tokenizer, its model, and predictions from it. run.json is the runtime's."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerFast

from twofold.data.digest import digest_of
from twofold.data.examples import Splits
from twofold.disk import system_errors
from twofold.models.loading import CONFIG, UNREADABLE, WEIGHTS, device_named, load_as
from twofold.tasks.options import ModelOptions
from twofold.tasks.registry import choices_for, examples_of, task_class
from twofold.tasks.task import Task
from twofold_runtime import tokens
from twofold_runtime.checked import shortened
from twofold_runtime.decoding import Decoding
from twofold_runtime.folder import RunRecord, check_files, read_run, with_digests, write_run
from twofold_runtime.panics import panics_as_errors
from twofold_runtime.predictions import Prediction
from twofold_runtime.predictor import Predictor, check_record
from twofold_runtime.words import WORD_RULES
from twofold_runtime.writing import Say, WritingCodec

TOKENIZER = (tokens.FILE, "tokenizer_config.json")
# Rows of an embedding beyond the tokens there are.
MOST_PADDING = 128


def record_of(task: Task, options: ModelOptions, **training: Any) -> RunRecord:
    """What run.json says of a run that begins now; `training` is kept for whoever resumes it."""
    return RunRecord(
        task=task.name,
        word_rules=WORD_RULES if task.codec.reads_words else None,
        reading=dict(task.reading),
        training={"model": asdict(options), **training},
    )


def begin_run(folder: Path, task: Task, record: RunRecord) -> None:
    """Write the tokenizer, and last run.json."""
    with system_errors(folder):
        task.tokenizer.save_pretrained(folder)
    write_run(folder, record)


def finish_run(folder: Path, task: Task, record: RunRecord) -> None:
    """Write the calibration and the digests of the model's files into run.json: the run may be used from then on."""
    if lacking := [name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()]:
        raise OSError(f"{folder} lost {' and '.join(lacking)} while training ran: the run is not finished")
    # Once more: somebody may have removed it in the hours since the run began.
    with system_errors(folder):
        task.tokenizer.save_pretrained(folder)
    finished = replace(record, calibration=dict(task.codec.calibration))
    write_run(folder, with_digests(folder, finished, (CONFIG, WEIGHTS, *TOKENIZER)))


def reopened(folder: Path, record: RunRecord) -> Task:
    """The task as it was when the run began, or was finished."""
    # Without the second, a tokenizer is made that knows none of its special tokens.
    if lacking := [name for name in TOKENIZER if not (folder / name).is_file()]:
        raise ValueError(f"{folder} has no readable tokenizer: {' and '.join(lacking)} must be there")
    kind = task_class(record.task)
    check_record(folder, record)
    try:
        with panics_as_errors("tokenizers gave up"):
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
            # Some files are refused only when they are used.
            tokenizer("a text")
    # The library raises Exception itself.
    except Exception as error:
        raise ValueError(f"{folder} has no readable tokenizer: {shortened(str(error))}") from error
    task = kind(tokenizer, record.reading, record.calibration)
    task.codec.opened_in(folder, record)
    return task


@dataclass(frozen=True, slots=True)
class Run:
    """A trained model and its task."""

    folder: Path
    record: RunRecord
    task: Task
    model: PreTrainedModel

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, task={self.task.name!r}, parameters={self.model.num_parameters():,})"

    @property
    def data(self) -> Path | None:
        """Where the run learned from; None for the embedded set."""
        return Path(self.record.training["data"]) if self.record.training["data"] else None

    def examples(self, data: Path | None = None) -> Splits[Any]:
        """Splits of `data`, read as the run read its own; what the run was trained on unless given."""
        return examples_of(type(self.task), data or self.data, self.record.training["choices"])

    def has_changed_data(self, splits: Splits[Any]) -> bool:
        """Whether what the run was trained on is something else by now: `splits` is what is there."""
        known = self.record.training["digest"]
        return known is not None and self.data is not None and known != digest_of(self.data, splits)

    def predict(self, input: Any) -> Prediction:
        """The answer to one input: a text, for qa a QuestionInput, for captioning an ImageInput.

        dict(prediction) is what `twofold predict --json` prints, less what it says of an action.
        """
        return self.predict_many([input])[0]

    def predict_many(self, inputs: Sequence[Any]) -> list[Prediction]:
        """The answers to several inputs, which the model reads in batches."""
        return Predictor(self.task.codec, self.task.engine(self.model)).predict_many(inputs)

    def write(self, prompt: str, decoding: Decoding | None = None, say: Say | None = None) -> str:
        """The text that answers a prompt, or goes on with it; `say` is given every piece as soon as it is written."""
        codec = self.task.codec
        if not isinstance(codec, WritingCodec) or self.task.name == "captioning":
            raise ValueError(f"{self.folder} is a run of {self.task.name}, which writes no text: see twofold predict")
        encoded = codec.encode(prompt)
        engine: Any = self.task.engine(self.model)
        [ids] = codec.write(engine, [encoded], decoding or codec.usual_decoding, say)
        return codec.tokens.decode(ids)


def _check_together(task: Task, model: PreTrainedModel, folder: Path) -> None:
    """Files of several runs in one folder, or weights of a training that went wrong, would answer something."""
    words: Any = getattr(model.config, "decoder", model.config)
    known, rows = len(task.tokenizer), words.vocab_size
    # Somebody may have added rows up to a round number.
    is_padded = rows % 8 == 0 and 0 < rows - known < MOST_PADDING
    if rows != known and not is_padded:
        raise ValueError(
            f"{folder} has a tokenizer.json of {known} tokens and a model of {rows}: they are not of one run"
        )
    for name, expected in task.label_counts().items():
        if (count := getattr(model.config, name)) != expected:
            raise ValueError(f"{folder}: {name} of {CONFIG} must be {expected}, as many as run.json names, got {count}")
    for name, tensor in model.named_parameters():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{folder}: {name} has numbers that are not finite")


def open_run(path: Path | str, *, device: str = "auto") -> Run:
    """Open what `twofold train` wrote. device: "cpu", "cuda", or "auto" for a GPU if there is one."""
    place = device_named(device)
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f"{folder} is no run: there is no such folder")
    record = read_run(folder)
    if not record.finished:
        raise ValueError(f"{folder} has no model yet: its training is not finished; go on with --resume")
    check_files(folder, record, CONFIG, WEIGHTS, *TOKENIZER)
    choices_for(task_class(record.task), record.training["choices"])
    task = reopened(folder, record)
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (*UNREADABLE, ValueError) as error:
        raise ValueError(f"{folder} has no readable config.json: {error}") from error
    model = load_as(folder, task.class_of(config))
    _check_together(task, model, folder)
    model.to(place)  # type: ignore[arg-type]
    return Run(folder, record, task, model)
