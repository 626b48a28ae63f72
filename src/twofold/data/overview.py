"""What was understood of a file or folder of goals, labels or tagged words, and what is doubtful about it."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from twofold.data.examples import SPLITS, Labelled, Splits, Tagged, Utterance
from twofold.data.files import DataError, head_of
from twofold.data.goal_files import CLINC, read_goals
from twofold.data.goal_files import ENDINGS as GOAL_ENDINGS
from twofold.data.grammar import fingerprint
from twofold.data.importers.columns import SPAN_TAG
from twofold.data.importers.formats import GOALS, PARTS, SPANS, import_data
from twofold.data.readers import read_labelled, read_tagged, unknown_labels
from twofold.data.splits import find_file, find_split, nothing_cut, unpacked_name

# A label with fewer examples in train is named.
FEW = 5
# Examples shown, of the data and of every kind of doubt.
SHOWN = 5
ENDINGS = (*GOAL_ENDINGS, ".txt")
READERS: dict[str, Callable[[Path], Splits[Any]]] = {
    "goals": read_goals,
    "classification": read_labelled,
    "ner": lambda path: read_tagged(path, bio_tags=True),
    "pos": read_tagged,
}
TASKS = {GOALS: "goals", SPANS: "ner", PARTS: "pos"}


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts by split, and examples of what may be wrong; texts that differ only in case or spaces are the same."""

    path: str
    format: str
    task: str
    examples: dict[str, int]
    labels: dict[str, dict[str, int]]
    slots: dict[str, dict[str, int]]
    shown: list[dict[str, Any]]
    contradictory: int
    contradictions: list[dict[str, Any]]
    duplicate: int
    duplicates: list[dict[str, Any]]
    few: dict[str, int]
    unknown: dict[str, int]
    notes: list[str]


def understand(path: Path, task: str | None = None) -> tuple[Overview, Splits[Any]]:
    """The overview of some data, and its splits as the files have them."""
    if not path.exists():
        raise DataError(path, None, "no such file")
    wanted = None if task is None else {"ner": SPANS, "pos": PARTS}.get(task, GOALS)
    imported = import_data(path, ENDINGS, wanted)
    if imported is not None:
        task, name = task or TASKS[imported.holds], imported.format
    else:
        task, name = task or own_task(path), "a format of our own"
    with nothing_cut():
        splits = READERS[task](path)
    return overview(path, name, task, splits, imported.notes if imported else []), splits


def own_task(path: Path) -> str:
    """The task that data in a format of our own are for, by their first file."""
    if path.is_dir():
        files = (find_split(path, split, ENDINGS) for split in SPLITS)
        file = next((file for file in files if file), None) or find_file(path, CLINC)
    else:
        file = path
    if file is None:
        raise DataError(path, None, "holds no file that is understood; the page on data lists the formats")
    name, head = unpacked_name(file), head_of(file)
    if name.endswith(".json"):
        return "goals"
    if name.endswith(".jsonl"):
        if all(re.search(pattern, head) for pattern in (r'"text"\s*:', r'"(goal|label)"\s*:')):
            return "goals"
    elif find_file(file.parent, f"{name.rpartition('.')[0]}.intent.txt"):
        return "goals"
    elif rows := [line.split("\t") for line in head.split("\n")[:-1] if line.strip()]:
        if all(len(row) == 2 and " " not in row[0].strip() for row in rows):
            return "ner" if all(SPAN_TAG.fullmatch(row[1].strip()) for row in rows) else "pos"
        if all(len(row) >= 2 for row in rows):
            return "classification"
    raise DataError(file, None, "is in no format of goals, labels or tagged words; the page on data lists the formats")


def overview(path: Path, form: str, task: str, splits: Splits[Any], notes: list[str]) -> Overview:
    """Counts of splits, and what is doubtful about them."""
    labels: defaultdict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(SPLITS, 0))
    slots: defaultdict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(SPLITS, 0))
    labels_of_text: defaultdict[str, Counter[str]] = defaultdict(Counter)
    splits_of_text: defaultdict[str, set[str]] = defaultdict(set)
    original: dict[str, str] = {}
    for split in SPLITS:
        for example in getattr(splits, split):
            text = text_of_example(example)
            key = " ".join(text.casefold().split())
            original.setdefault(key, text)
            splits_of_text[key].add(split)
            labels_of_text[key][" ".join(example.tags) if isinstance(example, Tagged) else str(_label(example))] += 1
            for label in labels_of(example):
                labels[label][split] += 1
            for slot in example.slots if isinstance(example, Utterance) else ():
                slots[slot.name][split] += 1
    contradictory = [key for key, counts in labels_of_text.items() if len(counts) > 1]
    duplicate = [key for key, names in splits_of_text.items() if len(names) > 1]
    few = {label: counts["train"] for label, counts in labels.items() if 0 < counts["train"] < FEW}
    return Overview(
        path=str(path),
        format=form,
        task=task,
        examples={split: len(getattr(splits, split)) for split in SPLITS},
        labels=dict(sorted(labels.items(), key=lambda pair: (-sum(pair[1].values()), pair[0]))),
        slots=dict(sorted(slots.items(), key=lambda pair: (-sum(pair[1].values()), pair[0]))),
        shown=[record_of(example) for example in _some(splits)],
        contradictory=len(contradictory),
        contradictions=[{"text": original[key], "labels": dict(labels_of_text[key])} for key in contradictory[:SHOWN]],
        duplicate=len(duplicate),
        duplicates=[{"text": original[key], "splits": sorted(splits_of_text[key])} for key in duplicate[:SHOWN]],
        few=dict(sorted(few.items())),
        unknown=unknown_labels(splits, lambda example: [*labels_of(example), *_slot_names(example)], path),
        notes=notes,
    )


def text_of_example(example: Any) -> str:
    return " ".join(example.words) if isinstance(example, Tagged) else example.text


def labels_of(example: Any) -> list[str]:
    """The labels that are counted: a goal, a class, kinds of spans, parts of speech."""
    if isinstance(example, Tagged):
        return [tag[2:] if tag[:2] == "B-" else tag for tag in example.tags if tag != "O" and tag[:2] != "I-"]
    label = _label(example)
    return [] if label is None else [label]


def _label(example: Any) -> str | None:
    return example.label if isinstance(example, Labelled) else example.goal


def _slot_names(example: Any) -> list[str]:
    return [slot.name for slot in example.slots] if isinstance(example, Utterance) else []


def _some(splits: Splits[Any]) -> list[Any]:
    """A few examples, of different labels where there are several; always the same ones."""
    everything = [*splits.train, *splits.dev, *splits.test]
    ordered = sorted(everything, key=lambda example: fingerprint(text_of_example(example)))
    firsts = {tuple(labels_of(example)[:1]): example for example in reversed(ordered)}
    chosen = list(firsts.values())[::-1][:SHOWN]
    return chosen + [example for example in ordered if not any(example is one for one in chosen)][: SHOWN - len(chosen)]


def record_of(example: Any) -> dict[str, Any]:
    """An example as a record of JSON, as our readers read it."""
    if isinstance(example, Tagged):
        return {"words": list(example.words), "tags": list(example.tags)}
    if isinstance(example, Labelled):
        return asdict(example)
    slots = [asdict(slot) | {"value": example.value(slot)} for slot in example.slots]
    return {"text": example.text, "goal": example.goal} | ({"slots": slots} if slots else {})


def written(splits: Splits[Any]) -> dict[str, str]:
    """The files of a folder in our own format, by name: JSON lines, or tagged words."""
    files = {}
    for split in SPLITS:
        examples = getattr(splits, split)
        if not examples:
            continue
        if isinstance(examples[0], Tagged):
            sentences = [
                "".join(f"{word}\t{tag}\n" for word, tag in zip(one.words, one.tags, strict=True)) for one in examples
            ]
            files[f"{split}.tsv"] = "\n".join(sentences)
        else:
            records = (json.dumps(record_of(example), ensure_ascii=False) for example in examples)
            files[f"{split}.jsonl"] = "".join(f"{record}\n" for record in records)
    return files
