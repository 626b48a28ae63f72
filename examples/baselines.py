"""How far simple means get on a task: what a model has to beat, scored as the task scores models.

    python examples/baselines.py TASK [--data PATH] [--split dev|test|dev+test] [--json]

Without --data it is the embedded set. Everything is learned from train alone; nothing is tuned on what is scored.
"""

import argparse
import json
import math
import re
import sys
from collections import Counter, defaultdict
from itertools import chain
from pathlib import Path

import numpy as np

from twofold.data.bio import tags_of
from twofold.tasks import TASKS
from twofold.tasks.answers import bag_of_words_answer
from twofold.tasks.bm25 import bm25
from twofold.tasks.lm import Losses
from twofold.tasks.registry import task_class
from twofold.tasks.retrieval import ranking_tallies
from twofold.tasks.summarization import rouge
from twofold.tasks.summary_baselines import lead, most_telling
from twofold.tasks.tallies import scores_of
from twofold_runtime.predictions import GoalPrediction, LabelPrediction, SlotValue
from twofold_runtime.tagging import spans_of
from twofold_runtime.words import fine_words

# Before and after a text of characters: code points that no text has.
START, END, UNICODE = "\ufdd0", "\ufdd1", 0x110000
ORDERS = range(3, 9)


def linear(texts, labels):
    """A linear support vector machine on TF-IDF of words, pairs of words and runs of two to four characters."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.svm import LinearSVC

    # One letter is a word too. (The pattern is no password.)
    words = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+", sublinear_tf=True)  # noqa: S106
    runs = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)
    return make_pipeline(make_union(words, runs), LinearSVC(random_state=0)).fit(texts, labels)


def usual_tags(sentences):
    """A function from words to the tag that each had most often; a new word gets the one that is most frequent."""
    counts, whole = defaultdict(Counter), Counter()
    for words, tags in sentences:
        for word, tag in zip(words, tags, strict=True):
            counts[word.lower()][tag] += 1
            whole[tag] += 1
    usual = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    for_new = whole.most_common(1)[0][0]
    return lambda words: [usual.get(word.lower(), for_new) for word in words]


def goals(task, train, examples):
    """The linear model's goal, rejected where out of scope is nearer; of every word the slot that it usually is in."""

    def words_in(text):
        return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]

    def cut(text, places):
        return [text[start:end] for start, end in places]

    model = linear([one.text for one in train], [one.goal or "" for one in train])
    read = [(one.text, words_in(one.text), one.slots) for one in train]
    tags = usual_tags((cut(text, places), tags_of(tuple(places), slots)) for text, places, slots in read)
    texts = [one.text for one in examples]
    nearness = model.decision_function(texts)
    if len(model.classes_) == 2:
        nearness = np.stack([-nearness, nearness], axis=1)
    is_goal = model.classes_ != ""
    outside = nearness[:, ~is_goal].max(axis=1, initial=-1.0)
    found = []
    for text, inside, out in zip(texts, nearness[:, is_goal], outside, strict=True):
        places = words_in(text)
        spans = spans_of(places, tags(cut(text, places)))
        slots = tuple(SlotValue(name, text[start:end], start, end) for name, start, end in spans)
        nearer = 1 / (1 + math.exp(out - inside.max()))
        goal = model.classes_[is_goal][inside.argmax()]
        # Half way what is out of scope is as near.
        answer = (goal, nearer, slots) if nearer >= 0.5 else (None, nearer, ())
        found.append(GoalPrediction(text, *answer, best_goal=goal, best_slots=slots, evidence=nearer))
    scores = scores_of(task.judged(examples, found))
    # What is nearest is not said in probabilities, so that there is nothing to be calibrated.
    del scores["calibration_error"]
    return {"linear, usual slot of a word": scores}


def classification(task, train, examples):
    model = linear([one.text for one in train], [one.label for one in train])
    labels = model.predict([one.text for one in examples])
    scores = scores_of(task.judged(examples, [LabelPrediction("", label, 0.0, ()) for label in labels]))
    del scores["calibration_error"]
    return {"linear": scores}


def tagging(task, train, examples):
    tags = usual_tags((one.words, one.tags) for one in train)
    return {"usual tag of a word": scores_of(task.judged(examples, [tags(one.words) for one in examples]))}


def qa(task, train, examples):
    del train
    answers = [bag_of_words_answer(one.question, one.context) for one in examples]
    return {"bag of words": scores_of(task.judged(examples, answers))}


def retrieval(task, train, examples):
    del task, train
    queries = [one.query for one in examples]
    rankings = bm25(list(examples[0].documents.values()), [query.text for query in queries])
    return {"BM25": scores_of(ranking_tallies(queries, rankings))}


def summarization(task, train, examples):
    """Leads of a sentence, and of as many words as train's summaries have on the mean; the most telling sentence."""
    del task
    length = round(sum(len(pair.target.split()) for pair in train) / len(train))
    telling = most_telling([pair.source for pair in train])
    means = {"first sentence": lead, f"first {length} words": lambda text: lead(text, length), "TF-IDF": telling}
    return {name: scores_of(rouge([mean(pair.source) for pair in examples], examples)) for name, mean in means.items()}


class Characters:
    """How likely each character is after the ones before it: Kneser and Ney's interpolation of all shorter pasts."""

    def __init__(self, texts, order):
        self.order = order
        counts = Counter(gram for text in texts for gram in self.grams(text))
        self.found, self.past, self.kinds, self.discount = {}, Counter(), Counter(), {}
        for size in range(order, 0, -1):
            self.found |= counts
            for gram, count in counts.items():
                self.past[gram[:-1]] += count
                self.kinds[gram[:-1]] += 1
            often = Counter(counts.values())
            self.discount[size] = often[1] / (often[1] + 2 * often[2]) if often[1] else 0.5
            # A shorter past counts what it was seen before, not how often.
            counts = Counter(gram[1:] for gram in counts)

    def grams(self, text):
        padded = START * (self.order - 1) + text
        return (padded[at : at + self.order] for at in range(len(text)))

    def chance(self, gram):
        if not gram:
            return 1 / UNICODE
        shorter = self.chance(gram[1:])
        if not (times := self.past[gram[:-1]]):
            return shorter
        discount = self.discount[len(gram)]
        kept = max(self.found.get(gram, 0) - discount, 0.0)
        return (kept + discount * self.kinds[gram[:-1]] * shorter) / times

    def nats(self, texts):
        return -sum(math.log(self.chance(gram)) for text in texts for gram in self.grams(text))


def lm(task, train, examples):
    """Of the order that does best on the last twentieth of train, or of its texts where there are several."""
    end = END if task.reading["ends"] else ""
    texts = [text + end for text in train]
    if len(texts) > 1:
        most, rest = texts[: -len(texts) // 20], texts[-len(texts) // 20 :]
    else:
        size = len(texts[0]) // 20
        most, rest = [texts[0][:-size]], [texts[0][-size:]]
    order = min(ORDERS, key=lambda order: Characters(most, order).nats(rest))
    nats = Characters(texts, order).nats([text + end for text in examples])
    characters = sum(map(len, examples)) + (len(examples) if end else 0)
    scores = scores_of(task.judged(examples, [Losses(nats, 0, characters, 0)]))
    kept = {name: score for name, score in scores.items() if name.endswith("_per_character")}
    return {f"{order}-grams of characters": kept}


def dictionary(pairs, rounds=8):
    """The likeliest translation of every word by IBM's first model: each target word comes from one of the source's."""
    ours, theirs = {"": 0}, {}
    rows, group, groups = [], [], 0
    for source, target in pairs:
        # The empty word is where what has no source comes from.
        sides = [0, *(ours.setdefault(word.lower(), len(ours)) for word in source)]
        for word in target:
            place = theirs.setdefault(word, len(theirs))
            rows += [side << 32 | place for side in sides]
            group += [groups] * len(sides)
            groups += 1
    links, which = np.unique(np.array(rows), return_inverse=True)
    group, source, target = np.array(group), links >> 32, links & 0xFFFFFFFF
    chance = np.ones(len(links))
    for _ in range(rounds):
        weight = chance[which]
        weight /= np.bincount(group, weight, groups)[group]
        chance = np.bincount(which, weight, len(links))
        chance /= np.bincount(source, chance, len(ours))[source]
    order = np.lexsort((-chance, source))
    firsts = order[np.r_[True, np.diff(source[order]) > 0]]
    spelt, said = list(ours), list(theirs)
    return {spelt[source[link]]: said[target[link]] for link in firsts if source[link]}


def translation(task, train, examples):
    """Word for word; a word that train lacks stays as it is."""

    def words(text):
        return [text[start:end] for start, end in fine_words(text)]

    known = dictionary((words(pair.source), words(pair.target)) for pair in train)
    between = " " if task.reading["words"] == "13a" else ""
    written = [between.join(known.get(word.lower(), word) for word in words(pair.source)) for pair in examples]
    spaced = [re.sub(r" (?=[.,;:!?])", "", text) for text in written]
    return {"word for word": scores_of(task.judged(examples, spaced))}


def captioning(task, train, examples):
    usual = Counter(one.caption.strip() for one in train).most_common(1)[0][0]
    return {f"always {usual!r}": scores_of(task.judged(examples, [usual] * len(examples)))}


BASELINES = {
    "goals": goals,
    "classification": classification,
    "pos": tagging,
    "ner": tagging,
    "qa": qa,
    "retrieval": retrieval,
    "summarization": summarization,
    "lm": lm,
    "translation": translation,
    "captioning": captioning,
}


def baselines(name, splits, split="test", **choices):
    """Scores of every baseline of a task on a split, or on dev and test together."""
    examples = list(chain.from_iterable(getattr(splits, part) for part in split.split("+")))
    if not splits.train or not examples:
        raise ValueError(f"the data has no {split if splits.train else 'train'} split")
    task = task_class(name).prepared(splits.train, **choices)
    found = {"task": name, "split": split, "examples": len(examples)}
    found["scores"] = BASELINES[name](task, splits.train, examples)
    return found | ({"notes": notes} if (notes := task.notes()) else {})


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--data", type=Path, help="files as docs/data.md has them; the embedded set unless given")
    parser.add_argument("--split", choices=("dev", "test", "dev+test"), default="test", help="what to score on")
    parser.add_argument("--source", help="of a translation, where a folder has more than two languages")
    parser.add_argument("--target", help="likewise")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    told = parser.parse_args(words)
    kind, choices = task_class(told.task), {}
    if told.source or told.target:
        if told.task != "translation":
            parser.error("--source and --target are for translation")
        choices = {"choices": kind.Choices(source=told.source, target=told.target)}
    found = baselines(told.task, kind.examples(told.data, **choices), told.split, **choices)
    if told.json:
        print(json.dumps(found, ensure_ascii=False))
        return
    print(f"{told.task}: {found['examples']} examples of {told.split}")
    for name, scores in found["scores"].items():
        print(f"  {name}: " + ", ".join(f"{score} {value:.4g}" for score, value in scores.items()))
    for name, note in found.get("notes", {}).items():
        print(f"  ({name}: {note})")


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(f"baselines: {error}")
