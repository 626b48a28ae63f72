"""From an utterance to its goal, slots and confidence, or to the answer that it is out of scope."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.data import assistant
from twofold.data.bio import tags_of
from twofold.data.examples import Splits, Utterance
from twofold.data.files import DataError
from twofold.data.goal_files import labels_of, read_goals
from twofold.data.goals import goals
from twofold.models.configs import GoalConfig
from twofold.models.encoder import EncoderForGoal
from twofold.tasks.calibration import best_temperature, best_threshold
from twofold.tasks.hiding import with_word_dropout
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import RATES, sized
from twofold.tasks.tallies import Tally, auroc, calibration_error, span_scores, verdicts
from twofold.tasks.task import IGNORED, CalibratedTask, Features, Result
from twofold.tasks.vocabulary import word_tokenizer
from twofold_runtime import actions
from twofold_runtime.folder import read_run, write_whole
from twofold_runtime.goals import EVIDENCE, LONGEST, OUTSIDE, best_goals
from twofold_runtime.predictions import GoalPrediction
from twofold_runtime.tokens import UNKNOWN
from twofold_runtime.words import fine_words

# Share of slots whose value is replaced by unknown words in a training batch.
SUBSTITUTED = 0.15
EMBEDDED_ACTIONS = Path(assistant.__file__).with_name(actions.FILE)


class Goals(CalibratedTask[Utterance]):
    name = "goals"
    metric = "exact_match"
    metrics = ("exact_match", "goal_accuracy", "slot_f1", "calibration_error", "out_of_scope_auroc")
    lower = ("calibration_error",)
    model_class = EncoderForGoal

    @classmethod
    def examples(cls, data: Path | None, seed: int = 0) -> Splits[Utterance]:
        splits = goals(seed) if data is None else read_goals(data)
        if splits.train and not any(one.goal for one in splits.train):
            raise DataError(data or "data", None, "train has no goal, only what is out of scope")
        return splits

    @staticmethod
    def labels(example: Utterance) -> Iterable[str]:
        return labels_of(example)

    @classmethod
    def prepared(cls, train: Sequence[Utterance]) -> Self:
        tokenizer = word_tokenizer(one.text[start:end] for one in train for start, end in fine_words(one.text))
        slots = sorted({slot.name for one in train for slot in one.slots})
        reading = {
            "slots": slots_of_goals(train),
            "goals": [OUTSIDE, *sorted({one.goal for one in train if one.goal})],
            "evidence": EVIDENCE,
            "slot_labels": ["O", *(f"{place}-{name}" for name in slots for place in "BI")],
        }
        return cls(tokenizer, reading)

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        return {"epochs": 12.0, "batch_size": 64, "learning_rate": RATES[size]}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        more = {"max_position_embeddings": LONGEST, "goal_by_tokens": True}
        return sized(GoalConfig, options, len(self.tokenizer), **more, **self.label_counts())

    def known_labels(self) -> frozenset[str]:
        return frozenset({*self.reading["goals"], *(label[2:] for label in self.reading["slot_labels"])})

    def label_counts(self) -> dict[str, int]:
        return {"num_labels": len(self.reading["goals"]), "num_slot_labels": len(self.reading["slot_labels"])}

    def features(self, example: Utterance) -> Features:
        """Words, their slot labels, the goal, and in which slot (from 1 on) a word is."""
        encoded = self.encode(example)
        words = encoded.places
        tags = tags_of(tuple(words), example.slots)
        labels = [IGNORED, *(self.reading["slot_labels"].index(tag) for tag in tags), IGNORED]
        starts = [slot.start for slot in example.slots]
        inside = [
            sum(start < word.end for start in starts) if tag != "O" else 0
            for word, tag in zip(words, tags, strict=True)
        ]
        return {
            **encoded.rows[0],
            "slot_labels": np.array(labels),
            "slot_places": np.array([0, *inside, 0]),
            "labels": self.reading["goals"].index(example.goal or OUTSIDE),
        }

    def input_of(self, example: Utterance) -> str:
        return example.text

    def doubts(self, train: Sequence[Utterance]) -> list[str]:
        """Slots are whole words."""
        slots = [(one.text, slot) for one in train for slot in one.slots]
        edges = ({at for word in fine_words(text) for at in word} >= {slot.start, slot.end} for text, slot in slots)
        inside = sum(not on_edges for on_edges in edges)
        return [f"{inside} of {len(slots)} slots begin or end inside a word: found are whole words"] if inside else []

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        """With slot substitution and token dropout, drawn anew every time.

        Names and titles will be new ones, so a substituted value is made of unknown words, each spelt like one of some
        slot of the batch: the words around it must do to find it.
        """
        tensors = super().collate(batch)
        ids, features, places = tensors["input_ids"], tensors["cue_ids"], tensors.pop("slot_places")
        in_slot = places > 0
        substituted = (torch.rand(len(ids), int(places.max()) + 1).gather(1, places) < SUBSTITUTED) & in_slot
        ids = ids.masked_fill(substituted, UNKNOWN)
        spellings = features[in_slot]
        features[substituted] = spellings[torch.randint(max(len(spellings), 1), (int(substituted.sum()),))]
        return with_word_dropout({**tensors, "input_ids": ids, "cue_ids": features})

    def judged(self, examples: Sequence[Utterance], answers: Sequence[GoalPrediction]) -> dict[str, Tally]:
        """Accuracies in per cent.

        goal_accuracy and slot_f1 are of what is in scope, before anything is rejected; exact_match wants goal and all
        slots, and rejection of what is out of scope. A slot is right with its name and place. out_of_scope_auroc ranks
        by evidence; calibration_error is the expected one of the best goal's confidence.
        """
        pairs = [*zip(examples, answers, strict=True)]
        in_scope = [one.goal is not None for one in examples]
        right = [answer.best_goal == one.goal for one, answer in pairs]
        tallies = {"exact_match": verdicts([is_exact(*pair) for pair in pairs])}
        if any(in_scope):
            tallies["goal_accuracy"] = verdicts(right, in_scope)
            if any(one.slots for one in examples if one.goal):
                # What is out of scope has no slots to find: it keeps its row, and adds nothing.
                truth = [_spans(one.slots) if one.goal else [] for one in examples]
                predicted = [_spans(answer.best_slots) if one.goal else [] for one, answer in pairs]
                tallies["slot_f1"] = span_scores(truth, predicted)["f1"]
            confidence = [answer.confidence for answer, inside in zip(answers, in_scope, strict=True) if inside]
            tallies["calibration_error"] = calibration_error(
                confidence, [hit for hit, inside in zip(right, in_scope, strict=True) if inside]
            )
        if any(in_scope) and not all(in_scope):
            tallies["out_of_scope_auroc"] = auroc([answer.evidence for answer in answers], in_scope)
        return tallies

    def calibration(
        self, model: PreTrainedModel, examples: Sequence[Utterance], results: Sequence[Result]
    ) -> dict[str, Any]:
        logits = np.stack([outputs[0]["goal_logits"] for _, outputs in results])
        places = {goal: place for place, goal in enumerate(self.reading["goals"])}
        # A goal that train lacks has no place, and is never right.
        truth = np.array([places.get(one.goal or OUTSIDE, -1) for one in examples])
        outside, inside = truth == 0, truth > 0
        # What is outside has no right goal: only what is inside tells whether confidence is honest.
        temperature = self.codec.calibration.get("temperature", 1.0)
        if inside.any():
            temperature = best_temperature(logits[inside], truth[inside])
        best, evidence = best_goals(logits)
        threshold = best_threshold(evidence.tolist(), (best == truth).tolist(), outside.tolist())
        return {"temperature": temperature, "threshold": threshold, "transitions": _transitions(model)}

    def write_files(self, folder: Path) -> None:
        """The embedded actions, for a run of the embedded goals that has none."""
        if read_run(folder).training["data"] is None and not (folder / actions.FILE).exists():
            write_whole(folder / actions.FILE, EMBEDDED_ACTIONS.read_bytes())


def slots_of_goals(train: Iterable[Utterance]) -> dict[str, list[str]]:
    """Names of the slots that occur with every goal."""
    slots: dict[str, set[str]] = {}
    for one in train:
        if one.goal is not None:
            slots.setdefault(one.goal, set()).update(slot.name for slot in one.slots)
    return {goal: sorted(names) for goal, names in sorted(slots.items())}


def is_exact(example: Utterance, answer: GoalPrediction) -> bool:
    """Whether goal and all slots are right, or what is out of scope is rejected."""
    if example.goal is None or answer.goal is None:
        return example.goal == answer.goal
    return answer.goal == example.goal and _spans(answer.slots) == _spans(example.slots)


def _spans(slots: Iterable[Any]) -> list[tuple[str, int, int]]:
    return [(slot.name, slot.start, slot.end) for slot in slots]


def _transitions(model: Any) -> list[list[float]]:
    """Scores of a row's slot label being followed by a column's; the last row is the start."""
    weight = model.moves.weight.detach()
    # Under FSDP a process has a part of it.
    weight = weight.full_tensor() if hasattr(weight, "full_tensor") else weight
    return weight.float().cpu().T.tolist()
