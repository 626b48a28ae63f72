"""Goals from files: tagged words with intents beside them, CLINC's JSON, and records of JSON, one a line."""

from pathlib import Path
from typing import Any

from twofold.data.bio import joined, sentences
from twofold.data.examples import SPLITS, Splits, Utterance, in_scope
from twofold.data.files import (
    DataError,
    as_json,
    check_characters,
    counted,
    field,
    lines_of,
    parsed_json,
    records_of,
    text_of,
)
from twofold.data.importers.formats import GOALS, import_data
from twofold.data.splits import SPLIT_NAMES, cut_missing, find_file, find_split, read_splits, unpacked_name
from twofold.data.utterances import utterance_of

# CLINC's own name of all its splits in one file.
CLINC = "data_full.json"
TAGGED = (".tsv", ".bio", ".conll")
ENDINGS = (".jsonl", *TAGGED)


def labels_of(utterance: Utterance) -> list[str]:
    """Names of an utterance's goal and slots. Out of scope needs no example."""
    return [*([utterance.goal] if utterance.goal else []), *(slot.name for slot in utterance.slots)]


def read_goals(path: Path | str) -> Splits[Utterance]:
    """Goals of a folder or a file, in whichever of the formats it is in.

    - `train.tsv`: word<TAB>BIO tag, with `train.intent.txt` beside it, one goal a line;
    - `train.jsonl`: {"text", "goal", "slots"} or {"text", "label"} a line; `oos_train.jsonl` beside it is out of scope;
    - one file of CLINC's original layout: {"train": [[text, label], ...], "oos_train": ...}, or a folder without any of
      the above that has it as `data_full.json`;
    - the formats of other tools in `twofold.data.importers`.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(path, None, "no such file")
    if imported := import_data(path, ENDINGS, GOALS):
        return cut_missing(path, imported.splits, lambda utterance: utterance.text, labels_of)
    if path.is_dir() and not any(find_split(path, name, ENDINGS) for name in SPLITS):
        path = find_file(path, CLINC) or path
    if unpacked_name(path).endswith(".json"):
        return _clinc(path)
    splits = read_splits(path, ENDINGS, read_goal_file, None)
    train, dev, test = (getattr(splits, name) + _outside(path, name) for name in SPLITS)
    return cut_missing(path, Splits(train, dev, test), lambda utterance: utterance.text, labels_of)


def read_goal_file(path: Path) -> list[Utterance]:
    """The utterances of one file. A name without an ending, as a pipe has, is taken for JSON lines."""
    name = unpacked_name(path)
    if name.endswith(".jsonl") or "." not in name:
        return [utterance_of(path, line, record) for line, record in records_of(path)]
    if name.endswith(TAGGED):
        return _tagged(path)
    raise DataError(path, None, f"expected a name that ends in one of {', '.join(ENDINGS)}, .json")


def _tagged(path: Path) -> list[Utterance]:
    stem = unpacked_name(path).rpartition(".")[0]
    beside = find_file(path.parent, f"{stem}.intent.txt")
    if beside is None:
        raise DataError(path, None, f"has no {stem}.intent.txt beside it, one goal a line")
    goals = lines_of(beside)
    tagged = sentences(path, bio=True)
    if len(goals) != len(tagged):
        problem = f"has {counted(len(goals), 'goal')} for the {counted(len(tagged), 'sentence')} of {path.name}"
        raise DataError(beside, None, problem)
    utterances = []
    for number, (goal, sentence) in enumerate(zip(goals, tagged, strict=True), 1):
        if not goal:
            raise DataError(beside, number, f"no goal for the sentence at {path.name}:{sentence.line}")
        text, slots = joined(sentence.tagged)
        utterances.append(Utterance(text, in_scope(goal), slots))
    return utterances


def _outside(folder: Path, split: str) -> list[Utterance]:
    """The out-of-scope utterances of a split, which CLINC keeps in files of their own."""
    for name in SPLIT_NAMES[split]:
        if path := find_file(folder, f"oos_{name}.jsonl"):
            return [utterance_of(path, line, record) for line, record in records_of(path)]
    return []


def _clinc(path: Path) -> Splits[Utterance]:
    whole = parsed_json(path, text_of(path, "DOCUMENT_BYTES"))
    if not isinstance(whole, dict):
        raise DataError(path, None, 'expected an object with lists "train", "val", "test", "oos_train", ...')
    utterances: dict[str, list[Utterance]] = {}
    for split in SPLITS:
        keys = [f"{before}{name}" for before in ("", "oos_") for name in SPLIT_NAMES[split]]
        rows = {key: field(path, None, whole, key, "list") for key in keys if key in whole}
        utterances[split] = [_row(path, key, place, row) for key in rows for place, row in enumerate(rows[key])]
    if not any(utterances.values()):
        raise DataError(path, None, 'expected lists "train", "val", "test", "oos_train", ..., found none of them')
    splits = Splits(utterances["train"], utterances["dev"], utterances["test"])
    return cut_missing(path, splits, lambda utterance: utterance.text, labels_of)


def _row(path: Path, key: str, place: int, row: Any) -> Utterance:
    match row:
        case [str(text), str(label)] if text.strip() and label.strip():
            for part in (text, label):
                check_characters(path, None, key, part)
            return Utterance(text, in_scope(label.strip()))
    raise DataError(path, None, f"entry {place} of {key!r} must be [text, label], got {as_json(row)}")
