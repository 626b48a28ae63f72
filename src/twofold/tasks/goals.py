"""From an utterance to its goal, slots and confidence, or to the word that it is none of ours.

Goals are classes, with one more for what is out of scope; slots are BIO tags of words, read at a word's first token. On
the dev split a temperature makes confidences honest, and a threshold says below which an utterance is rejected.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.data.bio import tags_of
from twofold.data.examples import Slot, Splits, Utterance
from twofold.data.goals import goals
from twofold.data.readers import check_known, labels_of, read_goals
from twofold.data.vocabulary import train_tokenizer
from twofold.models.configs import EncoderConfig
from twofold.models.encoder import EncoderForGoal
from twofold.tasks.calibration import best_temperature, best_threshold, expected_calibration_error
from twofold.tasks.hiding import some_hidden
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import sized
from twofold.tasks.spans import spans_of
from twofold.tasks.task import IGNORED, Features, Task, batches

WORD = re.compile(r"\w+|[^\w\s]")
# The class of what is out of scope; no goal can be called so.
OUTSIDE = ""


class Found(NamedTuple):
    """What a model makes of an utterance."""

    goal: str
    confidence: float
    slots: tuple[Slot, ...]


class Goals(Task[Utterance]):
    name = "goals"
    metric = "exact_match"
    model_class = EncoderForGoal

    @classmethod
    def examples(cls, data: Path | None, seed: int = 0) -> Splits[Utterance]:
        splits = goals(seed) if data is None else read_goals(data)
        check_known(splits, labels_of, "the embedded set" if data is None else data)
        return splits

    @classmethod
    def prepared(cls, train: Sequence[Utterance]) -> Self:
        tokenizer = train_tokenizer([one.text for one in train], "bpe", size=2048, lowercase=True, ends="both")
        slots = sorted({slot.name for one in train for slot in one.slots})
        state = {
            "goals": [OUTSIDE, *sorted({one.goal for one in train if one.goal})],
            "slot_labels": ["O", *(f"{place}-{name}" for name in slots for place in "BI")],
            "threshold": 0.5,
        }
        return cls(tokenizer, state)

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        return {"epochs": 12.0, "batch_size": 64, "learning_rate": {"tiny": 2e-3, "small": 1e-3, "base": 5e-4}[size]}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        labels = {"num_labels": len(self.state["goals"]), "num_slot_labels": len(self.state["slot_labels"])}
        return sized(EncoderConfig, options, len(self.tokenizer), max_position_embeddings=512, **labels)

    def features(self, example: Utterance) -> Features:
        words, firsts, ids = self._read(example.text)
        tags = tags_of(words, example.slots)
        slot_labels = [IGNORED] * len(ids)
        for first, tag in zip(firsts, tags, strict=True):
            slot_labels[first] = self.state["slot_labels"].index(tag)
        return {
            "input_ids": ids,
            "slot_labels": slot_labels,
            "labels": self.state["goals"].index(example.goal or OUTSIDE),
        }

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        """With some tokens hidden, anew every time: names and titles will be new ones, so nobody may lean on them."""
        made = super().collate(batch)
        return {**made, "input_ids": some_hidden(made["input_ids"], self.tokenizer)}

    def scores(self, model: PreTrainedModel, examples: Sequence[Utterance]) -> dict[str, float]:
        """Accuracies in per cent.

        goal_accuracy and slot_f1 (seqeval's, over words) are of what is in scope; exact_match wants goal and all slots,
        and rejection of what is out of scope. out_of_scope_auroc ranks by confidence; calibration_error is the expected
        one of the best goal's confidence.
        """
        logits, tags = self._run(model, [one.text for one in examples])
        found = [
            self._found(one.text, row, tag)
            for one, row, tag in zip(examples, self._weights(model, logits), tags, strict=True)
        ]
        inside = [(one, what) for one, what in zip(examples, found, strict=True) if one.goal]
        exact = [self._is_exact(one, what) for one, what in zip(examples, found, strict=True)]
        scores = {"exact_match": 100 * sum(exact) / len(exact)}
        if inside:
            right = [what.goal == one.goal for one, what in inside]
            scores["goal_accuracy"] = 100 * sum(right) / len(right)
            if any(one.slots for one, _ in inside):
                scores["slot_f1"] = 100 * _slot_f1(inside)
            scores["calibration_error"] = expected_calibration_error([what.confidence for _, what in inside], right)
        outside = [one.goal is None for one in examples]
        if any(outside) and not all(outside):
            from sklearn.metrics import roc_auc_score

            scores["out_of_scope_auroc"] = float(roc_auc_score(outside, [-what.confidence for what in found]))
        return scores

    def predict(self, model: PreTrainedModel, text: str) -> dict[str, Any]:
        logits, tags = self._run(model, [text])
        found = self._found(text, self._weights(model, logits)[0], tags[0])
        told = {"text": text, "goal": found.goal, "confidence": found.confidence, "slots": [
            {"name": slot.name, "value": text[slot.start : slot.end], "start": slot.start, "end": slot.end}
            for slot in found.slots
        ]}  # fmt: skip
        return told if self._is_accepted(found) else told | {"goal": None, "slots": []}

    def shown(self, prediction: Mapping[str, Any]) -> str:
        slots = ", ".join(f"{slot['name']} = {slot['value']!r}" for slot in prediction["slots"])
        goal = prediction["goal"] or "out of scope"
        return f"{prediction['text']}\n  {goal} ({prediction['confidence']:.0%}){': ' + slots if slots else ''}"

    def tune(self, model: PreTrainedModel, dev: Sequence[Utterance]) -> None:
        logits, _ = self._run(model, [one.text for one in dev])
        truth = torch.tensor([self.state["goals"].index(one.goal or OUTSIDE) for one in dev])
        config = cast("EncoderConfig", model.config)
        config.goal_temperature = best_temperature(logits, truth)
        weights = self._weights(model, logits)
        confidence, best = weights[:, 1:].max(1)
        self.state["threshold"] = best_threshold(
            confidence.tolist(), (best + 1 == truth).tolist(), (truth == 0).tolist()
        )

    def _read(self, text: str) -> tuple[tuple[tuple[int, int], ...], list[int], list[int]]:
        """Places of the words in the text, of every word's first token, and the tokens."""
        told = self.tokenizer(text, return_offsets_mapping=True, truncation=True, max_length=512)
        offsets, words, firsts = told["offset_mapping"], [], []
        for word in WORD.finditer(text):
            first = next(
                (place for place, (start, end) in enumerate(offsets) if start < word.end() and word.start() < end), None
            )
            if first is not None:
                words.append(word.span())
                firsts.append(first)
        return tuple(words), firsts, list(told["input_ids"])

    @torch.no_grad()
    def _run(self, model: PreTrainedModel, texts: Sequence[str]) -> tuple[Tensor, list[list[int]]]:
        """Logits of the goals (N, goals), and the best tag of every word of every text."""
        read = [self._read(text) for text in texts]
        logits, tags = torch.zeros(len(texts), len(self.state["goals"])), [[] for _ in texts]
        features = [{"input_ids": ids} for _, _, ids in read]
        for places, batch in batches(features, self.tokenizer.pad_token_id):
            out = model(**{name: tensor.to(model.device) for name, tensor in batch.items()})
            logits[places] = out.goal_logits.float().cpu()
            best = out.slot_logits.argmax(-1).cpu()
            for row, place in enumerate(places):
                tags[place] = best[row, read[place][1]].tolist()
        return logits, tags

    def _weights(self, model: PreTrainedModel, logits: Tensor) -> Tensor:
        return (logits / cast("EncoderConfig", model.config).goal_temperature).softmax(-1)

    def _found(self, text: str, weights: Tensor, tags: Sequence[int]) -> Found:
        confidence, best = weights[1:].max(0)
        words, _, _ = self._read(text)
        return Found(
            self.state["goals"][best + 1],
            float(confidence),
            spans_of(words, [self.state["slot_labels"][tag] for tag in tags]),
        )

    def _is_accepted(self, found: Found) -> bool:
        return found.confidence >= self.state["threshold"]

    def _is_exact(self, example: Utterance, found: Found) -> bool:
        if example.goal is None:
            return not self._is_accepted(found)
        return self._is_accepted(found) and found.goal == example.goal and found.slots == example.slots


def _slot_f1(pairs: Sequence[tuple[Utterance, Found]]) -> float:
    from seqeval.metrics import f1_score

    truth, guess = [], []
    for one, found in pairs:
        words = tuple(word.span() for word in re.finditer(r"\S+", one.text))
        truth.append(list(tags_of(words, one.slots)))
        guess.append(list(tags_of(words, found.slots)))
    found: Any = f1_score(truth, guess, zero_division=0)  # type: ignore[arg-type]
    return float(found)
