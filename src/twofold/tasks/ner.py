"""Named entities: which words of a text are a name, and of what."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from twofold.data.bio import spans_of, why_not_bio
from twofold.data.embedded.ner import news
from twofold.data.examples import Splits, Tagged
from twofold.data.files import DataError
from twofold.data.readers import check_known, read_tagged
from twofold.tasks.tagging import Tagging
from twofold.tasks.tallies import Tally, named_spans


class Names(Tagging):
    name = "ner"
    metric = "f1"
    metrics = ("f1", "precision", "recall")

    @classmethod
    def examples(cls, data: Path | None, seed: int = 0) -> Splits[Tagged]:
        splits = news(seed) if data is None else read_tagged(data, bio_tags=True)
        check_known(splits, cls.labels, "the embedded set" if data is None else data)
        if splits.train and not any(kind for one in splits.train for kind in _kinds(one)):
            raise DataError(data or "data", None, "train has no name: all its tags are O")
        return splits

    @staticmethod
    def labels(example: Tagged) -> Iterable[str]:
        return _kinds(example)

    @classmethod
    def all_tags(cls, train: Sequence[Tagged]) -> list[str]:
        """O, and two for every kind of name, even if train has none of more than one word."""
        kinds = sorted({kind for one in train for kind in _kinds(one)})
        return ["O", *(f"{place}-{kind}" for kind in kinds for place in "BI")]

    def judged(self, examples: Sequence[Tagged], found: Sequence[Sequence[str]]) -> dict[str, float]:
        """seqeval's f1, precision and recall of names, in per cent: right is the right kind on the right words."""
        from seqeval.metrics import f1_score, precision_score, recall_score

        truth = self._true_tags(examples)
        # Its hints say that zero_division is a str and the score may be a list, neither of which holds here.
        named: dict[str, Any] = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
        return {name: 100 * float(score(truth, found, zero_division=0)) for name, score in named.items()}

    def tallies(self, model: PreTrainedModel, examples: Sequence[Tagged]) -> dict[str, Tally]:
        return named_spans(self._true_tags(examples), self._tags(model, [one.words for one in examples]))

    def predict(self, model: PreTrainedModel, text: str) -> dict[str, Any]:
        entities = [
            {"kind": span.name, "value": text[span.start : span.end], "start": span.start, "end": span.end}
            for span in spans_of(*self.tagged(model, text))
        ]
        return {"text": text, "entities": entities}

    def shown(self, prediction: Mapping[str, Any]) -> str:
        entities = ", ".join(f"{entity['kind']} = {entity['value']!r}" for entity in prediction["entities"])
        return f"{prediction['text']}\n  {entities or 'no names'}"

    @staticmethod
    def may_follow(tag: str, before: str | None) -> bool:
        return why_not_bio(tag, before or "O") is None


def _kinds(example: Tagged) -> Iterable[str]:
    return (tag[2:] for tag in example.tags if tag != "O")
