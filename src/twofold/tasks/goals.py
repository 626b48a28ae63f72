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
from twofold.tasks.slots import counted, likeliest
from twofold.tasks.spans import spans_of
from twofold.tasks.task import IGNORED, Features, Task, batches

WORD = re.compile(r"\w+|[^\w\s]")
# Shares of slots whose value a training batch garbles, and of tokens that it does not show.
GARBLED, HIDDEN = 0.3, 0.05
# Tokens beyond which a text is cut.
LONGEST = 512
# The class of what is out of scope; no goal can be called so.
OUTSIDE = ""


class Read(NamedTuple):
    """A text as the model sees it: places of its words, every word's first token, places of the tokens, the tokens."""

    words: list[tuple[int, int]]
    firsts: list[int]
    offsets: list[tuple[int, int]]
    ids: list[int]


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
        words = [tags_of(tuple(word.span() for word in WORD.finditer(one.text)), one.slots) for one in train]
        state = {
            "slots": counted(train, words),
            "goals": [OUTSIDE, *sorted({one.goal for one in train if one.goal})],
            "slot_labels": ["O", *(f"{place}-{name}" for name in slots for place in "BI")],
            "threshold": 0.5,
        }
        return cls(tokenizer, state)

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        return {"epochs": 14.0, "batch_size": 64, "learning_rate": {"tiny": 2e-3, "small": 1e-3, "base": 5e-4}[size]}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        labels = {"num_labels": len(self.state["goals"]), "num_slot_labels": len(self.state["slot_labels"])}
        return sized(EncoderConfig, options, len(self.tokenizer), max_position_embeddings=LONGEST, **labels)

    def features(self, example: Utterance) -> Features:
        """Numbers of the tokens, their slot labels, the goal, and in which slot (from 1 on) a token is."""
        words, firsts, offsets, ids = self._read(example.text)
        slot_labels, slot_places = [IGNORED] * len(ids), [0] * len(ids)
        for first, tag in zip(firsts, tags_of(tuple(words), example.slots), strict=True):
            slot_labels[first] = self.state["slot_labels"].index(tag)
        for number, slot in enumerate(example.slots, 1):
            for token, (start, end) in enumerate(offsets):
                if start < slot.end and slot.start < end:
                    slot_places[token] = number
        goal = self.state["goals"].index(example.goal or OUTSIDE)
        return {"input_ids": ids, "slot_labels": slot_labels, "slot_places": slot_places, "labels": goal}

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        """With some slots' values garbled and some tokens hidden, anew every time.

        Names and titles will be new ones: what stands around a value must do to find it.
        """
        made = super().collate(batch)
        ids, places = made["input_ids"], made.pop("slot_places")
        garbled = (torch.rand(len(ids), int(places.max()) + 1).gather(1, places) < GARBLED) & (places > 0)
        special = len(self.tokenizer.all_special_ids)
        ids = torch.where(garbled, torch.randint(special, len(self.tokenizer), ids.shape), ids)
        return {**made, "input_ids": some_hidden(ids, self.tokenizer, HIDDEN)}

    def scores(self, model: PreTrainedModel, examples: Sequence[Utterance]) -> dict[str, float]:
        """Accuracies in per cent.

        goal_accuracy and slot_f1 (seqeval's, over words) are of what is in scope; exact_match wants goal and all slots,
        and rejection of what is out of scope. out_of_scope_auroc ranks by confidence; calibration_error is the expected
        one of the best goal's confidence.
        """
        return self.judged(examples, self.found(model, [one.text for one in examples]))

    def judged(self, examples: Sequence[Utterance], found: Sequence[Found]) -> dict[str, float]:
        """The scores of what was found."""
        inside = [(one, what) for one, what in zip(examples, found, strict=True) if one.goal]
        exact = [self.is_exact(one, what) for one, what in zip(examples, found, strict=True)]
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
        [found] = self.found(model, [text])
        told = {"text": text, "goal": found.goal, "confidence": found.confidence, "slots": [
            {"name": slot.name, "value": text[slot.start : slot.end], "start": slot.start, "end": slot.end}
            for slot in found.slots
        ]}  # fmt: skip
        return told if self.is_accepted(found) else told | {"goal": None, "slots": []}

    def shown(self, prediction: Mapping[str, Any]) -> str:
        slots = ", ".join(f"{slot['name']} = {slot['value']!r}" for slot in prediction["slots"])
        goal = prediction["goal"] or "out of scope"
        return f"{prediction['text']}\n  {goal} ({prediction['confidence']:.0%}){': ' + slots if slots else ''}"

    def tune(self, model: PreTrainedModel, dev: Sequence[Utterance]) -> None:
        logits, _ = self._logits(model, [self._read(one.text) for one in dev])
        truth = torch.tensor([self.state["goals"].index(one.goal or OUTSIDE) for one in dev])
        config = cast("EncoderConfig", model.config)
        config.goal_temperature = best_temperature(logits, truth)
        weights = self._weights(model, logits)
        confidence, best = weights[:, 1:].max(1)
        self.state["threshold"] = best_threshold(
            confidence.tolist(), (best + 1 == truth).tolist(), (truth == 0).tolist()
        )

    def _read(self, text: str) -> Read:
        told = self.tokenizer(text, return_offsets_mapping=True, truncation=True, max_length=LONGEST)
        offsets, words, firsts = told["offset_mapping"], [], []
        for word in WORD.finditer(text):
            touched = (place for place, (start, end) in enumerate(offsets) if start < word.end() and word.start() < end)
            # A word beyond the longest text that a model reads has no token.
            if (first := next(touched, None)) is not None:
                words.append(word.span())
                firsts.append(first)
        return Read(words, firsts, offsets, list(told["input_ids"]))

    def found(self, model: PreTrainedModel, texts: Sequence[str]) -> list[Found]:
        """The best goal of every text, accepted or not."""
        read = [self._read(text) for text in texts]
        logits, tag_logits = self._logits(model, read)
        confidence, best = self._weights(model, logits)[:, 1:].max(1)
        found = []
        for one, sure, place, of_tags in zip(read, confidence.tolist(), best.tolist(), tag_logits, strict=True):
            goal = self.state["goals"][place + 1]
            tags = likeliest(of_tags, self.state["slot_labels"], goal, self.state["slots"])
            found.append(Found(goal, sure, spans_of(one.words, tags)))
        return found

    @torch.no_grad()
    def _logits(self, model: PreTrainedModel, read: Sequence[Read]) -> tuple[Tensor, list[Tensor]]:
        """Of the goals (N, goals), and for every text of its words' tags (words, labels)."""
        goals, tags = torch.zeros(len(read), len(self.state["goals"])), [torch.empty(0)] * len(read)
        for places, batch in batches([{"input_ids": one.ids} for one in read], self.tokenizer.pad_token_id):
            out = model(**{name: tensor.to(model.device) for name, tensor in batch.items()})
            goals[places] = out.goal_logits.float().cpu()
            slots = out.slot_logits.float().cpu()
            for row, place in enumerate(places):
                tags[place] = slots[row, read[place].firsts]
        return goals, tags

    def _weights(self, model: PreTrainedModel, logits: Tensor) -> Tensor:
        return (logits / cast("EncoderConfig", model.config).goal_temperature).softmax(-1)

    def is_accepted(self, found: Found) -> bool:
        """Whether it is believed, and not taken to be out of scope."""
        return found.confidence >= self.state["threshold"]

    def is_exact(self, example: Utterance, found: Found) -> bool:
        """Whether goal and all slots are right, or what is out of scope is rejected."""
        if example.goal is None:
            return not self.is_accepted(found)
        return self.is_accepted(found) and found.goal == example.goal and found.slots == example.slots


def _slot_f1(pairs: Sequence[tuple[Utterance, Found]]) -> float:
    from seqeval.metrics import f1_score

    truth, guess = [], []
    for one, found in pairs:
        words = tuple(word.span() for word in re.finditer(r"\S+", one.text))
        truth.append(list(tags_of(words, one.slots)))
        guess.append(list(tags_of(words, found.slots)))
    found: Any = f1_score(truth, guess, zero_division=0)  # type: ignore[arg-type]
    return float(found)
