"""Formats of other tools: each recognised by its content, read, and refused by line where it is wrong."""

import json

import pytest

from twofold.data.examples import Labelled, Slot, Splits, Tagged, Utterance
from twofold.data.files import DataError
from twofold.data.goal_files import read_goals
from twofold.data.grammar import seeded
from twofold.data.importers.formats import ENDINGS, FORMATS, format_of, import_data, split_of_name
from twofold.data.overview import understand, written
from twofold.data.readers import read_labelled, read_tagged
from twofold.data.splits import nothing_cut

CONLL = """\
-DOCSTART- -X- -X- O

EU NNP B-NP I-ORG
rejects VBZ B-VP O
German JJ B-NP I-MISC

Peter NNP B-NP I-PER
Blackburn NNP I-NP I-PER
"""
CONLLU = """\
# text = Don't go
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_

"""
RASA = """\
version: "3.1"
nlu:
- intent: transfer
  examples: |
    - move [savings](account) to checking
    - send [50 euros]{"entity": "amount", "value": "50"} to [Ann][{"entity": "name", "role": "to"}]
- intent: greet
  examples:
  - text: hello
- synonym: savings
  examples: |
    - save account
"""
RASA_MARKDOWN = "## intent:greet\n- hi\n* hello [Ann](name:ann)\n\n## synonym:ann\n- Anna\n"
RASA_JSON = {
    "rasa_nlu_data": {
        "common_examples": [
            {"text": "to Ann", "intent": "go", "entities": [{"start": 3, "end": 6, "value": "a", "entity": "name"}]}
        ]
    }
}
SNIPS = """\
---
type: intent
name: fly
utterances:
  - from [origin:city](Paris) on [date](monday)
---
type: entity
name: city
values: [london]
"""
PIECES = [{"text": " add "}, {"text": "Cita ", "entity": "song", "slot_name": "title"}, {"text": "to it\n"}]
RHASSPY = """\
# comment
[Time]
what time is it

[Light]
name = ((living room lamp | garage light) {name}) | <other>
other = bedroom light{name:bed}
set [the] <name> to (red | green){color!upper} [at 10..30,10{level!int} percent]
\\[please] turn $room{room} off
"""
HASSIL = """\
language: en
intents:
  TurnOn:
    data:
      - sentences:
          - "<turn> on [the] {name}[ in {area}]"
          - "(turn;now) {brightness:level} on"
lists:
  area:
    values:
      - in: "living( |-)room"
        out: living_room
  brightness:
    range: {from: 0, to: 100}
expansion_rules:
  turn: "(turn|switch)"
"""


def goals(path):
    with nothing_cut():
        return read_goals(path)


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'text,intent\n"fly, please",go\nstop,oos\n'),
        ("a.csv", 'id;Category;Utterance\r\n1;go;"fly, please"\r\n\r\n2;oos;stop\r\n'),
        ("train.tsv", "label\ttext\ngo\tfly, please\noos\tstop\n"),
    ],
)
def test_tables(tmp_path, name, content):
    expected = [Utterance("fly, please", "go"), Utterance("stop", None)]
    assert goals(put(tmp_path / name, content)).train == expected
    with nothing_cut():
        assert read_labelled(tmp_path / name).train == [Labelled("fly, please", "go"), Labelled("stop", "oos")]


def test_a_table_with_its_splits(tmp_path):
    path = put(tmp_path / "a.csv", "text,intent,split\na,x,train\nb,x,validation\nc,y,TEST\n")
    assert read_goals(path) == Splits([Utterance("a", "x")], [Utterance("b", "x")], [Utterance("c", "y")])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n", r"a\.csv:1: expected a header with a column for the text \(text, "),
        ("text,goal\na,x\nb,\n", r"a\.csv:3: the cell of column 'goal' is empty"),
        ("text,goal\na\n", r"a\.csv:2: has 1 cells, expected at least 2"),
        ('text,goal\n"a,x\n', r"a\.csv:2: is no row of a table"),
        ("text,goal,split\na,x,eval\n", r"a\.csv:2: the split must be train, dev or test, got 'eval'"),
    ],
)
def test_broken_tables(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_goals(put(tmp_path / "a.csv", content))


def test_parallel_files(tmp_path):
    for split, city in (("train", "Rome"), ("valid", "Oslo"), ("test", "Bonn")):
        put(tmp_path / split / "seq.in", f"to {city}\nhi\n")
        put(tmp_path / split / "seq.out", "O I-city\nO\n")
        put(tmp_path / split / "label", "go\ngreet\n")
    splits = read_goals(tmp_path)
    assert splits.dev == [Utterance("to Oslo", "go", (Slot("city", 3, 7),)), Utterance("hi", "greet")]
    put(tmp_path / "test" / "seq.out", "O\nO\n")
    with pytest.raises(DataError, match=r"test/seq\.out:1: has 1 tags for 2 words"):
        read_goals(tmp_path)
    put(tmp_path / "test" / "label", "go\n")
    with pytest.raises(DataError, match=r"test/label: has 1 lines, but seq\.in has 2"):
        read_goals(tmp_path)


def test_columns(tmp_path):
    for name, word in (("eng.train", "EU"), ("eng.testa", "UN"), ("eng.testb", "UNO")):
        put(tmp_path / name, CONLL.replace("EU", word))
    splits = read_tagged(tmp_path, bio_tags=True)
    assert splits.dev[0] == Tagged(("UN", "rejects", "German"), ("B-ORG", "O", "B-MISC"))
    assert splits.test[1].tags == ("B-PER", "I-PER")
    assert read_tagged(tmp_path).train[1].tags == ("NNP", "NNP")


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("I-a I-a O I-a", "B-a I-a O B-a"),
        ("I-a B-a I-b", "B-a B-a B-b"),
        ("B-a I-a E-a S-b O", "B-a I-a I-a B-b O"),
        ("B-a L-a U-a B-b L-b", "B-a I-a B-a B-b I-b"),
        ("S-a I-a", "B-a B-a"),
    ],
)
def test_ways_to_tag_spans(tmp_path, tags, expected):
    path = put(tmp_path / "train.conll", "".join(f"w {tag}\n" for tag in tags.split()) + "\n")
    with nothing_cut():
        assert " ".join(read_tagged(path, bio_tags=True).train[0].tags) == expected


def test_columns_that_are_not_even(tmp_path):
    with pytest.raises(DataError, match=r"a\.txt:7: has 2 columns, expected 4"):
        read_tagged(put(tmp_path / "a.txt", CONLL.replace("Peter NNP B-NP", "Peter")), bio_tags=True)
    with pytest.raises(DataError, match=r"a\.txt:8: tag 'PER' is none of O, B-"):
        read_tagged(put(tmp_path / "a.txt", CONLL[:-6] + "PER\n"), bio_tags=True)


def test_universal_dependencies(tmp_path):
    put(tmp_path / "en_x-ud-train.conllu", CONLLU)
    put(tmp_path / "en_x-ud-dev.conllu", CONLLU.replace("go", "run"))
    with nothing_cut():
        splits = read_tagged(tmp_path)
    assert splits.train == [Tagged(("Do", "n't", "go"), ("AUX", "PART", "VERB"))]
    assert splits.dev[0].words[-1] == "run"
    with pytest.raises(DataError, match=r"is CoNLL-U, which holds parts of speech, not spans"):
        read_tagged(tmp_path, bio_tags=True)
    with pytest.raises(DataError, match=r"a\.conllu:4: field 4 \(UPOS\) is empty"):
        read_tagged(put(tmp_path / "a.conllu", CONLLU.replace("PART", "_")))


def test_rasa(tmp_path):
    imported = import_data(put(tmp_path / "nlu.yml", RASA), ())
    assert imported.splits.train == [
        Utterance("move savings to checking", "transfer", (Slot("account", 5, 12),)),
        Utterance("send 50 euros to Ann", "transfer", (Slot("amount", 5, 13), Slot("to", 17, 20))),
        Utterance("hello", "greet"),
    ]
    assert imported.notes == ["nlu.yml: 1 of kind synonym left out"]
    older = goals(put(tmp_path / "nlu.md", RASA_MARKDOWN)).train
    assert older == [Utterance("hi", "greet"), Utterance("hello Ann", "greet", (Slot("name", 6, 9),))]
    assert goals(put(tmp_path / "nlu.json", RASA_JSON)).train == [Utterance("to Ann", "go", (Slot("name", 3, 6),))]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "nlu:\n- intent: a\n  examples: |\n    - ok\n    no\n",
            r"a\.yml:5: expected '- ' before an example, got 'no'",
        ),
        ("nlu:\n  intent: a\n", r"a\.yml:2: expected a list"),
        ("nlu:\n- intent: a\n", r"a\.yml:2: intent 'a' has no field 'examples'"),
        ("nlu:\n- story: a\n", r"a\.yml:2: expected an intent, a synonym, a lookup or a regex, got 'story'"),
        ("nlu:\n- intent: a\n  examples: [\n", r"a\.yml:4: invalid YAML"),
        ('nlu:\n- intent: a\n  examples: |\n    - [a]{"value": 1}\n', r"a\.yml:4: missing field 'entity'"),
        ("nlu: " + "[" * 5000, r"a\.yml.* invalid YAML"),
    ],
)
def test_broken_rasa(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_goals(put(tmp_path / "a.yml", content))


def test_snips(tmp_path):
    from_yaml = goals(put(tmp_path / "a.yaml", SNIPS)).train
    assert from_yaml == [Utterance("from Paris on monday", "fly", (Slot("origin", 5, 10), Slot("date", 14, 20)))]
    expected = [Utterance("add Cita to it", "add", (Slot("title", 4, 8),))]
    benchmark = {"add": [{"data": PIECES}]}
    library = {"intents": {"add": {"utterances": [{"data": PIECES}]}}, "entities": {"song": {}}, "language": "en"}
    for content in (benchmark, library):
        assert goals(put(tmp_path / "a.json", content)).train == expected
    with pytest.raises(DataError, match=r"a\.json: utterance 1 of 'add': missing field 'text'"):
        read_goals(put(tmp_path / "a.json", {"add": [{"data": [{"entity": "a"}]}]}))


def test_rhasspy(tmp_path):
    put(tmp_path / "slots" / "room", "kitchen\n(living | dining) room\n")
    splits = goals(put(tmp_path / "sentences.ini", RHASSPY))
    texts = {utterance.text: utterance for utterance in splits.train}
    assert texts["what time is it"].goal == "Time"
    example = texts["please turn dining room off"]
    assert [(slot.name, example.value(slot)) for slot in example.slots] == [("room", "dining room")]
    assert any("at 20 percent" in text for text in texts)
    assert {example.value(slot) for example in texts.values() for slot in example.slots if slot.name == "name"} == {
        "living room lamp",
        "garage light",
        "light",
    }
    assert goals(tmp_path / "sentences.ini") == splits


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[A]\nset (a|b\n", r"a\.ini:2: 'set \(a\|b' lacks a \)"),
        ("[A]\nset a)\n", r"a\.ini:2: 'set a\)' has an unmatched \)"),
        ("[A]\n{b} set\n", r"a\.ini:2: tag '\{b\}' follows no word"),
        ("[A]\nset <x>\nx = a <x>\n", r"a\.ini:2: a template of 'A' gives no sentence"),
        (
            "[A]\n<r29>\nr0 = a\n" + "".join(f"r{n} = <r{n - 1}> <r{n - 1}>\n" for n in range(1, 30)),
            r"a\.ini:2: a template of 'A' gives no sentence: .*more than 1,000 names",
        ),
    ],
)
def test_broken_rhasspy(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_goals(put(tmp_path / "a.ini", content))


def test_hassil(tmp_path):
    pytest.importorskip("hassil")
    imported = import_data(put(tmp_path / "a.yaml", HASSIL), ())
    texts = {utterance.text: utterance for utterance in imported.splits.train}
    example = texts["switch on the name in living-room"]
    assert [(slot.name, example.value(slot)) for slot in example.slots] == [("name", "name"), ("area", "living-room")]
    assert any(text.startswith("now turn ") for text in texts)
    assert imported.notes[1] == "a.yaml: no values for name; the names stand in their place"
    with pytest.raises(DataError, match=r"a\.yaml:6: is no template of hassil"):
        read_goals(put(tmp_path / "a.yaml", HASSIL.replace("[ in {area}]", "[ in {area}")))


def test_files_of_two_formats(tmp_path):
    put(tmp_path / "nlu.yml", RASA)
    put(tmp_path / "a.ini", RHASSPY)
    with pytest.raises(DataError, match="holds Rasa NLU YAML and Rhasspy sentences; expected files of one format"):
        read_goals(tmp_path)


def test_files_of_our_own_come_first(tmp_path):
    put(tmp_path / "train.jsonl", '{"text": "a", "goal": "b"}\n')
    put(tmp_path / "nlu.yml", RASA)
    assert goals(tmp_path).train == [Utterance("a", "b")]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("nlu.yml", "train"),
        ("eng.testb", "test"),
        ("valid/seq.in", "dev"),
        ("en-ud-dev.conllu", "dev"),
        ("x.csv", "train"),
    ],
)
def test_splits_of_names(tmp_path, name, split):
    assert split_of_name((tmp_path / name).relative_to(tmp_path)) == split


def test_what_is_of_no_other_tool(tmp_path):
    for content in ("", "text\n", '{"text": "a"}\n', "a\tO\nb\tO\n", "so good\tjoy\n", "\x00\xff{[", "# a\n"):
        for ending in set(ENDINGS) - {".csv"}:
            assert format_of(put(tmp_path / f"a{ending}", content)) is None


SAMPLES = {
    "a.yml": RASA,
    "a.md": RASA_MARKDOWN,
    "rasa.json": json.dumps(RASA_JSON),
    "snips.yaml": SNIPS,
    "snips.json": json.dumps({"add": [{"data": PIECES}]}),
    "a.ini": RHASSPY,
    "a.conll": CONLL,
    "a.conllu": CONLLU,
    "a.csv": 'text,intent,split\n"fly, please",go,train\nstop,oos,dev\n',
    "a.jsonl": '{"text": "fly to Rome", "goal": "go", "slots": [{"name": "to", "value": "Rome"}]}\n',
}


@pytest.mark.parametrize("name", SAMPLES)
def test_broken_files_end_in_one_line(tmp_path, name):
    """Files with pieces left out, repeated, moved and characters put in: read, or refused in a short line."""
    rng = seeded("broken", name)
    for _ in range(60):
        content = SAMPLES[name]
        for _ in range(rng.randrange(1, 5)):
            start = rng.randrange(len(content) + 1)
            end = start + rng.randrange(12)
            piece = rng.choice(["", content[start:end] * 9, rng.choice("[](){}|<>:\"',-\n\t &*!$\x00\ufeff")])
            content = content[:start] + piece + content[end:]
        try:
            understand(put(tmp_path / name, content))
        except DataError as error:
            message = str(error)
            assert str(tmp_path / name) in message
            assert "\n" not in message
            assert len(message) < len(str(tmp_path)) + 400


def test_aliases_of_aliases(tmp_path):
    """Lists of lists by reference, which would be 10^9 entries if they were copied."""
    rows = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10)]
    content = "l0: &l0 [a]\n" + "\n".join(rows) + "\nnlu: *l9\n"
    with pytest.raises(DataError, match=r"a\.yml:9: expected a mapping"):
        read_goals(put(tmp_path / "a.yml", content))


def test_names_of_formats_differ():
    assert len({form.name for form in FORMATS}) == len(FORMATS)


DOUBTFUL = [
    {"text": "turn it up", "goal": "louder"},
    {"text": "Turn  it up", "goal": "lights"},
    {"text": "pass", "goal": None},
    {"text": "call Ann", "goal": "call", "slots": [{"name": "who", "start": 5, "end": 8}]},
]


@pytest.fixture
def doubtful(tmp_path):
    put(tmp_path / "train.jsonl", "".join(f"{json.dumps(record)}\n" for record in DOUBTFUL))
    put(tmp_path / "test.jsonl", '{"text": "CALL ann", "goal": "ring"}\n')
    return tmp_path


def test_overview(doubtful):
    overview, _ = understand(doubtful)
    assert (overview.task, overview.examples) == ("goals", {"train": 4, "dev": 0, "test": 1})
    assert overview.labels["ring"] == {"train": 0, "dev": 0, "test": 1}
    assert overview.slots == {"who": {"train": 1, "dev": 0, "test": 0}}
    assert overview.contradictions[0] == {"text": "turn it up", "labels": {"louder": 1, "lights": 1}}
    assert overview.duplicates == [{"text": "call Ann", "splits": ["test", "train"]}]
    assert overview.few == {"call": 1, "lights": 1, "louder": 1}
    assert overview.unknown == {"ring": 1}
    assert len(overview.shown) == 5


@pytest.mark.parametrize(
    ("name", "content", "task"),
    [
        ("a.tsv", "so good\tjoy\nhow sad\tgrief\n", "classification"),
        ("a.tsv", "a\tDET\ncat\tNOUN\n\n", "pos"),
        ("a.tsv", "a\tO\nRome\tB-city\n\n", "ner"),
        ("a.json", {"train": [["pay it", "pay"]]}, "goals"),
        ("a.jsonl", '{"text": "a", "label": "b"}\n', "goals"),
        ("a.yml", RASA, "goals"),
        ("a.conllu", CONLLU, "pos"),
        ("a.conll", CONLL, "ner"),
    ],
)
def test_what_is_written_is_read_again(tmp_path, name, content, task):
    overview, splits = understand(put(tmp_path / name, content))
    assert overview.task == task
    for file, text in written(splits).items():
        put(tmp_path / "written" / file, text)
    again, same = understand(tmp_path / "written", task)
    assert same == splits
    assert again.examples == overview.examples


@pytest.mark.parametrize("content", ['{"context": "a", "question": "b"}\n', '{"a": 1}\n'])
def test_data_of_other_tasks(tmp_path, content):
    with pytest.raises(DataError, match=r"a\.jsonl: is in no format of goals, labels or tagged words"):
        understand(put(tmp_path / "a.jsonl", content))
