"""The part of speech of every word."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from twofold.data.embedded.pos import parts_of_speech
from twofold.data.examples import Splits, Tagged
from twofold.data.readers import read_tagged
from twofold.tasks.tagging import Tagging
from twofold.tasks.tallies import Tally, digest, share


class PartsOfSpeech(Tagging):
    name = "pos"
    metric = "accuracy"
    metrics = ("accuracy", "new_word_accuracy")

    @classmethod
    def examples(cls, data: Path | None, seed: int = 0) -> Splits[Tagged]:
        return parts_of_speech(seed) if data is None else read_tagged(data)

    @staticmethod
    def labels(example: Tagged) -> Iterable[str]:
        return example.tags

    def known_labels(self) -> frozenset[str]:
        return frozenset(self.reading["tags"])

    def judged(self, examples: Sequence[Tagged], answers: Sequence[Sequence[str]]) -> dict[str, Tally]:
        """accuracy over words, and over those words that training did not have often enough to learn, in per cent."""
        right = [
            [true == tag for true, tag in zip(*pair, strict=True)]
            for pair in zip((one.tags for one in examples), answers, strict=True)
        ]
        known = self.codec.tokens.known
        new = [[word.lower() not in known for word in one.words] for one in examples]
        tallies = {"accuracy": share([*map(sum, right)], [*map(len, right)], per="word")}
        if any(map(any, new)):
            both = [sum(a and b for a, b in zip(*pair, strict=True)) for pair in zip(right, new, strict=True)]
            per = f"word that is not among {digest(sorted(known))}"
            tallies["new_word_accuracy"] = share(both, [*map(sum, new)], per=per)
        return tallies
