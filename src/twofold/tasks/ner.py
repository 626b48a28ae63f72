"""Named entities: which words of a text are a name, and of what."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from twofold.data.embedded.ner import news
from twofold.data.examples import Splits, Tagged
from twofold.data.files import DataError
from twofold.data.readers import read_tagged
from twofold.tasks.tagging import Tagging
from twofold.tasks.tallies import Tally, span_scores
from twofold_runtime.tagging import Span, spans_of


class Names(Tagging):
    name = "ner"
    metric = "f1"
    metrics = ("f1", "precision", "recall")

    @classmethod
    def examples(cls, data: Path | None, seed: int = 0) -> Splits[Tagged]:
        splits = news(seed) if data is None else read_tagged(data, bio_tags=True)
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

    def known_labels(self) -> frozenset[str]:
        return frozenset(tag[2:] for tag in self.reading["tags"])

    def judged(self, examples: Sequence[Tagged], answers: Sequence[Sequence[str]]) -> dict[str, Tally]:
        """f1, precision and recall of names, in per cent: right is the right kind on the right words."""
        return span_scores(*([_spans(tags) for tags in side] for side in ([one.tags for one in examples], answers)))


def _spans(tags: Sequence[str]) -> list[Span]:
    """Names by the numbers of their words."""
    return spans_of([(place, place + 1) for place in range(len(tags))], tags)


def _kinds(example: Tagged) -> Iterable[str]:
    return (tag[2:] for tag in example.tags if tag != "O")
