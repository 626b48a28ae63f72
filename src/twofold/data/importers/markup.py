"""Rasa NLU: examples with entities marked inside, [Paris](city), as YAML, Markdown and JSON."""

import re
from collections.abc import Iterable
from pathlib import Path

from twofold.data.examples import Slot, Utterance, in_scope
from twofold.data.files import DataError, field, lines_of, parsed_json, text_field, text_of
from twofold.data.importers.yaml_nodes import documents, fields, is_mapping, items, line_of, lines, text
from twofold.data.splits import unpacked_name
from twofold.data.utterances import utterance_of
from twofold_runtime.checked import shown

# [Paris](city), [Paris](city:paris), [Paris]{"entity": "city", "role": "to"}, [Paris][{"entity": "city"}]
MARK = re.compile(
    r"\[(?P<value>[^\[\]]+)\]"
    r"(?:\((?P<name>[^():]+)(?::[^()]*)?\)|(?P<object>\{[^{}]*\})|\[(?P<first>\{[^{}]*\})[^\[\]]*\])"
)
Examples = list[tuple[Utterance, str | None]]


def with_slots(pieces: Iterable[tuple[str, str | None]], goal: str) -> Utterance | None:
    """An utterance of pieces of text, each with the name of a slot or None. None where there is no text.

    Spaces at the ends of the text and of slots are left out.
    """
    text = ""
    slots: list[Slot] = []
    for piece, name in pieces:
        piece = piece if text else piece.lstrip()
        start = len(text) + len(piece) - len(piece.lstrip())
        if name and piece.strip():
            slots.append(Slot(name, start, start + len(piece.strip())))
        text += piece
    return Utterance(text.rstrip(), in_scope(goal), tuple(slots)) if text.strip() else None


def marked(path: Path, line: int, written: str, goal: str, mark: re.Pattern[str] = MARK) -> Utterance:
    """An example with marks as an utterance with slots, which are named by role where there is one."""
    pieces: list[tuple[str, str | None]] = []
    end = 0
    for match in mark.finditer(written):
        pieces.append((written[end : match.start()], None))
        end, name = match.end(), match["name"]
        if name is None:
            entity = parsed_json(path, match["object"] or match["first"], line)
            name = str(entity.get("role") or text_field(path, line, entity, "entity"))
        pieces.append((match["value"], name.strip()))
    utterance = with_slots([*pieces, (written[end:], None)], goal)
    if utterance is None:
        raise DataError(path, line, f"an example of {shown(goal)} is empty")
    return utterance


def is_rasa_yaml(path: Path, head: str) -> bool:
    return re.search(r"^nlu:", head, re.M) is not None


def read_rasa_yaml(path: Path, notes: list[str]) -> Examples:
    """The intents of a file. Synonyms, lookup tables and regular expressions are left out, which a note says."""
    utterances: Examples = []
    left_out: dict[str, int] = {}
    for document in documents(path):
        content = fields(path, document)
        for item in items(path, content["nlu"]) if "nlu" in content else []:
            entry = fields(path, item)
            if "intent" not in entry:
                kind = next((name for name in ("synonym", "lookup", "regex") if name in entry), None)
                if kind is None:
                    problem = f"expected an intent, a synonym, a lookup or a regex, got {', '.join(map(shown, entry))}"
                    raise DataError(path, line_of(item), problem)
                left_out[kind] = left_out.get(kind, 0) + 1
                continue
            goal = text(path, entry["intent"])
            if "examples" not in entry:
                raise DataError(path, line_of(item), f"intent {shown(goal)} has no field 'examples'")
            for line, written in _examples(path, entry["examples"]):
                utterances.append((marked(path, line, written, goal), None))
    notes += [f"{path.name}: {count} of kind {kind} left out" for kind, count in left_out.items()]
    return utterances


def _examples(path: Path, node: object) -> list[tuple[int, str]]:
    """Lines after "- " in one text, or a list of {text: ...}."""
    if type(node).__name__ == "SequenceNode":
        texts = [fields(path, item).get("text", item) if is_mapping(item) else item for item in items(path, node)]
        return [(line, written.removeprefix("-").strip()) for one in texts for line, written in lines(path, one)]
    examples = list(lines(path, node))
    for line, written in examples:
        if not written.startswith("-"):
            raise DataError(path, line, f"expected '- ' before an example, got {shown(written)}")
    return [(line, written.removeprefix("-").strip()) for line, written in examples]


def is_rasa_markdown(path: Path, head: str) -> bool:
    return re.search(r"^##\s*intent:", head, re.M) is not None


def read_rasa_markdown(path: Path, notes: list[str]) -> Examples:
    """Examples under "## intent:name". Other sections are left out."""
    utterances: Examples = []
    goal = None
    for number, line in enumerate(lines_of(path), 1):
        if line.startswith("##"):
            match = re.fullmatch(r"##\s*intent:\s*(\S.*)", line)
            goal = match[1].strip() if match else None
            if match is None:
                notes.append(f"{path.name}:{number}: section {shown(line)} left out")
        elif goal is not None and line.lstrip()[:1] in ("-", "*", "+") and line.strip()[1:].strip():
            utterances.append((marked(path, number, line.strip()[1:].strip(), goal), None))
    return utterances


def is_rasa_json(path: Path, head: str) -> bool:
    return head.lstrip().startswith("{") and '"rasa_nlu_data"' in head and not unpacked_name(path).endswith(".jsonl")


def read_rasa_json(path: Path, notes: list[str]) -> Examples:
    """The common examples of a file, with entities by place."""
    whole = parsed_json(path, text_of(path, "DOCUMENT_BYTES"))
    data = field(path, None, whole, "rasa_nlu_data", "object")
    utterances: Examples = []
    for number, record in enumerate(field(path, None, data, "common_examples", "list"), 1):
        where = f"{path}: example {number}"
        if not isinstance(record, dict):
            raise DataError(where, None, "must be an object")
        goal = text_field(where, None, record, "intent")
        entities = field(where, None, record, "entities", "list") if "entities" in record else []
        if wrong := next((entity for entity in entities if not isinstance(entity, dict)), None):
            raise DataError(where, None, f"field 'entities' must hold objects, got {shown(wrong)}")
        slots = [{"name": one.get("entity"), "start": one.get("start"), "end": one.get("end")} for one in entities]
        example = {"text": record.get("text"), "goal": goal, "slots": slots}
        utterances.append((utterance_of(where, None, example), None))
    return utterances
