"""One run of a comparison: the arm's model, trained on what all arms are trained on, and its record.

What a run depends on is its key (arm, seed, learning rate, budget), the plan's options and the data: nothing of it is
shared with other runs, so that they may run in any order, at once, and anywhere.
"""

import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from twofold.data.digest import digest_of, digest_of_examples
from twofold.data.examples import Splits
from twofold.data.hub import is_hub
from twofold.kernels import choices
from twofold.lab.arms import ARMS, arm_named, build, config_of, parameters
from twofold.lab.arms_from_file import digest_of_own, is_own
from twofold.lab.options import Options, check_metric, options_of
from twofold.lab.per_text import TextSums, text_sums
from twofold.lab.plan import Plan
from twofold.lab.records import Key, Length, Point, Record, SelfWeight
from twofold.lab.registration import is_larger, is_off
from twofold.lab.subset import subset
from twofold.machine import machine
from twofold.models.layers import SelfAttention
from twofold.models.loading import device_named
from twofold.models.maps import self_weights
from twofold.tasks.registry import check_splits, choices_for, examples_of, task_class
from twofold.tasks.task import Features, Task
from twofold.training.distribution import join
from twofold.training.feeding import Piece
from twofold.training.folder import read_metrics
from twofold.training.learner import Learner
from twofold.training.loop import fit
from twofold.training.loss import count
from twofold.training.order import lengths_of, total_steps
from twofold.training.randomness import undisturbed
from twofold.training.stopping import Diverged

# Most steps between two lines of a run's metrics, and rows whose self weights are looked at.
LOG_STEPS, LOOKED_AT = 25, 8


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task's data as models take them."""

    splits: Splits[Any]
    task: Task
    rows: Any
    """Of the training split."""

    @property
    def tokens(self) -> float:
        """Of one pass over the training split."""
        return sum(map(self.task.tokens_of, self.rows))


def prepare(task: str, options: Options, data: Path | None) -> Prepared:
    """Read the files, or the embedded set, and make tokens of them."""
    if is_hub(data):
        raise ValueError(f"a comparison needs files, which all its runs see alike, got {data}")
    kind = task_class(task)
    splits = examples_of(kind, data, options.choices)
    check_splits(splits, data, "train", "dev", *(["test"] if options.runs.test else []))
    train = subset(splits.train, options.runs.share, kind.labels)
    made = kind.prepared(train, **choices_for(kind, options.choices))
    return Prepared(splits, made, made.rows(train))


class Laboratory:
    """What all runs of a plan share: the task, its data as rows, and the standard model's configuration."""

    def __init__(
        self, plan: Plan, data: Path | None = None, at_once: int = 1, prepared: Prepared | None = None
    ) -> None:
        """data: files, the embedded set unless given. prepared: the same, where somebody has read them already."""
        check_metric(plan.task, plan.metric, plan.lower_is_better)
        self.plan, self.options, self.at_once = plan, options_of(plan.task, plan.size), at_once
        kind = task_class(plan.task)
        prepared = prepared or prepare(plan.task, self.options, data)
        self.device = device_named(self.options.settings.device)
        self.splits, self.task, self.rows = prepared.splits, prepared.task, prepared.rows
        self.longer = {int(times): self.task.longer(int(times)) for times in self.options.runs.lengths}
        self.config = self.task.config(self.options.model)
        self.model_class = self.task.class_of(self.config)
        self.data = digest_of_examples(self.splits) if data is None else digest_of(data, self.splits)
        self.tokens_a_step = self._tokens_a_step()
        # As they were imported, whatever becomes of their files.
        self.own_arms = digest_of_own(arm_named(name)[0] for name in plan.arms)
        # What cannot be built is found before the first run.
        self.sizes = {name: self._parameters(name) for name in plan.arms}
        self._check_plan()
        self._check_own_arms()
        # What the task itself goes by is there; another metric, and other lengths, are asked for once.
        asked = [*([self.task] if plan.metric != kind.metric else []), *self.longer.values()]
        if asked:
            model: Any = build(ARMS["standard"], self.config, self.model_class, matched=False, seed=0)
            model.to(self.device).eval()
            for task in asked:
                self.score(model, self.splits.dev, task)

    def environment(self) -> dict[str, object]:
        """The environment that a run started now would record."""
        more = {"data": self.data, "runs_at_once": self.at_once, "choices": choices.GIVEN}
        own = {} if self.own_arms is None else {"own_arms": self.own_arms}
        return machine(self.device) | more | own

    def steps(self, budget: int) -> int:
        return max(1, round(budget / self.tokens_a_step))

    def run(self, key: Key, folder: Path) -> Record:
        """Train what `key` names in a folder of its own, which is gone afterwards."""
        steps = self.steps(key.budget)
        # A look needs a line of the metrics at its step, so that a whole number of lines lies between two looks.
        every = -(-steps // self.options.runs.evaluations)
        lines = -(-every // LOG_STEPS)
        log_steps = -(-every // lines)
        settings = replace(
            self.options.settings,
            learning_rate=key.lr,
            seed=key.seed,
            steps=steps,
            evaluate_steps=lines * log_steps,
            log_steps=log_steps,
            save_seconds=None,
        )
        arm, matched = arm_named(key.arm)
        model = build(arm, self.config, self.model_class, matched=matched, seed=key.seed)
        device = self.device
        looks = _Looks(self, weights=key.phase == "final")
        if settings.compile:
            # After some eight models torch would stop compiling without a word.
            torch.compiler.reset()
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        shutil.rmtree(folder, ignore_errors=True)
        shared = {
            "experiment": key.experiment,
            "phase": key.phase,
            "arm": key.arm,
            "seed": key.seed,
            "lr": key.lr,
            "budget": key.budget,
            "parameters": self.sizes[key.arm],
            "metric": self.plan.metric,
            "environment": self.environment(),
        }
        began = time.monotonic()
        try:
            fit(
                model,
                self.rows,
                _SeededCollate(self.task.collate, key.seed),
                settings=settings,
                folder=folder,
                evaluate=looks,
            )
            curve, seconds, tail = looks.read(read_metrics(folder))
        except Diverged:
            curve, seconds, _ = looks.read(read_metrics(folder))
            seconds = seconds or time.monotonic() - began
            tokens = curve[-1].tokens if curve else 0
            return Record(**shared, value=None, tokens=tokens, seconds=seconds, curve=tuple(curve))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return Record(
            **shared,
            value=curve[-1].value,
            tokens=curve[-1].tokens,
            seconds=seconds,
            curve=tuple(curve),
            peak_memory=torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
            gradient_tail=tail,
            self_weights=looks.self_weights(curve),
            uniform_self_weight=looks.uniform,
            beyond=self._beyond(model) if key.phase == "final" else (),
            **self._at_the_end(model, key),
        )

    @torch.no_grad()
    def score(self, model: PreTrainedModel, split: Sequence[Any], task: Task | None = None) -> float:
        task = task or self.task
        if split is self.splits.dev:
            _, scores = task.tuned_and_scored(model, split)
        else:
            scores = task.tuned(model, self.splits.dev).scores(model, split)
        if self.plan.metric not in scores:
            raise ValueError(
                f"metric must be one of {', '.join(scores)} for {self.plan.task}, got {self.plan.metric!r}"
            )
        value = float(scores[self.plan.metric])
        if not math.isfinite(value):
            raise Diverged(f"{self.plan.metric} is {value}")
        return value

    def _at_the_end(self, model: PreTrainedModel, key: Key) -> dict[str, Any]:
        """What a run that is compared keeps besides: what every text adds to its score, and the same of the test split,
        which is read here and nowhere else. A score on test that is not finite is left out."""
        if key.phase != "final":
            return {}
        kept: dict[str, Any] = {"texts": self._text_sums(model, self.splits.dev)}
        if self.options.runs.test:
            with suppress(Diverged):
                kept |= {"test": self.score(model, self.splits.test)}
                kept |= {"test_texts": self._text_sums(model, self.splits.test)}
        return kept

    @torch.no_grad()
    def _text_sums(self, model: PreTrainedModel, split: Sequence[Any]) -> TextSums | None:
        tally = self.task.tuned(model, self.splits.dev).tallies(model, split).get(self.plan.metric)
        return None if tally is None else text_sums(tally)

    def _beyond(self, model: PreTrainedModel) -> tuple[Length, ...]:
        """On the dev split, longer pieces of it at once than in training. What ends in no number is left out."""
        found = []
        for times, task in self.longer.items():
            with suppress(Diverged):
                found.append(Length(times, self.score(model, self.splits.dev, task)))
        return tuple(found)

    def _check_plan(self) -> None:
        """Refuse a plan that claims something and whose runs, all done, could not be judged."""
        if self.plan.exploratory:
            return
        for arm, against in self.plan.primary:
            if is_larger(*(sizes := (self.sizes[arm], self.sizes[against]))):
                raise ValueError(
                    f"{arm} must not be larger than its rival {against}, got {sizes[0]:,} and {sizes[1]:,}"
                )
        for budget in self.plan.budgets:
            tokens = round(self.steps(budget) * self.tokens_a_step)
            if is_off(tokens, budget):
                raise ValueError(
                    f"budgets must be whole numbers of steps, which have {self.tokens_a_step:,.1f} tokens on average: "
                    f"the nearest to {budget:,} is {tokens:,}, {self.steps(budget)} of them"
                )

    def _check_own_arms(self) -> None:
        """Let every arm that a user defined learn from two examples: a mistake in it is found before hours of runs."""
        settings = replace(self.options.settings, compile=False)
        for arm, matched in map(arm_named, self.plan.arms):
            if not is_own(arm):
                continue
            try:
                with undisturbed(self.device):
                    model = build(arm, self.config, self.model_class, matched=matched, seed=0)
                    learner = Learner(model, settings, join(settings))
                    batch = self.task.collate(self.rows[:2])
                    counted = count(batch, model)
                    learner.step([Piece(batch, counts=True)], [counted], counted, settings.learning_rate)
            except Exception as error:
                raise ValueError(f"arm {arm.name!r} cannot be trained: {type(error).__name__}: {error}") from error

    def _parameters(self, name: str) -> int:
        arm, matched = arm_named(name)
        config = config_of(arm, self.config, self.model_class, matched=matched)
        return parameters(config, self.model_class, arm.attention)

    def _tokens_a_step(self) -> float:
        """The mean over an epoch; batches by tokens are made by the loop's own rule."""
        settings = replace(self.options.settings, epochs=1.0, steps=None)
        steps = total_steps(settings, len(self.rows), lengths_of(settings, self.rows))
        return sum(map(self.task.tokens_of, self.rows)) / steps


class _SeededCollate:
    """Collates with a random stream of its own: what a model draws, for dropout say, does not change its batches."""

    def __init__(self, collate: Callable[[list[Features]], Mapping[str, Tensor]], seed: int) -> None:
        self.collate, self.state = collate, torch.Generator().manual_seed(seed).get_state()

    def __call__(self, rows: list[Features]) -> Mapping[str, Tensor]:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.state)
            made = self.collate(rows)
            self.state = torch.get_rng_state()
        return made


class _Looks:
    """Looks at the dev split while a run is trained: what they said, and how long they took."""

    def __init__(self, lab: Laboratory, *, weights: bool) -> None:
        self.lab, self.wants_weights = lab, weights
        self.seconds: list[float] = []
        self.layers: list[tuple[float, ...]] = []
        self.uniform: float | None = None

    def __call__(self, model: PreTrainedModel) -> Mapping[str, float]:
        began = time.monotonic()
        value = self.lab.score(model, self.lab.splits.dev)
        if self.wants_weights:
            self._look_inside(model)
        self.seconds.append(time.monotonic() - began)
        return {"value": value}

    def read(self, lines: Sequence[Mapping[str, Any]]) -> tuple[list[Point], float, float | None]:
        """The dev curve, seconds of training in all, and how far the largest gradient is above the usual one.

        A step takes the median of what steps took, looks left out: neither the first one, which may compile, nor what
        else the machine had to do for a moment is the arm's fault.
        """
        steps = [line for line in lines if line["kind"] == "step"]
        looks = {line["step"]: line["value"] for line in lines if line["kind"] == "evaluation"}
        looked = dict(zip(looks, self.seconds, strict=False))
        if not steps:
            return [], 0.0, None
        paces = [
            (after["seconds"] - before["seconds"] - looked.get(before["step"], 0.0)) / (after["step"] - before["step"])
            for before, after in pairwise(steps)
        ] or [steps[-1]["seconds"] / steps[-1]["step"]]
        pace = max(median(paces), 1e-9)
        tokens = {line["step"]: line["tokens"] for line in steps}
        curve = [Point(tokens[step], step * pace, value) for step, value in looks.items() if step in tokens]
        usual = median(line["gradient_norm"] for line in steps)
        tail = max(line["largest_gradient_norm"] for line in steps) / usual if usual > 0 else None
        return curve, steps[-1]["step"] * pace, tail

    def self_weights(self, curve: Sequence[Point]) -> tuple[SelfWeight, ...]:
        return tuple(SelfWeight(point.tokens, layers) for point, layers in zip(curve, self.layers, strict=False))

    def _look_inside(self, model: PreTrainedModel) -> None:
        """The mean self weight of every layer over some rows, and what it would be if all were attended to alike."""
        if not any(isinstance(module, SelfAttention) for module in model.modules()):
            return
        with torch.random.fork_rng(devices=[]):
            # The same words are hidden, the same questions quoted, in every look of every run.
            torch.manual_seed(0)
            batch = self.lab.task.collate(self.lab.rows[:LOOKED_AT])
        if "input_ids" not in batch:
            return
        # A decoder beside an encoder reads the labels.
        names = ("input_ids", "attention_mask", "cue_ids", *(["labels"] if model.config.is_encoder_decoder else []))
        given = {name: batch[name].to(model.device) for name in names if name in batch}
        with torch.random.fork_rng(devices=[]):
            found = self_weights(model, **given)
        seen = given.get("attention_mask", torch.ones_like(given["input_ids"])).bool()
        layers = [layer.float().mean(1) for layer in found]
        # Of that decoder the mask knows nothing.
        means = [layer[seen].mean() if layer.shape == seen.shape else layer.mean() for layer in layers]
        self.layers.append(tuple(round(float(mean), 6) for mean in means))
        causal = {module.is_causal for module in model.modules() if isinstance(module, SelfAttention)}
        if self.uniform is None and len(causal) == 1:
            self.uniform = _uniform(seen.sum(1).tolist(), is_causal=causal.pop())


def _uniform(lengths: Sequence[int], *, is_causal: bool) -> float:
    """What a token keeps of itself on average in texts of these lengths if it attends to all it sees alike."""
    kept = sum(sum(1 / (t + 1) for t in range(length)) if is_causal else 1.0 for length in lengths)
    return kept / sum(lengths)
