"""Snips NLU: intents as JSON (the library's and the benchmark's) and as YAML, [origin:city](Paris)."""

import re
from pathlib import Path
from typing import Any

from twofold.data.examples import Utterance
from twofold.data.files import DataError, field, parsed_json, text_of
from twofold.data.importers.markup import marked, with_slots
from twofold.data.importers.yaml_nodes import documents, fields, items, line_of, text
from twofold.data.splits import unpacked_name
from twofold_runtime.checked import shown

# [origin:city](Paris) or [origin](Paris)
MARK = re.compile(r"\[(?P<name>[^\[\]:]+)(?::[^\[\]]*)?\]\((?P<value>[^()]+)\)")
Examples = list[tuple[Utterance, str | None]]


def is_json(path: Path, head: str) -> bool:
    is_whole = head.lstrip().startswith("{") and not unpacked_name(path).endswith(".jsonl")
    return is_whole and re.search(r'"data"\s*:\s*\[\s*\{\s*"(text|entity|slot_name)"', head) is not None


def read_json(path: Path, notes: list[str]) -> Examples:
    """Utterances as lists of pieces, {"text", "entity", "slot_name"}."""
    whole = parsed_json(path, text_of(path, "DOCUMENT_BYTES"))
    intents = field(path, None, whole, "intents", "object") if "intents" in whole else whole
    utterances: Examples = []
    for goal, content in intents.items():
        if isinstance(content, dict):
            content = field(path, None, content, "utterances", "list")
        if not isinstance(content, list):
            raise DataError(path, None, f"intent {shown(goal)} must be a list of utterances")
        for number, entry in enumerate(content, 1):
            where = f"{path}: utterance {number} of {shown(goal)}"
            if not isinstance(entry, dict):
                raise DataError(where, None, "must be an object")
            utterances.append((_joined(where, goal, field(where, None, entry, "data", "list")), None))
    if isinstance(whole.get("entities"), dict) and whole["entities"]:
        notes.append(f"{path.name}: values and synonyms of {len(whole['entities'])} entities left out")
    return utterances


def _joined(where: str, goal: str, pieces: list[Any]) -> Utterance:
    parts: list[tuple[str, str | None]] = []
    for piece in pieces:
        if not isinstance(piece, dict):
            raise DataError(where, None, f"field 'data' must hold objects, got {shown(piece)}")
        name = piece.get("slot_name") or piece.get("entity")
        parts.append((field(where, None, piece, "text"), None if name is None else str(name)))
    utterance = with_slots(parts, goal)
    if utterance is None:
        raise DataError(where, None, "field 'data' holds no text")
    return utterance


def is_yaml(path: Path, head: str) -> bool:
    return re.search(r"^type:\s*(intent|entity)\b", head, re.M) is not None


def read_yaml(path: Path, notes: list[str]) -> Examples:
    """A document for every intent: name and utterances with marked slots. Documents of entities are left out."""
    utterances: Examples = []
    entities = 0
    for document in documents(path):
        content = fields(path, document)
        if "type" not in content or text(path, content["type"]) != "intent":
            entities += 1
            continue
        for name in ("name", "utterances"):
            if name not in content:
                raise DataError(path, line_of(document), f"an intent has no field {name!r}")
        goal = text(path, content["name"])
        for item in items(path, content["utterances"]):
            utterances.append((marked(path, line_of(item), text(path, item), goal, MARK), None))
    if entities:
        notes.append(f"{path.name}: values and synonyms of {entities} entities left out")
    return utterances
