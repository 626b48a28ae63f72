"""goals: from an utterance to its goal, slots and confidence, or to the answer that it is out of scope.

Goals are classes, with one more for what is out of scope; slots are BIO tags of words, of which only those are possible
that occurred with the goal in training.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from twofold_runtime.checked import shown
from twofold_runtime.codec import Encoded, TextCodec, checked_text, softmax
from twofold_runtime.engine import Arrays
from twofold_runtime.folder import RunRecord
from twofold_runtime.predictions import GoalPrediction, Prediction, SlotValue
from twofold_runtime.tagging import best_path, may_follow_bio, spans_of
from twofold_runtime.tokens import BEGIN, END, PAD, WordVocabulary
from twofold_runtime.words import SPELLING, fine_words

# Words beyond which a text is cut, with a beginning and an end.
LONGEST = 512
# The class of what is out of scope; no goal can be called so.
OUTSIDE = ""
# The rule by which evidence is computed, as run.json names it: the sigmoid of the best goal's own logit.
EVIDENCE = "sigmoid_of_logit"


class PossibleTags(NamedTuple):
    """Tags that the words of a goal may have: their names, their places among all, and their transitions."""

    names: list[str]
    places: list[int]
    transitions: np.ndarray


class GoalsCodec(TextCodec):
    """calibration: temperature of confidences; threshold of evidence, below which an utterance is out of scope;
    transitions, (tags + 1, tags) scores of a row's tag being followed by a column's, the last row from the start.
    """

    task = "goals"
    reads_words = True
    reading_shape: ClassVar[Mapping[str, Any]] = {
        "goals": [str],
        "slot_labels": [str],
        "slots": {str: [str]},
        "evidence": str,
    }
    calibration_shape: ClassVar[Mapping[str, Any]] = {
        "temperature": float,
        "threshold": float,
        "transitions": [[float]],
    }
    per_token = frozenset({"slot_logits"})
    tokens: WordVocabulary

    @classmethod
    def check(cls, record: RunRecord, where: str) -> None:
        super().check(record, where)
        if record.reading["evidence"] != EVIDENCE:
            raise ValueError(f"{where}: reading: evidence must be {EVIDENCE}, got {shown(record.reading['evidence'])}")
        if not record.finished:
            return
        temperature, transitions = record.calibration["temperature"], record.calibration["transitions"]
        if temperature <= 0:
            raise ValueError(f"{where}: calibration: temperature must be above 0, got {temperature}")
        _check_transitions(transitions, len(record.reading["slot_labels"]), f"{where}: calibration: transitions")

    def __init__(self, reading: Mapping[str, Any], calibration: Mapping[str, Any], tokens: WordVocabulary) -> None:
        super().__init__(reading, calibration, tokens)
        labels = len(reading["slot_labels"])
        transitions = calibration.get("transitions")
        if transitions is not None:
            _check_transitions(transitions, labels, "transitions")
        self._transitions = np.zeros((labels + 1, labels)) if transitions is None else np.array(transitions, float)
        self._possible: dict[str, PossibleTags] = {}

    def encode(self, input: str) -> Encoded[str]:
        text = checked_text(input, may_be_empty=True)
        places = fine_words(text)[: LONGEST - 2]
        ids, features = self.tokens.encode(text[start:end] for start, end in places)
        none = [PAD] * SPELLING
        row = {
            "input_ids": np.array([BEGIN, *ids, END], np.int64),
            "cue_ids": np.array([none, *features, none], np.int64),
        }
        return Encoded(text, (row,), places)

    def decode(self, encoded: Encoded[str], outputs: Sequence[Arrays]) -> GoalPrediction:
        (output,), text, places = outputs, encoded.input, encoded.places
        logits = output["goal_logits"].astype(np.float64)
        best, evidence = (value.item() for value in best_goals(logits))
        confidence = softmax(logits / self.calibration.get("temperature", 1.0))[best]
        goal = self.reading["goals"][best]
        scores = output["slot_logits"][1 : 1 + len(places)].astype(np.float64)
        slots = tuple(
            SlotValue(name, text[start:end], start, end)
            for name, start, end in spans_of(places, self._best_tags(scores, goal))
        )
        is_accepted = evidence >= self.calibration.get("threshold", 0.0)
        return GoalPrediction(
            text=text,
            goal=goal if is_accepted else None,
            confidence=float(confidence),
            slots=slots if is_accepted else (),
            truncated=True if len(places) == LONGEST - 2 and len(fine_words(text)) > len(places) else None,
            best_goal=goal,
            best_slots=slots,
            evidence=evidence,
        )

    def shown(self, prediction: Prediction) -> str:
        slots = ", ".join(f"{slot['name']} = {slot['value']!r}" for slot in prediction["slots"])
        return f"{prediction['text']}\n  {goal_shown(prediction)}{': ' + slots if slots else ''}"

    def _best_tags(self, scores: np.ndarray, goal: str) -> list[str]:
        """Tags of words with these scores (words, labels), chosen together."""
        if goal not in self._possible:
            self._possible[goal] = self._tags_of(goal)
        names, places, transitions = self._possible[goal]
        if not len(scores) or len(names) == 1:
            return ["O"] * len(scores)
        return [names[tag] for tag in best_path(scores[:, places], transitions)]

    def _tags_of(self, goal: str) -> PossibleTags:
        slots, labels = self.reading["slots"].get(goal, ()), self.reading["slot_labels"]
        places = [place for place, label in enumerate(labels) if label == "O" or label[2:] in slots]
        names = [labels[place] for place in places]
        may = np.array([[may_follow_bio(after, before) for after in names] for before in (*names, None)])
        return PossibleTags(names, places, np.where(may, self._transitions[[*places, len(labels)]][:, places], -np.inf))


def _check_transitions(transitions: Sequence[Sequence[float]], labels: int, where: str) -> None:
    if len(transitions) != labels + 1 or any(len(row) != labels for row in transitions):
        raise ValueError(f"{where} must be {labels + 1} rows of {labels} numbers")


def goal_shown(prediction: Mapping[str, Any]) -> str:
    """The goal and its confidence, or that there is none and the confidence of the best one."""
    confidence = f"{prediction['confidence']:.0%}"
    goal = prediction["goal"]
    return f"{goal} ({confidence})" if goal else f"out of scope (the best goal has {confidence})"


def best_goals(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of logits (..., goals) the place of the best goal, and its evidence. What is out of scope, the first, is none."""
    best = 1 + logits[..., 1:].argmax(-1)
    # In double precision: the sigmoid of 17 is 1 in single.
    highest = logits[..., 1:].max(-1).astype(np.float64)
    return best, np.exp(-np.logaddexp(0.0, -highest))
