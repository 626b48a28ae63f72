"""Goals from files: tagged words with intents beside them, CLINC's JSON, and a simple JSONL of one's own."""

import json
import unicodedata
from pathlib import Path
from typing import Any

from twofold.data.bio import joined, sentences
from twofold.data.examples import SPLITS, Slot, Splits, Utterance, why_not_slots
from twofold.data.files import (
    NAMES,
    DataError,
    counted,
    cut_missing,
    field,
    find_split,
    lines_of,
    named,
    read_splits,
    readable,
    records_of,
    text_of,
    words_in,
)

OUT_OF_SCOPE = "oos"
# CLINC's own name of all its splits in one file.
CLINC = "data_full.json"
TAGGED = (".tsv", ".bio", ".conll")
ENDINGS = (".jsonl", *TAGGED)


def labels_of(utterance: Utterance) -> list[str]:
    """Names of an utterance's goal and slots, for `check_known`. Out of scope needs no example."""
    return [*([utterance.goal] if utterance.goal else []), *(slot.name for slot in utterance.slots)]


def read_goals(path: Path | str) -> Splits[Utterance]:
    """Goals of a folder or a file, in whichever of the formats it is in.

    - `train.tsv`: word<TAB>BIO tag, with `train.intent.txt` beside it, one goal a line;
    - `train.jsonl`: {"text", "goal", "slots"} or {"text", "label"} a line; `oos_train.jsonl` beside it is out of scope;
    - one file of CLINC's original layout: {"train": [[text, label], ...], "oos_train": ...}, or a folder without any of
      the above that has it as `data_full.json`.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(path, None, "no such file")
    if path.is_dir() and not any(find_split(path, name, ENDINGS) for name in SPLITS):
        path = named(path, CLINC) or path
    if path.name.removesuffix(".gz").endswith(".json"):
        return _clinc(path)
    splits = read_splits(path, ENDINGS, read_goal_file, None)
    train, dev, test = (getattr(splits, name) + _outside(path, name) for name in SPLITS)
    return cut_missing(path, Splits(train, dev, test), lambda utterance: utterance.text, labels_of)


def read_goal_file(path: Path) -> list[Utterance]:
    """The utterances of one file."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".jsonl"):
        return [utterance_of(path, line, record) for line, record in records_of(path)]
    if name.endswith(TAGGED):
        return _tagged(path)
    raise DataError(path, None, f"expected a name that ends in one of {', '.join(ENDINGS)}, .json")


def _tagged(path: Path) -> list[Utterance]:
    stem = path.name.removesuffix(".gz").rpartition(".")[0]
    beside = named(path.parent, f"{stem}.intent.txt")
    if beside is None:
        raise DataError(path, None, f"has no {stem}.intent.txt beside it, one goal a line")
    goals = lines_of(beside)
    found = sentences(path, bio=True)
    if len(goals) != len(found):
        there = f"has {counted(len(goals), 'goal')} for the {counted(len(found), 'sentence')} of {path.name}"
        raise DataError(beside, None, there)
    utterances = []
    for number, (goal, sentence) in enumerate(zip(goals, found, strict=True), 1):
        if not goal:
            raise DataError(beside, number, f"no goal for the sentence at {path.name}:{sentence.line}")
        text, slots = joined(sentence.tagged)
        utterances.append(Utterance(text, _in_scope(goal), slots))
    return utterances


def utterance_of(path: Path | str, line: int, record: dict[str, Any]) -> Utterance:
    """One's own record: a text, its "goal" (null: out of scope) or "label", and slots if there are any."""
    text = words_in(path, line, record, "text")
    name = "goal" if "goal" in record or "label" not in record else "label"
    goal = record[name] if name in record and record[name] is None else words_in(path, line, record, name).strip()
    given = field(path, line, record, "slots", "list") if "slots" in record else []
    slots: list[Slot] = []
    for entry in given:
        slots.append(_slot(path, line, text, entry, slots))
    ordered = tuple(sorted(slots, key=lambda slot: slot.start))
    problem = why_not_slots(text, ordered)
    if problem:
        raise DataError(path, line, problem)
    return Utterance(text, _in_scope(goal), ordered)


def _slot(path: Path | str, line: int, text: str, entry: Any, taken: list[Slot]) -> Slot:
    """A slot by place, or by value, which is then looked for where no other slot is."""
    if not isinstance(entry, dict):
        raise DataError(path, line, f"every slot must be an object, got {json.dumps(entry)}")
    name = words_in(path, line, entry, "name")
    if "start" in entry or "end" in entry:
        slot = Slot(
            name, field(path, line, entry, "start", "whole number"), field(path, line, entry, "end", "whole number")
        )
        found = text[slot.start : slot.end] if slot.start >= 0 else ""
        if "value" in entry and entry["value"] != found:
            raise DataError(path, line, f"slot {name!r} has value {entry['value']!r}, but {found!r} is at its place")
        return slot
    value = words_in(path, line, entry, "value")
    first, start = None, text.find(value)
    while start >= 0:
        slot = Slot(name, start, start + len(value))
        if not any(slot.start < other.end and other.start < slot.end for other in taken):
            # The ten of "listen to ten songs" is a word of its own; where there is no such place, the first will do.
            if not _is_inside(text, slot.start) and not _is_inside(text, slot.end):
                return slot
            first = first or slot
        start = text.find(value, start + 1)
    if first is None:
        raise DataError(path, line, f"slot {name!r} has value {value!r}, which is not (or no more) in {text!r:.200}")
    return first


def _is_inside(text: str, place: int) -> bool:
    """Whether a word goes on there; accents and vowel signs are part of one."""
    return 0 < place < len(text) and all(
        letter.isalnum() or unicodedata.category(letter)[0] == "M" for letter in text[place - 1 : place + 1]
    )


def _in_scope(goal: str | None) -> str | None:
    return None if goal == OUT_OF_SCOPE else goal


def _outside(folder: Path, split: str) -> list[Utterance]:
    """CLINC keeps what is out of scope in files of its own."""
    for name in NAMES[split]:
        if path := named(folder, f"oos_{name}.jsonl"):
            return [utterance_of(path, line, record) for line, record in records_of(path)]
    return []


def _clinc(path: Path) -> Splits[Utterance]:
    try:
        whole = json.loads(text_of(path))
    except json.JSONDecodeError as error:
        raise DataError(path, error.lineno, f"invalid JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(path, None, f"invalid JSON: {error}") from None
    if not isinstance(whole, dict):
        raise DataError(path, None, 'expected an object with lists "train", "val", "test", "oos_train", ...')
    found: dict[str, list[Utterance]] = {}
    for split in SPLITS:
        keys = [f"{before}{name}" for before in ("", "oos_") for name in NAMES[split]]
        rows = {key: field(path, None, whole, key, "list") for key in keys if key in whole}
        found[split] = [_row(path, key, place, row) for key in rows for place, row in enumerate(rows[key])]
    if not any(found.values()):
        raise DataError(path, None, 'expected lists "train", "val", "test", "oos_train", ..., found none of them')
    splits = Splits(found["train"], found["dev"], found["test"])
    return cut_missing(path, splits, lambda utterance: utterance.text, labels_of)


def _row(path: Path, key: str, place: int, row: Any) -> Utterance:
    match row:
        case [str(text), str(label)] if text.strip() and label.strip():
            for part in (text, label):
                readable(path, None, key, part)
            return Utterance(text, _in_scope(label.strip()))
    raise DataError(path, None, f"entry {place} of {key!r} must be [text, label], got {json.dumps(row):.60}")
