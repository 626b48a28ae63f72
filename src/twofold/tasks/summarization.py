"""From a text to its summary, scored by ROUGE."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from twofold.data.embedded.summarization import match_reports
from twofold.data.examples import Pair, Splits
from twofold.data.hub import is_hub
from twofold.data.hub_readers import hub_summaries
from twofold.data.readers import read_summaries
from twofold.tasks.pairs import PairChoices, PairTask
from twofold.tasks.sizes import RATES
from twofold.tasks.tallies import Tally, share

# A character of a script without spaces, or a word.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryChoices(PairChoices):
    """How texts are read, and summaries written."""

    copies: bool = True
    """Let a transformer copy tokens of the text: for names that training never showed."""


USUAL = SummaryChoices()


class Summarization(PairTask):
    name = "summarization"
    metric = "rouge_l"
    metrics = ("rouge_1", "rouge_2", "rouge_l")
    reads_hub = True
    Choices = SummaryChoices

    @classmethod
    def examples(cls, data: Path | None, seed: int = 0, choices: SummaryChoices = USUAL) -> Splits[Pair]:
        del choices
        if data is None:
            return match_reports(seed)
        return hub_summaries(data) if is_hub(data) else read_summaries(data)

    @classmethod
    def prepared(cls, train: Sequence[Pair], choices: SummaryChoices = USUAL) -> Self:
        return cls(*cls.learned(train, choices))

    @classmethod
    def settings(cls, size: str) -> dict[str, Any]:
        return {"epochs": 6.0, "batch_size": 32, "learning_rate": RATES[size]}

    def judged(self, examples: Sequence[Pair], answers: Sequence[str]) -> dict[str, Tally]:
        """Mean F1 of ROUGE-1, ROUGE-2 and ROUGE-L, in per cent."""
        return rouge(answers, examples)

    def notes(self) -> dict[str, str]:
        from importlib.metadata import version

        how = "words of every script, stemmed, mean F1 over texts, times 100"
        return {"rouge": f"rouge-score {version('rouge-score')}, {how}"}


def rouge(summaries: Sequence[str], examples: Sequence[Pair]) -> dict[str, Tally]:
    """Mean F1 of summaries, whoever wrote them, in per cent."""
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    kinds = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}
    scorer = RougeScorer(list(kinds), tokenizer=_AnyScript(DefaultTokenizer(use_stemmer=True)))
    scores = [scorer.score(pair.target, summary) for summary, pair in zip(summaries, examples, strict=True)]
    return {name: share([one[kind].fmeasure for one in scores]) for kind, name in kinds.items()}


class _AnyScript:
    """rouge-score's own words, stemmed, and beside them those with other letters than a to z, which it would drop."""

    def __init__(self, usual: Any) -> None:
        self.usual = usual

    def tokenize(self, text: str) -> list[str]:
        words = WORD.findall(text.lower())
        return [piece for word in words for piece in (self.usual.tokenize(word) if word.isascii() else [word])]
