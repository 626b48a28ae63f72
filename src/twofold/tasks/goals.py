"""From an utterance to its goal, slots and confidence, or to the word that it is none of ours.

Goals are classes, with one more for what is out of scope; slots are BIO tags of words. On the dev split a temperature
makes confidences honest, and a threshold says how much must speak for a goal lest the utterance is rejected.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from twofold.data.bio import spans_of, tags_of
from twofold.data.examples import Slot, Splits, Utterance
from twofold.data.files import DataError
from twofold.data.goal_files import labels_of, read_goals
from twofold.data.goals import goals
from twofold.data.readers import check_known
from twofold.models.configs import GoalConfig
from twofold.models.encoder import EncoderForGoal
from twofold.tasks.calibration import best_temperature, best_threshold, expected_calibration_error
from twofold.tasks.options import ModelOptions
from twofold.tasks.sizes import RATES, sized
from twofold.tasks.slots import SlotTags, slots_of_goals
from twofold.tasks.tallies import Tally, named_spans, verdicts
from twofold.tasks.task import IGNORED, Features, Task, batches, check_labels
from twofold.tasks.words import SPELLING, Place, encoded, hidden, learned_tokenizer, short_words

# Share of slots whose value is a new one in a training batch.
RENEWED = 0.15
# Words beyond which a text is cut, with a beginning and an end.
LONGEST = 512
# The class of what is out of scope; no goal can be called so.
OUTSIDE = ""


class Read(NamedTuple):
    """A text as the model sees it: places of its words, and ids and cues of them between a beginning and an end."""

    words: list[Place]
    features: Features


class Found(NamedTuple):
    """What a model makes of an utterance.

    confidence is the goal's probability among all; evidence, between 0 and 1 as well, is what speaks for it by itself,
    however much speaks for others: two goals that are alike share confidence, but both are in scope.
    """

    goal: str
    confidence: float
    evidence: float
    slots: tuple[Slot, ...]


class Goals(Task[Utterance]):
    name = "goals"
    metric = "exact_match"
    metrics = ("exact_match", "goal_accuracy", "slot_f1", "calibration_error", "out_of_scope_auroc")
    lower = ("calibration_error",)
    model_class = EncoderForGoal

    @classmethod
    def examples(cls, data: Path | None, seed: int = 0) -> Splits[Utterance]:
        splits = goals(seed) if data is None else read_goals(data)
        check_known(splits, cls.labels, "the embedded set" if data is None else data)
        if splits.train and not any(one.goal for one in splits.train):
            raise DataError(data or "data", None, "train has no goal, only what is out of scope")
        return splits

    @staticmethod
    def labels(example: Utterance) -> Iterable[str]:
        return labels_of(example)

    @classmethod
    def prepared(cls, train: Sequence[Utterance]) -> Self:
        tokenizer = learned_tokenizer(one.text[start:end] for one in train for start, end in short_words(one.text))
        slots = sorted({slot.name for one in train for slot in one.slots})
        state = {
            "slots": slots_of_goals(train),
            "goals": [OUTSIDE, *sorted({one.goal for one in train if one.goal})],
            "slot_labels": ["O", *(f"{place}-{name}" for name in slots for place in "BI")],
            # Of evidence: until it is tuned every goal is believed.
            "threshold": 0.0,
        }
        return cls(tokenizer, state)

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        return {"epochs": 12.0, "batch_size": 64, "learning_rate": RATES[size]}

    def config(self, options: ModelOptions) -> PreTrainedConfig:
        labels = {"num_labels": len(self.state["goals"]), "num_slot_labels": len(self.state["slot_labels"])}
        more = {"max_position_embeddings": LONGEST, "goal_by_tokens": True}
        return sized(GoalConfig, options, len(self.tokenizer), **more, **labels)

    def features(self, example: Utterance) -> Features:
        """Of the words, their slot labels, the goal, and in which slot (from 1 on) a word is."""
        words, features = self.read(example.text)
        tags = tags_of(tuple(words), example.slots)
        labels = [IGNORED, *(self.state["slot_labels"].index(tag) for tag in tags), IGNORED]
        starts = [slot.start for slot in example.slots]
        inside = [
            sum(start < word.end for start in starts) if tag != "O" else 0
            for word, tag in zip(words, tags, strict=True)
        ]
        goal = self.state["goals"].index(example.goal or OUTSIDE)
        return {**features, "slot_labels": labels, "slot_places": [0, *inside, 0], "labels": goal}

    def doubts(self, train: Sequence[Utterance]) -> list[str]:
        """Slots are found in whole words."""
        slots = [(one.text, slot) for one in train for slot in one.slots]
        edges = ({at for word in short_words(text) for at in word} >= {slot.start, slot.end} for text, slot in slots)
        inside = sum(not on_edges for on_edges in edges)
        return [f"{inside} of {len(slots)} slots begin or end inside a word: found are whole words"] if inside else []

    def collate(self, batch: Sequence[Features]) -> dict[str, Tensor]:
        """With some slots' values renewed and some words hidden, anew every time.

        Names and titles will be new ones, so a renewed value is of words that nobody has seen, each spelt like one of
        some slot of the batch: what stands around must do to find it.
        """
        made = super().collate(batch)
        ids, cues, places = made["input_ids"], made["cue_ids"], made.pop("slot_places")
        in_slot = places > 0
        renewed = (torch.rand(len(ids), int(places.max()) + 1).gather(1, places) < RENEWED) & in_slot
        ids = ids.masked_fill(renewed, self.tokenizer.unk_token_id)
        spellings = cues[in_slot]
        cues[renewed] = spellings[torch.randint(max(len(spellings), 1), (int(renewed.sum()),))]
        return hidden({**made, "input_ids": ids, "cue_ids": cues}, self.tokenizer)

    def scores(self, model: PreTrainedModel, examples: Sequence[Utterance]) -> dict[str, float]:
        """Accuracies in per cent.

        goal_accuracy and slot_f1 (seqeval's) are of what is in scope; exact_match wants goal and all slots, and
        rejection of what is out of scope. A slot is right with its name and place. out_of_scope_auroc ranks by
        evidence; calibration_error is the expected one of the best goal's confidence.
        """
        return self.judged(examples, self.found(model, [one.text for one in examples]))

    def judged(self, examples: Sequence[Utterance], found: Sequence[Found]) -> dict[str, float]:
        """The scores of what was found."""
        self._check_known(examples)
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

            scores["out_of_scope_auroc"] = float(roc_auc_score(outside, [-what.evidence for what in found]))
        return scores

    def tallies(self, model: PreTrainedModel, examples: Sequence[Utterance]) -> dict[str, Tally]:
        self._check_known(examples)
        pairs = [*zip(examples, self.found(model, [one.text for one in examples]), strict=True)]
        tallies = {"exact_match": verdicts([self.is_exact(*pair) for pair in pairs])}
        if any(one.goal for one in examples):
            right = [found.goal == one.goal for one, found in pairs]
            tallies["goal_accuracy"] = verdicts(right, [one.goal is not None for one in examples])
        if any(one.slots for one in examples if one.goal):
            # What is out of scope has no slots to find: it keeps its row, and adds nothing.
            tags = [_slot_tags(*pair) if pair[0].goal else ([], []) for pair in pairs]
            tallies["slot_f1"] = named_spans(*zip(*tags, strict=True))["f1"]
        return tallies

    def predict(self, model: PreTrainedModel, text: str) -> dict[str, Any]:
        [found] = self.found(model, [text])
        told = {"text": text, "goal": found.goal, "confidence": found.confidence, "slots": [
            {"name": slot.name, "value": text[slot.start : slot.end], "start": slot.start, "end": slot.end}
            for slot in found.slots
        ]}  # fmt: skip
        return told if self.is_accepted(found) else told | {"goal": None, "slots": []}

    def shown(self, prediction: Mapping[str, Any]) -> str:
        slots = ", ".join(f"{slot['name']} = {slot['value']!r}" for slot in prediction["slots"])
        return f"{prediction['text']}\n  {goal_shown(prediction)}{': ' + slots if slots else ''}"

    def tune(self, model: PreTrainedModel, dev: Sequence[Utterance]) -> None:
        logits, _ = self._logits(model, [self.read(one.text) for one in dev])
        truth = torch.tensor([self.state["goals"].index(one.goal or OUTSIDE) for one in dev])
        outside = truth == 0
        # What is outside has no right goal: only what is inside tells whether confidence is honest.
        if not outside.all():
            cast("GoalConfig", model.config).goal_temperature = best_temperature(logits[~outside], truth[~outside])
        best, _, evidence = self._best(model, logits)
        right = best == truth
        self.state["threshold"] = best_threshold(evidence.tolist(), right.tolist(), outside.tolist())

    def read(self, text: str) -> Read:
        """The words of a text, as far as a model reads it."""
        words = short_words(text)[: LONGEST - 2]
        ids, cues = encoded(self.tokenizer, (text[start:end] for start, end in words), self.vocabulary)
        none = [self.tokenizer.pad_token_id] * SPELLING
        ids = [self.tokenizer.bos_token_id, *ids, self.tokenizer.eos_token_id]
        return Read(words, {"input_ids": ids, "cue_ids": [none, *cues, none]})

    def found(self, model: PreTrainedModel, texts: Sequence[str]) -> list[Found]:
        """The best goal of every text, accepted or not."""
        read = [self.read(text) for text in texts]
        logits, tag_logits = self._logits(model, read)
        told = zip(*(tensor.tolist() for tensor in self._best(model, logits)), strict=True)
        moves = cast("EncoderForGoal", model).moves.weight.detach().float().cpu().T
        found = []
        for one, (place, confidence, evidence), scores in zip(read, told, tag_logits, strict=True):
            goal = self.state["goals"][place]
            slots = spans_of(one.words, self._tagger.best(scores, moves, goal))
            found.append(Found(goal, confidence, evidence, slots))
        return found

    @torch.no_grad()
    def _logits(self, model: PreTrainedModel, read: Sequence[Read]) -> tuple[Tensor, list[Tensor]]:
        """Of the goals (N, goals), and for every text of its words' tags (words, labels)."""
        goals, tags = torch.zeros(len(read), len(self.state["goals"])), [torch.empty(0)] * len(read)
        for places, batch in batches([one.features for one in read], self.tokenizer.pad_token_id):
            out = model(**{name: tensor.to(model.device) for name, tensor in batch.items()})
            goals[places] = out.goal_logits.float().cpu()
            slots = out.slot_logits.float().cpu()
            for row, place in enumerate(places):
                tags[place] = slots[row, 1 : 1 + len(read[place].words)]
        return goals, tags

    def _check_known(self, examples: Sequence[Utterance]) -> None:
        inside = [one for one in examples if one.goal]
        check_labels((one.goal for one in inside if one.goal), self.state["goals"][1:], "goal")
        names = dict.fromkeys(label[2:] for label in self.state["slot_labels"][1:])
        check_labels((slot.name for one in inside for slot in one.slots), [*names], "slot")

    @cached_property
    def _tagger(self) -> SlotTags:
        return SlotTags(self.state["slot_labels"], self.state["slots"])

    @staticmethod
    def _best(model: PreTrainedModel, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of every row the place of the best goal, what is out of scope being none, its confidence and its evidence."""
        confidence, best = (logits / cast("GoalConfig", model.config).goal_temperature).softmax(-1)[:, 1:].max(1)
        # In double precision, for a logit of 17 is 1 in single.
        return best + 1, confidence, logits[:, 1:].amax(1).double().sigmoid()

    def is_accepted(self, found: Found) -> bool:
        """Whether it is believed, and not taken to be out of scope."""
        return found.evidence >= self.state["threshold"]

    def is_exact(self, example: Utterance, found: Found) -> bool:
        """Whether goal and all slots are right, or what is out of scope is rejected."""
        if example.goal is None:
            return not self.is_accepted(found)
        return self.is_accepted(found) and found.goal == example.goal and found.slots == example.slots


def _slot_f1(pairs: Sequence[tuple[Utterance, Found]]) -> float:
    from seqeval.metrics import f1_score

    truth, guess = zip(*(_slot_tags(*pair) for pair in pairs), strict=True)
    found: Any = f1_score([*truth], [*guess], zero_division=0)  # type: ignore[arg-type]
    return float(found)


def _slot_tags(example: Utterance, found: Found) -> tuple[list[str], list[str]]:
    """BIO tags of the true slots, and of those found.

    Of pieces between which any slot begins or ends: words may hold several, where a script has no spaces.
    """
    edges = {0, len(example.text), *(at for slot in (*example.slots, *found.slots) for at in (slot.start, slot.end))}
    pieces = tuple(pairwise(sorted(edges)))
    return list(tags_of(pieces, example.slots)), list(tags_of(pieces, found.slots))


def goal_shown(prediction: Mapping[str, Any]) -> str:
    """For people: the goal and how sure that is, or that there is none, and how sure the best one would have been."""
    sure = f"{prediction['confidence']:.0%}"
    return f"{prediction['goal']} ({sure})" if prediction["goal"] else f"out of scope (the best goal has {sure})"
