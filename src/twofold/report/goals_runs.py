"""Runs of one goal set side by side: what a page shows of them, and what a program reads.

Everything comes from the finished run folders and the data, so that a report can be made again at any time.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from twofold.data.examples import Utterance
from twofold.models.maps import self_weights
from twofold.tasks.goals import Goals, is_exact
from twofold.tasks.runs import Run, open_run
from twofold.tasks.tallies import Bin, reliability, scores_of
from twofold.tasks.task import tensors_of
from twofold.training.folder import read_metrics
from twofold_runtime.codec import Encoded, batches
from twofold_runtime.predictions import GoalPrediction

OUTSIDE = "out of scope"
# How many dev utterances are timed, and how many self weights are averaged over.
TIMED, AVERAGED = 50, 200

Prediction = Mapping[str, Any]
# What would be done about a prediction, in words; None where nothing would be.
Describe = Callable[[Prediction], str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What a model attends to in a text: weights (heads, T, T) and self weights (heads, T) of every layer."""

    text: str
    tokens: list[str]
    maps: list[Tensor]
    kept: list[Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One of the runs, with all that is shown of it."""

    name: str
    run: Run
    parameters: int
    lines: list[dict[str, Any]]
    dev: dict[str, float]
    test: dict[str, float]
    answers: list[GoalPrediction]
    """For the test split."""
    exact: list[bool]
    predictions: list[dict[str, Any]]
    looks: list[Look]
    kept: Tensor
    """Mean self weight (layers, heads) over dev utterances."""
    milliseconds: float
    """To predict one utterance, the median."""

    @property
    def task(self) -> Goals:
        return _goals(self.run)

    @property
    def end(self) -> dict[str, Any]:
        return self.lines[-1]

    def told(self) -> dict[str, Any]:
        """For programs."""
        names = ("seconds", "step", "tokens", "best_step")
        told = {"run": str(self.run.folder), "parameters": self.parameters, **{name: self.end[name] for name in names}}
        return told | {"milliseconds": self.milliseconds, "dev": self.dev, "test": self.test}


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Arms that were trained alike on the same data; the first is the one in question, the second its control."""

    arms: tuple[Arm, Arm]
    test: list[Utterance]
    data: str | None
    """Where both learned from; None for the embedded goals."""
    settings: dict[str, Any]
    uniform: float
    """What a token would keep of itself if it attended to all alike, the mean over the same dev utterances."""

    def told(self) -> dict[str, Any]:
        answers = {arm.name: arm.predictions for arm in self.arms}
        return {"arms": {arm.name: arm.told() for arm in self.arms}, "predictions": answers}

    @property
    def alone(self) -> tuple[int, int]:
        """Test utterances that only the first got right, and only the second."""
        pairs = list(zip(*(arm.exact for arm in self.arms), strict=True))
        return sum(one and not other for one, other in pairs), sum(other and not one for one, other in pairs)


def compare(folders: Sequence[Path], utterances: Sequence[str], describe: Describe | None = None) -> Comparison:
    """Open two finished runs of goals on the same data, and read the test split: once each, nothing is chosen by it.

    describe says what would be done about a prediction, which gets it as "action".
    """
    if len(folders) != 2:
        raise ValueError(f"folders must be two runs, got {len(folders)}")
    if not utterances or not all(text.strip() for text in utterances):
        raise ValueError(f"utterances must be texts that say something, got {list(utterances)}")
    runs = [open_run(folder) for folder in folders]
    source, other = (run.data for run in runs)
    if source != other:
        raise ValueError(f"runs must be of the same data, got {source} and {other}")
    splits = _goals(runs[0]).examples(source)
    if lacking := [name for name in ("dev", "test") if name in splits.missing]:
        raise ValueError(f"{source} has no {lacking[0]} split to compare runs on")
    times = _milliseconds(runs, [one.text for one in splits.dev[:TIMED]])
    averaged = [_goals(runs[0]).encode(one) for one in splits.dev[:AVERAGED]]
    arms = [
        _arm(run, splits.dev, splits.test, utterances, averaged, speed, describe)
        for run, speed in zip(runs, times, strict=True)
    ]
    return Comparison(
        arms=(arms[0], arms[1]),
        test=splits.test,
        data=None if source is None else str(source),
        settings=dict(runs[0].record.training["settings"]),
        # Every token counts once, so a text of T tokens counts T times 1 / T.
        uniform=len(averaged) / _tokens(averaged),
    )


def confusions(comparison: Comparison, place: int) -> Counter[tuple[str, str]]:
    """How often a goal of the test split (first) was taken for another (second), what is out of scope being one."""
    arm = comparison.arms[place]
    pairs = (
        (one.goal or OUTSIDE, answer.goal or OUTSIDE) for one, answer in zip(comparison.test, arm.answers, strict=True)
    )
    return Counter(pairs)


def most_confused(comparison: Comparison, most: int) -> list[str]:
    """The goals that take part in most errors of both arms, in order of name, out of scope last."""
    errors: Counter[str] = Counter()
    for place in range(len(comparison.arms)):
        for (truth, guess), count in confusions(comparison, place).items():
            if truth != guess:
                errors.update({truth: count, guess: count})
    return sorted((name for name, _ in errors.most_common(most)), key=lambda name: (name == OUTSIDE, name))


def calibration(comparison: Comparison, place: int) -> list[Bin]:
    """Of what is in scope, as the calibration error counts it."""
    pairs = [
        (one, answer)
        for one, answer in zip(comparison.test, comparison.arms[place].answers, strict=True)
        if one.goal is not None
    ]
    right = [answer.best_goal == one.goal for one, answer in pairs]
    return reliability([answer.confidence for _, answer in pairs], right)


@torch.no_grad()
def look(run: Run, text: str) -> Look:
    """A model's attention in a text: the true split weights, its own slot on the diagonal."""
    tokenizer, encoded = run.task.tokenizer, _goals(run).codec.encode(text)
    batch = _batch(run, [encoded])
    maps = run.model(**batch, output_attentions=True).attentions
    kept = self_weights(run.model, **batch)
    return Look(
        text=text,
        tokens=[tokenizer.bos_token, *(text[start:end] for start, end in encoded.places), tokenizer.eos_token],
        maps=[weights[0].float().cpu() for weights in maps],
        kept=[weights[0].float().cpu() for weights in kept],
    )


def _arm(
    run: Run,
    dev: Sequence[Utterance],
    test: Sequence[Utterance],
    utterances: Sequence[str],
    averaged: Sequence[Encoded[str]],
    milliseconds: float,
    describe: Describe | None,
) -> Arm:
    task = _goals(run)
    answers = task.answers(run.model, test)
    predictions: list[dict[str, Any]] = [dict(run.predict(text)) for text in utterances]
    if describe is not None:
        predictions = [prediction | {"action": describe(prediction)} for prediction in predictions]
    return Arm(
        name=run.record.training["model"]["attention"],
        run=run,
        parameters=run.model.num_parameters(),
        lines=read_metrics(run.folder),
        dev=task.scores(run.model, dev),
        test=scores_of(task.judged(test, answers)),
        answers=answers,
        exact=[is_exact(*pair) for pair in zip(test, answers, strict=True)],
        predictions=predictions,
        looks=[look(run, text) for text in utterances],
        kept=_kept(run, averaged),
        milliseconds=milliseconds,
    )


def _batch(run: Run, texts: Sequence[Encoded[str]]) -> dict[str, Tensor]:
    tensors = tensors_of([one.rows[0] for one in texts])
    return {name: tensor.to(run.model.device) for name, tensor in tensors.items()}


def _kept(run: Run, texts: Sequence[Encoded[str]]) -> Tensor:
    """Mean self weight (layers, heads) over all tokens of the texts."""
    totals = []
    for places in batches([_length(one) for one in texts], 64):
        batch = _batch(run, [texts[place] for place in places])
        mask = batch["attention_mask"][:, None]
        weights = self_weights(run.model, **batch)
        totals.append(torch.stack([(layer * mask).sum((0, 2)).double().cpu() for layer in weights]))
    return torch.stack(totals).sum(0) / _tokens(texts)


def _tokens(texts: Sequence[Encoded[str]]) -> int:
    return sum(map(_length, texts))


def _length(text: Encoded[str]) -> int:
    return len(text.rows[0]["input_ids"])


def _milliseconds(runs: Sequence[Run], texts: Sequence[str]) -> list[float]:
    """Median time of a prediction; the runs take turns, so that a busy moment meets them all."""
    times: list[list[float]] = [[] for _ in runs]
    for text in texts:
        for run, taken in zip(runs, times, strict=True):
            start = time.perf_counter()
            run.predict(text)
            taken.append(1000 * (time.perf_counter() - start))
    return [median(taken) for taken in times]


def _goals(run: Run) -> Goals:
    if not isinstance(run.task, Goals):
        raise ValueError(f"{run.folder} must be a run of goals, got one of {run.task.name}")
    return run.task
