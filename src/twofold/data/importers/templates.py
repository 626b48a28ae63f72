"""Sentence templates: Rhasspy's sentences.ini and Home Assistant's hassil. Sentences are drawn from every template."""

import re
from collections.abc import Iterator
from importlib import import_module
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

from twofold.data.examples import Utterance, in_scope
from twofold.data.files import DataError, lines_of
from twofold.data.grammar import say, seeded
from twofold.data.importers.yaml_nodes import documents, fields, is_mapping, items, line_of, text
from twofold.data.splits import find_file
from twofold_runtime.checked import shown

Examples = list[tuple[Utterance, str | None]]
# Sentences that a template gives at most, and how often it is tried after the last new one.
SENTENCES = 50
TRIES = 50
# Names that one sentence may be put together from: rules may double each other.
NAMES = 1000
# Values that a range of numbers gives at most.
NUMBERS = 20
SPECIAL = re.compile(r"[\[\](){}|<>]")
RHASSPY = re.compile(r"[()\[\]|]|\{[^{}]*\}|<[^<>]+>|[^\s()\[\]|{}<>]+")
RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:,(\d{1,9}))?")


def _identifier(name: str) -> str:
    """A name as templates can hold it."""
    return re.sub(r"\W", "_", name.strip())


class Kinds:
    """What stands for a name in a template: templates in the notation of `grammar`, of which one is drawn."""

    def __init__(self) -> None:
        self.options: dict[str, list[str]] = {}
        self.without_values: set[str] = set()

    def add(self, name: str, options: list[str]) -> str:
        """A name that a template can have for these options."""
        kind = _identifier(name)
        self.options[kind] = options
        return kind

    def numbers(self, start: int, stop: int, step: int) -> str:
        values = range(start, stop + 1, max(step, 1))
        chosen = values[:: max(1, len(values) // NUMBERS)] or [start]
        return self.add(f"from {start} to {stop} by {step}", [str(value) for value in chosen])

    def sentences(self, template: str, rng: Random) -> Iterator[Any]:
        """Different sentences of a template."""

        names = 0

        def draw(kind: str) -> str:
            nonlocal names
            names += 1
            if names > NAMES:
                raise ValueError(f"a sentence is put together from more than {NAMES:,} names")
            options = self.options.get(kind)
            if not options:
                self.without_values.add(kind)
                return kind.replace("_", " ")
            return rng.choice(options)

        texts: set[str] = set()
        failures = 0
        while len(texts) < SENTENCES and failures < TRIES:
            names = 0
            sentence = say(template, rng, draw, articles=False)
            failures += 1
            if sentence.text and sentence.text not in texts:
                texts.add(sentence.text)
                failures = 0
                yield sentence


def _utterances(path: Path, line: int, goal: str, template: str, kinds: Kinds, rng: Random) -> Examples:
    try:
        return [
            (Utterance(sentence.text, in_scope(goal), sentence.slots), None)
            for sentence in kinds.sentences(template, rng)
        ]
    except (ValueError, RecursionError) as error:
        raise DataError(path, line, f"a template of {shown(goal)} gives no sentence: {shown(str(error))}") from None


def _note(path: Path, kinds: Kinds, notes: list[str]) -> None:
    notes.append(f"{path.name}: at most {SENTENCES} sentences a template")
    if kinds.without_values:
        names = ", ".join(sorted(kinds.without_values))
        notes.append(f"{path.name}: no values for {names}; the names stand in their place")


def is_rhasspy(path: Path, head: str) -> bool:
    """Whether the first line that is no comment is [a section], in a file of that ending."""
    lines = (line.strip() for line in head.split("\n"))
    first = next((line for line in lines if line and line[0] not in "#;"), "")
    return path.name.removesuffix(".gz").endswith(".ini") and re.fullmatch(r"\[[^\[\]]+\]", first) is not None


def read_rhasspy(path: Path, notes: list[str]) -> Examples:
    """Sentences under [Intent], with `rule = ...`, <rule>, (a | b), [optional], {tag}, $slot and 0..100."""
    kinds, rng = Kinds(), seeded("rhasspy", path.name)
    templates: list[tuple[int, str, str]] = []
    goal = None
    for number, line in enumerate(lines_of(path), 1):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if section := re.fullmatch(r"\[([^\[\]]+)\]", line):
            goal = section[1].strip()
        elif goal is None:
            raise DataError(path, number, f"expected a section such as [LightsOn], got {shown(line)}")
        elif rule := re.fullmatch(r"([\w-]+)\s*=\s*(.+)", line):
            kinds.add(f"{goal}.{rule[1]}", [_Rhasspy(path, number, goal, kinds).template(rule[2])])
        else:
            templates.append((number, goal, _Rhasspy(path, number, goal, kinds).template(line.removeprefix("\\"))))
    examples = [pair for number, goal, one in templates for pair in _utterances(path, number, goal, one, kinds, rng)]
    _note(path, kinds, notes)
    return examples


class _Rhasspy:
    """Rewrites a line of sentences.ini in the notation of `grammar`: there (a) is optional, and [a|b] a choice."""

    def __init__(self, path: Path, line: int, goal: str, kinds: Kinds) -> None:
        self.path, self.line, self.goal, self.kinds = path, line, goal, kinds

    def template(self, written: str) -> str:
        self.written, self.symbols = written, RHASSPY.findall(written)
        return self._options(None)

    def _options(self, closing: str | None) -> str:
        """Alternatives up to a closing bracket, as one choice if there are several."""
        options: list[list[str]] = [[]]
        while self.symbols:
            symbol = self.symbols.pop(0)
            if symbol == closing:
                break
            if symbol == "|":
                options.append([])
            elif symbol in ("(", "["):
                inside = self._options(")" if symbol == "(" else "]")
                options[-1].append(f"({inside})" if symbol == "[" else inside)
            elif symbol in (")", "]"):
                raise DataError(self.path, self.line, f"{shown(self.written)} has an unmatched {symbol}")
            elif symbol[0] == "{":
                if not options[-1]:
                    raise DataError(self.path, self.line, f"tag {shown(symbol)} follows no word")
                label = _identifier(re.split("[:!]", symbol[1:-1])[0].strip())
                kind = self.kinds.add(f"value {len(self.kinds.options)}", [options[-1][-1]])
                options[-1][-1] = f"{{{label}:{kind}}}"
            else:
                options[-1].append(self._item(symbol))
        else:
            if closing is not None:
                raise DataError(self.path, self.line, f"{shown(self.written)} lacks a {closing}")
        texts = [" ".join(option) for option in options]
        return texts[0] if len(texts) == 1 else f"[{'|'.join(texts)}]"

    def _item(self, symbol: str) -> str:
        """A word, <rule>, $slot or range, without what is substituted for it (after :) or done with it (after !)."""
        if symbol[0] == "<":
            name = symbol[1:-1]
            return f"<{_identifier(name if '.' in name else f'{self.goal}.{name}')}>"
        if match := RANGE.match(symbol):
            return f"<{self.kinds.numbers(int(match[1]), int(match[2]), int(match[3] or 1))}>"
        if symbol[0] == "$":
            return self._slot(re.split("[,!:]", symbol[1:])[0])
        return re.split("[:!]", symbol)[0]

    def _slot(self, name: str) -> str:
        """The values of a slot, one a line in slots/NAME beside the file."""
        kind = _identifier(name)
        file = find_file(self.path.parent / "slots", name) if ".." not in Path(name).parts and name[:1] != "/" else None
        if kind not in self.kinds.options and file is not None:
            self.kinds.add(name, [])
            lines = [(number, line) for number, line in enumerate(lines_of(file), 1) if line.strip()]
            self.kinds.add(name, [_Rhasspy(file, number, name, self.kinds).template(line) for number, line in lines])
        return f"<{kind}>"


def is_hassil(path: Path, head: str) -> bool:
    return re.search(r"^(intents|expansion_rules|lists):", head, re.M) is not None and "nlu:" not in head


def read_hassil(path: Path, notes: list[str]) -> Examples:
    """Sentences of every intent's templates; lists and rules may be in a _common.yaml beside the file."""
    kinds, rng = Kinds(), seeded("hassil", path.name)
    common = path.with_name("_common.yaml")
    files = [file for file in dict.fromkeys((common, path)) if file.is_file()]
    contents = [fields(file, node) for file in files for node in documents(file)]
    for content in contents:
        _define(path, content, kinds)
    examples: Examples = []
    for goal, intent in fields(path, contents[-1]["intents"]).items() if "intents" in contents[-1] else ():
        blocks = fields(path, intent)
        if "data" not in blocks:
            raise DataError(path, line_of(intent), f"intent {shown(goal)} has no field 'data'")
        for block in items(path, blocks["data"]):
            content = fields(path, block)
            _define(path, content, kinds)
            for node in items(path, content["sentences"]) if "sentences" in content else ():
                template = _of_hassil(path, line_of(node), text(path, node), kinds)
                examples += _utterances(path, line_of(node), goal, template, kinds, rng)
    if examples:
        _note(path, kinds, notes)
    return examples


def _define(path: Path, content: dict[str, Any], kinds: Kinds) -> None:
    """The lists and expansion rules of a file or a block."""
    for name, node in fields(path, content["expansion_rules"]).items() if "expansion_rules" in content else ():
        kinds.add(f"rule {name}", [_of_hassil(path, line_of(node), text(path, node), kinds)])
    for name, node in fields(path, content["lists"]).items() if "lists" in content else ():
        definition = fields(path, node)
        if "values" in definition:
            values = [
                fields(path, one).get("in", one) if is_mapping(one) else one
                for one in items(path, definition["values"])
            ]
            kinds.add(name, [_of_hassil(path, line_of(value), text(path, value), kinds) for value in values])
        elif "range" in definition:
            ends = {key: text(path, value) for key, value in fields(path, definition["range"]).items()}
            written = f"{ends.get('from', '')}..{ends.get('to', '')},{ends.get('step', '1')}"
            if (match := RANGE.fullmatch(written)) is None:
                raise DataError(
                    path, line_of(node), f"the range of {shown(name)} must have whole numbers, got {shown(written)}"
                )
            kinds.add(name, [f"<{kinds.numbers(*map(int, match.groups()))}>"])


def _of_hassil(path: Path, line: int, written: str, kinds: Kinds) -> str:
    """A template of hassil in the notation of `grammar`."""
    hassil = import_module("hassil.parse_expression")
    try:
        return _of_expression(hassil.parse_sentence(written).expression, kinds)
    except (hassil.ParseError, RecursionError, ValueError, IndexError, AssertionError) as error:
        raise DataError(path, line, f"is no template of hassil: {shown(str(error))}") from None


def _of_expression(expression: Any, kinds: Kinds) -> str:
    match type(expression).__name__:
        case "TextChunk":
            return SPECIAL.sub(" ", expression.original_text)
        case "Sequence":
            return "".join(_of_expression(item, kinds) for item in expression.items)
        case "Alternative":
            return f"[{'|'.join(_of_expression(item, kinds) for item in expression.items)}]"
        case "Permutation":
            parts = [_of_expression(item, kinds) for item in expression.items]
            orders = permutations(parts) if len(parts) <= 3 else [parts]
            return f"[{'|'.join(' '.join(order) for order in orders)}]"
        case "RuleReference":
            return f"<rule_{_identifier(expression.rule_name)}>"
        case _:
            kind = _identifier(expression.list_name)
            if expression.is_inline_range:
                kind = kinds.numbers(*expression.get_inline_range())
            return f"{{{_identifier(expression.slot_name)}:{kind}}}"
