"""Utterances from records of JSON: a text, its goal, and slots by place or by value."""

import unicodedata
from pathlib import Path
from typing import Any

from twofold.data.examples import Slot, Utterance, in_scope, why_not_slots
from twofold.data.files import DataError, as_json, check_count, field, text_field
from twofold_runtime.checked import shown


def utterance_of(path: Path | str, line: int | None, record: dict[str, Any]) -> Utterance:
    """A record of {"text", "goal", "slots"}: the goal may be null (out of scope) or called "label"."""
    text = text_field(path, line, record, "text")
    name = "goal" if "goal" in record or "label" not in record else "label"
    goal = record[name] if name in record and record[name] is None else text_field(path, line, record, name).strip()
    check_count(path, line, "WORDS", text.count(" ") + 1, "words in one utterance")
    entries = field(path, line, record, "slots", "list") if "slots" in record else []
    check_count(path, line, "SLOTS", len(entries), "slots in one utterance")
    slots: list[Slot] = []
    for entry in entries:
        slots.append(_slot(path, line, text, entry, slots))
    ordered = tuple(sorted(slots, key=lambda slot: slot.start))
    problem = why_not_slots(text, ordered)
    if problem:
        raise DataError(path, line, problem)
    return Utterance(text, in_scope(goal), ordered)


def _slot(path: Path | str, line: int | None, text: str, entry: Any, taken: list[Slot]) -> Slot:
    """A slot by place, or by value, which is then looked for where no other slot is."""
    if not isinstance(entry, dict):
        raise DataError(path, line, f"field 'slots' must hold objects, got {as_json(entry)}")
    name = text_field(path, line, entry, "name")
    if "start" in entry or "end" in entry:
        slot = Slot(
            name, field(path, line, entry, "start", "whole number"), field(path, line, entry, "end", "whole number")
        )
        there = text[slot.start : slot.end] if slot.start >= 0 else ""
        if "value" in entry and entry["value"] != there:
            problem = f"has value {shown(entry['value'])}, but {shown(there)} is at its place"
            raise DataError(path, line, f"slot {shown(name)} {problem}")
        return slot
    value = text_field(path, line, entry, "value")
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
        problem = f"has value {shown(value)}, which is not (or no more) in {shown(text)}"
        raise DataError(path, line, f"slot {shown(name)} {problem}")
    return first


def _is_inside(text: str, place: int) -> bool:
    """Whether a word goes on there; accents and vowel signs are part of one."""
    return 0 < place < len(text) and all(
        letter.isalnum() or unicodedata.category(letter)[0] == "M" for letter in text[place - 1 : place + 1]
    )
