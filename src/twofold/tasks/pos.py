"""The part of speech of every word."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from twofold.data.embedded.pos import parts_of_speech
from twofold.data.examples import Splits, Tagged
from twofold.data.readers import check_known, read_tagged
from twofold.tasks.tagging import Tagging
from twofold.tasks.tallies import Tally, digest, share


class PartsOfSpeech(Tagging):
    name = "pos"
    metric = "accuracy"
    metrics = ("accuracy", "new_word_accuracy")

    @classmethod
    def examples(cls, data: Path | None, seed: int = 0) -> Splits[Tagged]:
        splits = parts_of_speech(seed) if data is None else read_tagged(data)
        check_known(splits, cls.labels, "the embedded set" if data is None else data)
        return splits

    @staticmethod
    def labels(example: Tagged) -> Iterable[str]:
        return example.tags

    def judged(self, examples: Sequence[Tagged], found: Sequence[Sequence[str]]) -> dict[str, float]:
        """accuracy over words, and over those words that training did not have often enough to learn, in per cent."""
        from sklearn.metrics import accuracy_score

        truth = [tag for sentence in self._true_tags(examples) for tag in sentence]
        told = [tag for sentence in found for tag in sentence]
        new = [word.lower() not in self._known for one in examples for word in one.words]
        scores = {"accuracy": 100 * float(accuracy_score(truth, told))}
        if any(new):
            scores["new_word_accuracy"] = 100 * float(accuracy_score(truth, told, sample_weight=new))
        return scores

    def tallies(self, model: PreTrainedModel, examples: Sequence[Tagged]) -> dict[str, Tally]:
        found = self._tags(model, [one.words for one in examples])
        right = [
            [one == other for one, other in zip(true, told, strict=True)]
            for true, told in zip(self._true_tags(examples), found, strict=True)
        ]
        new = [[word.lower() not in self._known for word in one.words] for one in examples]
        tallies = {"accuracy": share([*map(sum, right)], [*map(len, right)], per="word")}
        if any(map(any, new)):
            both = [sum(a and b for a, b in zip(*two, strict=True)) for two in zip(right, new, strict=True)]
            per = f"word that is not among {digest(sorted(self._known))}"
            tallies["new_word_accuracy"] = share(both, [*map(sum, new)], per=per)
        return tallies

    def predict(self, model: PreTrainedModel, text: str) -> dict[str, Any]:
        places, tags = self.tagged(model, text)
        words = [
            {"word": text[start:end], "tag": tag, "start": start, "end": end}
            for (start, end), tag in zip(places, tags, strict=True)
        ]
        return {"text": text, "words": words}

    def shown(self, prediction: Mapping[str, Any]) -> str:
        return " ".join(f"{word['word']}/{word['tag']}" for word in prediction["words"])
