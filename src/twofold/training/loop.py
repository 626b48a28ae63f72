"""The training loop: one for all tasks.

It is written on torch and not on transformers.Trainer or accelerate, because:
- Trainer pickles its optimizer, scheduler, random states and arguments (.pt, .pth, .bin), and not atomically. A resumed
  run draws again all batches that it has seen; batches depend on the number of processes.
- accelerate has one state per Python process: a second run in it cannot have another precision. Asked for FSDP on
  CPUs, it runs DDP without a word, so a test with two processes there would not test what runs on GPUs.

Models stay transformers' own: a loss from `forward`, `save_pretrained` at the end.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from twofold.data.streaming import Streamed
from twofold.training import checkpoints
from twofold.training.distribution import Processes, join
from twofold.training.feeding import Collate, Features, Piece, fed
from twofold.training.folder import (
    CHECKPOINTS,
    METRICS,
    Metrics,
    check_run,
    end_of,
    locked,
    remove_checkpoints,
)
from twofold.training.learner import Learner
from twofold.training.loss import count
from twofold.training.optimizer import rate
from twofold.training.order import epoch_batches, lengths_of, total_steps
from twofold.training.presence import Presence
from twofold.training.progress import Progress, Step
from twofold.training.randomness import undisturbed
from twofold.training.reporters import reporter
from twofold.training.result import read_model, write_model
from twofold.training.settings import Settings
from twofold.training.state import State, read_saved
from twofold.training.stopping import Diverged, Stopped, StopRequest, listening
from twofold.training.streaming import Numbered
from twofold.training.tensors import set_weights, weights

Evaluate = Callable[[PreTrainedModel], Mapping[str, float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a run ended."""

    steps: int
    tokens: int
    seconds: float
    best_step: int
    """The step whose weights were kept."""
    metrics: dict[str, float]
    """What evaluate said of them; empty if nothing was evaluated."""
    stopped_early: bool


def fit(
    model: PreTrainedModel,
    train: Sequence[Features] | Streamed[Features],
    collate: Collate,
    *,
    settings: Settings,
    folder: Path,
    evaluate: Evaluate | None,
    metric: str | None = None,
    higher_is_better: bool = True,
    progress: Progress | None = None,
    resume: bool = False,
) -> Outcome:
    """Train `model` in place and leave it with the weights that did best on the dev split, which `folder` gets as well.

    train: features, each with input_ids; collate makes a batch of tensors of a list of them. Of a stream no more is
    read than is needed, in an order of its own, and settings must say how many steps there are. evaluate scores a model
    (in eval mode, without gradients); `metric` names the number that decides which weights are kept and when to stop
    early. Without a metric, or without evaluate, the last weights are kept. resume goes on from the newest whole
    checkpoint, or from the start if there is none yet; a finished run is left as it is.

    Raises Stopped after Ctrl-C or SIGTERM, Diverged when the loss is no number, OSError when the model cannot be
    written, ValueError for what cannot be trained.
    """
    if metric is None and settings.patience is not None:
        raise ValueError(f"patience must be None where no metric says what is better, got {settings.patience}")
    if not isinstance(train, Streamed) and len(train) == 0:
        raise ValueError("train must have at least one example, got none")
    processes = join(settings)
    with ExitStack() as stack:
        if processes.is_main:
            check_run(folder, resume)
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder))
            # Another process may have been faster.
            check_run(folder, resume)
        finished = processes.from_main(end_of(folder) if processes.is_main else None)
        if finished is not None:
            return _already(finished, model, folder, processes)
        job = _Job(
            model=model,
            train=Numbered(train, settings) if isinstance(train, Streamed) else train,
            collate=collate,
            settings=settings,
            folder=folder,
            evaluate=evaluate,
            metric=metric,
            higher_is_better=higher_is_better,
            progress=progress if progress is not None and processes.is_main else Progress(),
        )
        run = _Run(job, processes, resume)
        stack.callback(run.close)
        run.train(stack.enter_context(listening()))
        return run.finish()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Job:
    """The arguments of `fit`."""

    model: PreTrainedModel
    train: Sequence[Features] | Numbered
    collate: Collate
    settings: Settings
    folder: Path
    evaluate: Evaluate | None
    metric: str | None
    higher_is_better: bool
    progress: Progress

    @property
    def examples(self) -> int | None:
        """How many; None for a stream."""
        return None if isinstance(self.train, Numbered) else len(self.train)


class _Run:
    """A run from its newest checkpoint (or the start) to its end (or a signal)."""

    def __init__(self, job: _Job, processes: Processes, resume: bool) -> None:
        self.job, self.settings, self.processes = job, job.settings, processes
        self.lengths = lengths_of(self.settings, job.train)
        self.total = total_steps(self.settings, job.examples, self.lengths)
        self.learner = Learner(job.model, self.settings, processes)
        self.metrics, self.state = Metrics(job.folder), State()
        # Losses and norms that are still on the device: reading them makes it wait.
        self.unread: list[tuple[Tensor, Tensor]] = []
        self.best: dict[str, Tensor] = {}
        self.saved_step, self.can_write = 0, True
        self.presence = Presence(job.folder) if processes.is_main else None
        if resume:
            self._pick_up()
        if processes.is_main:
            if self.state.step == 0:
                self.metrics.begin(settings=self.settings.as_json(), examples=job.examples)
            else:
                self.metrics.cut_after(self.state.step)
        self.report = reporter(self.settings, job.folder, self.state.step) if processes.is_main else None
        job.progress.started(self.total, self.state.step)
        self.seconds_before, self.began = self.state.seconds, time.monotonic()
        self.saved_at = self.began

    def train(self, request: StopRequest) -> None:
        """Until the last step, or until evaluations on the dev split no longer get better."""
        self.job.model.train()
        while not self.is_over:
            batches = epoch_batches(self.settings, self.job.examples, self.lengths, self.state.epoch)
            rest = batches[self.state.batch :]
            for pieces in fed(self.job.train, self.job.collate, rest, self.settings, self.processes, self.state.step):
                signal, is_save_due = self._step(pieces, request)
                self.state.batch += 1
                if is_last_batch := self.state.batch == len(batches):
                    self.state.epoch, self.state.batch = self.state.epoch + 1, 0
                self._report(self.state.epoch + self.state.batch / len(batches))
                if self._is_evaluation_due(is_last_batch):
                    self._evaluate()
                if signal or is_save_due:
                    self._save()
                if signal:
                    raise Stopped(signal, f"{self.job.folder} after step {self.state.step}; {self._kept()}")
                if self.is_over:
                    break

    def finish(self) -> Outcome:
        """Keep the best weights, write them, mark the end."""
        self._check_weights()
        state = self.state
        if state.best_step == 0:
            state.best_step = state.step
        elif state.best_step != state.step:
            self.learner.set_weights(self.best)
        self.job.model.eval()
        end = {
            "step": state.step,
            "tokens": state.tokens,
            "seconds": self._seconds(),
            "best_step": state.best_step,
            "metrics": state.best,
            "stopped_early": state.step < self.total,
        }
        # No process has a whole model under fsdp.
        whole = self.learner.weights() if self.processes.kind == "fsdp" else None
        if self.presence is not None:
            self._write_result(self.presence, whole, end)
            remove_checkpoints(self.job.folder)
        self.processes.wait()
        return _outcome(end)

    def close(self) -> None:
        if self.report is not None:
            self.report.close()
        self.job.progress.finished()

    @property
    def is_over(self) -> bool:
        patience = self.settings.patience
        return self.state.step >= self.total or (patience is not None and self.state.worse >= patience)

    def _is_evaluation_due(self, is_last_batch: bool) -> bool:
        """Every so many steps, or every epoch; and at the end, before the last checkpoint, so that it is done once."""
        every = self.settings.evaluate_steps
        is_time = self.state.step % every == 0 if every else is_last_batch
        return self.job.evaluate is not None and (is_time or self.state.step == self.total)

    def _step(self, pieces: list[Piece], request: StopRequest) -> tuple[int, bool]:
        """One optimizer step. Says which signal asks for an end, if any, and whether it is time to save."""
        counts = [count(piece.batch, self.job.model) if piece.counts else 0 for piece in pieces]
        is_late = time.monotonic() - self.saved_at >= (self.settings.save_seconds or math.inf)
        # All processes decide alike, because all see the same sums.
        total, tokens, interrupts, terminations, late = self.processes.summed(
            [
                sum(counts),
                sum(piece.tokens for piece in pieces),
                request.signal == SIGINT,
                request.signal == SIGTERM,
                is_late and self.processes.is_main,
            ]
        )
        self.state.step += 1
        self.unread.append(self.learner.step(pieces, counts, total, rate(self.settings, self.state.step, self.total)))
        self.state.tokens += int(tokens)
        signal = SIGINT if interrupts else SIGTERM if terminations else 0
        return int(signal), bool(late) or self.state.step % (self.settings.save_steps or math.inf) == 0

    def _read(self) -> None:
        """Losses since the last call. The first that is not finite ends the run, before anything of it is saved."""
        if not self.unread:
            return
        losses = self.processes.summed([float(loss) for loss, _ in self.unread])
        norms = [float(norm) for _, norm in self.unread]
        self.unread = []
        first = self.state.step - len(losses) + 1
        for step, (loss, norm) in enumerate(zip(losses, norms, strict=True), start=first):
            for what, value in (("loss", loss), ("gradient norm", norm)):
                if not math.isfinite(value):
                    problem = f"{what} is {value} at step {step}"
                    raise Diverged(f"{problem}; {self._kept()}; try a lower learning_rate")
            self.state.add(loss, norm)

    def _check_weights(self) -> None:
        """A step can make weights that are not finite though its loss was: the next loss would show it, if any came."""
        (count_nonfinite,) = self.processes.summed([self.learner.has_nonfinite_weights])
        if count_nonfinite:
            problem = f"weights are not all numbers after step {self.state.step}"
            raise Diverged(f"{problem}; {self._kept()}; try a lower learning_rate")

    def _report(self, epoch: float) -> None:
        """A line of metrics.jsonl, every log_steps and at the end."""
        if self.state.step % self.settings.log_steps and self.state.step != self.total:
            return
        self._read()
        step = Step(
            step=self.state.step,
            total=self.total,
            epoch=epoch,
            learning_rate=rate(self.settings, self.state.step, self.total),
            tokens=self.state.tokens,
            seconds=self._seconds(),
            **self.state.averages(),
        )
        self._record("step", step.as_json())
        self.job.progress.step(step)

    def _evaluate(self) -> None:
        """Remember the weights if they are the best so far. The random state is restored afterwards."""
        self._read()
        self._check_weights()
        job, numbers = self.job, {}
        # Under fsdp no process has a whole model, so all take part; else the others wait.
        if job.evaluate and (self.processes.is_main or self.processes.kind == "fsdp"):
            with undisturbed(self.processes.device), torch.no_grad():
                job.model.eval()
                numbers = {name: float(value) for name, value in job.evaluate(job.model).items()}
                job.model.train()
        numbers = self.processes.from_main(numbers)
        if self.state.evaluated(numbers, job.metric, job.higher_is_better):
            self.best = self.learner.weights()
        self._record("evaluation", {"step": self.state.step, **numbers})
        job.progress.evaluated(self.state.step, numbers)

    def _record(self, kind: str, numbers: Mapping[str, Any]) -> None:
        if self.report is None or self.presence is None:
            return
        try:
            self.presence.check()
            self.metrics.write(kind, numbers)
            self.can_write = True
        except OSError as error:
            if self.can_write:
                self.job.progress.note(f"{METRICS} has to wait: {error.strerror}")
            self.can_write = False
        self.report.log({f"{kind}/{name}": value for name, value in numbers.items() if name != "step"}, self.state.step)

    def _seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.began

    def _save(self) -> None:
        """A checkpoint. Where it cannot be written, training goes on with the ones that there are."""
        self._read()
        self._check_weights()
        self.state.seconds = self._seconds()
        named = self.learner.as_tensors()
        if self.state.best_step not in (0, self.state.step):
            named["best"] = self.best
        state = {"settings": self.settings.as_json(), "examples": self.job.examples, **self.state.as_json()}
        problem = None
        if self.presence is not None:
            try:
                self.presence.check()
                self.metrics.flush()
                checkpoints.save(self.job.folder / CHECKPOINTS, self.state.step, state, named, self.settings.keep)
            except OSError as error:
                problem = error.strerror or str(error)
        problem = self.processes.from_main(problem)
        if problem is None:
            self.saved_step = self.state.step
        else:
            self.job.progress.note(f"the checkpoint of step {self.state.step} could not be written: {problem}")
        self.saved_at = time.monotonic()

    def _pick_up(self) -> None:
        """Everything as it was at the newest checkpoint that is whole."""
        content, tensors = None, {}
        if self.processes.is_main:
            checkpoint = checkpoints.newest_whole(self.job.folder / CHECKPOINTS, self.job.progress.note, read_saved)
            content, tensors = checkpoint or (content, tensors)
        content = self.processes.from_main(content)
        if content is None:
            self.job.progress.note("there is no checkpoint yet: from the start")
            return
        self.settings.check_same_run(content["settings"])
        if (examples := content["examples"]) != self.job.examples:
            raise ValueError(f"train must be what the run began with, {examples} examples, got {self.job.examples}")
        self.state = State(**content["state"])
        model, optimizer, random = (tensors.get(name, {}) for name in ("model", "optimizer", "random"))
        self.learner.restore(model, optimizer, random, self.state.step)
        if self.state.best_step:
            self.best = tensors.get("best", model)
        self.saved_step = self.state.step

    def _write_result(self, presence: Presence, whole: dict[str, Tensor] | None, end: Mapping[str, Any]) -> None:
        """The model, then the line that says that it is there."""
        try:
            presence.check()
            write_model(self.job.model, self.job.folder, whole)
            self.metrics.write("end", end)
            self.metrics.flush()
            presence.check()
        except OSError as error:
            then = f"{self._kept()}: make room and resume" if presence.is_there else "nothing more is written"
            why = error.strerror or error
            raise OSError(f"the model cannot be written to {self.job.folder} ({why}); {then}") from error

    def _kept(self) -> str:
        return f"the checkpoint of step {self.saved_step} is kept" if self.saved_step else "nothing is saved"


def _already(end: dict[str, Any], model: PreTrainedModel, folder: Path, processes: Processes) -> Outcome:
    """A finished run: its weights and its outcome. Checkpoints that it had no time to remove are removed."""
    if processes.is_main:
        read_model(model, folder)
        remove_checkpoints(folder)
    # Other processes may not see the folder.
    set_weights(model, weights(model, processes), processes)
    model.eval()
    return _outcome(end)


def _outcome(end: Mapping[str, Any]) -> Outcome:
    names = ("tokens", "seconds", "best_step", "metrics", "stopped_early")
    return Outcome(steps=end["step"], **{name: end[name] for name in names})
