"""Readers: every format once as it should be, once from a file that is wrong in every way we know."""

import gzip
import json

import pytest

from twofold.data.bio import joined, tags_of
from twofold.data.examples import Answer, Document, Labelled, Pair, Query, Question, Slot, Splits, Tagged, Utterance
from twofold.data.files import DataError
from twofold.data.goal_files import labels_of, read_goals
from twofold.data.readers import (
    read_labelled,
    read_pairs,
    read_questions,
    read_retrieval,
    read_summaries,
    read_tagged,
    read_texts,
    says_unknown,
    unknown_labels,
)
from twofold.data.splits import all_as_test

BIO = "turn\tO\nthe\tO\nliving\tB-room\nroom\tI-room\nlights\tO\nred\tB-color\n\nstop\tO\n"
LIVING = Utterance("turn the living room lights red", "color", (Slot("room", 9, 20), Slot("color", 28, 31)))


def folder(path, **files):
    """Files by name, with _ for a dot; objects become lines of JSON."""
    for name, content in files.items():
        if isinstance(content, list):
            content = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in content)
        (path / name.replace("_", ".").replace("..", "_")).write_bytes(content.encode())
    return path


def three(ending, content):
    return {f"{name}_{ending}": content for name in ("train", "dev", "test")}


def test_goals_from_tags(tmp_path):
    files = three("tsv", BIO) | three("intent_txt", "color\nstop\n")
    splits = read_goals(folder(tmp_path, **files))
    assert splits == Splits(*([[LIVING, Utterance("stop", "stop")]] * 3))
    assert LIVING.value(LIVING.slots[0]) == "living room"


@pytest.mark.parametrize("ends", ["\r\n", " \n", "\n"])
def test_tags_with_other_line_ends(tmp_path, ends):
    files = {"train_tsv": "\ufeff" + BIO.replace("\n", ends), "valid_tsv": BIO, "test_bio": BIO}
    files |= dict.fromkeys(["train_intent_txt", "valid_intent_txt", "test_intent_txt"], "color\nstop\n")
    splits = read_goals(folder(tmp_path, **files))
    assert splits.train == splits.dev == splits.test


def test_tags_in_other_scripts(tmp_path):
    words = "台所\tB-room\nの\tO\n電気\tO\n👩‍🍳\tB-who\n\n"
    (got,) = read_tagged(folder(tmp_path, **three("tsv", words)), bio_tags=True).train
    text, slots = joined(got)
    assert text == "台所 の 電気 👩‍🍳"
    assert [text[slot.start : slot.end] for slot in slots] == ["台所", "👩‍🍳"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tO\nb\tI-x\n", r"train\.tsv:2: tag 'I-x' follows 'O': a span begins with 'B-x'$"),
        ("b\tI-x\n", r"train\.tsv:1: tag 'I-x' follows 'O'"),
        ("a\tB-y\nb\tI-x\n", r"train\.tsv:2: tag 'I-x' follows 'B-y'"),
        ("a\tB-x\n\nb\tI-x\n", r"train\.tsv:3: tag 'I-x' follows 'O'"),
        ("a\tX\n", r"train\.tsv:1: tag 'X' is none of O, B-\.\.\., I-\.\.\.$"),
        ("a\tB-\n", "tag 'B-' is none of"),
        ("a\tO\n\tO\n", r"train\.tsv:2: tag 'O' without a word$"),
        ("a\t\n", r"train\.tsv:1: word 'a' without a tag$"),
        ("a b\n", r"train\.tsv:1: expected word<TAB>tag, got 'a b'$"),
        ("a\tb\tc\n", r"train\.tsv:1: expected word<TAB>tag, got"),
    ],
)
def test_broken_tags(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_tagged(folder(tmp_path, **three("tsv", content)), bio_tags=True)


def test_tags_that_are_no_spans(tmp_path):
    got = read_tagged(folder(tmp_path, **three("tsv", "the\tDET\ncat\tNOUN\n")))
    assert got.dev == [Tagged(("the", "cat"), ("DET", "NOUN"))]


@pytest.mark.parametrize(
    ("intents", "message"),
    [
        ("color\n", r"train\.intent\.txt: has 1 goal for the 2 sentences of train\.tsv$"),
        ("\nstop\n", r"train\.intent\.txt:1: no goal for the sentence at train\.tsv:1$"),
        (None, r"train\.tsv: has no train\.intent\.txt beside it, one goal a line$"),
    ],
)
def test_broken_intents(tmp_path, intents, message):
    files = three("tsv", BIO) | ({} if intents is None else {"train_intent_txt": intents})
    with pytest.raises(DataError, match=message):
        read_goals(folder(tmp_path, **files))


def test_goals_that_are_nowhere(tmp_path):
    with pytest.raises(DataError, match=r"typo: no such file$"):
        read_goals(tmp_path / "typo")


OWN = {"text": "Licht in der Küche aus 🙂", "goal": "off", "slots": [{"name": "room", "start": 13, "end": 18}]}


@pytest.mark.parametrize(
    "slots",
    [
        [{"name": "room", "start": 13, "end": 18}],
        [{"name": "room", "value": "Küche"}],
        [{"name": "room", "start": 13, "end": 18, "value": "Küche"}],
    ],
)
def test_own_goals(tmp_path, slots):
    got = read_goals(folder(tmp_path, **three("jsonl", [OWN | {"slots": slots}, {"text": "hm", "goal": None}])))
    assert got.test == [Utterance(OWN["text"], "off", (Slot("room", 13, 18),)), Utterance("hm", None)]


def test_values_are_found_one_after_the_other(tmp_path):
    record = {"text": "from Rome to Rome", "goal": "go", "slots": [{"name": n, "value": "Rome"} for n in ("a", "b")]}
    assert read_goals(folder(tmp_path, **three("jsonl", [record]))).train[0].slots == (
        Slot("a", 5, 9),
        Slot("b", 13, 17),
    )


@pytest.mark.parametrize(
    ("text", "value", "place"),
    [
        ("listen to ten songs", "ten", (10, 13)),
        ("add a task", "a", (4, 5)),
        # Where no word is it, whatever is there.
        ("listen to it", "ten", (3, 6)),
        ("明天北京天气", "北京", (2, 4)),
        ("it's 5:30-6", "6", (10, 11)),
        ("हिन्दी न", "न", (7, 8)),
    ],
)
def test_values_are_looked_for_among_words(tmp_path, text, value, place):
    record = {"text": text, "goal": "go", "slots": [{"name": "a", "value": value}]}
    assert read_goals(folder(tmp_path, **three("jsonl", [record]))).train[0].slots == (Slot("a", *place),)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"goal": "x"}, r"train\.jsonl:1: missing field 'text'"),
        ({"text": "a"}, r"missing field 'goal' \(fields here: text\)$"),
        ({"text": " ", "goal": "x"}, "field 'text' is empty$"),
        ({"text": "a", "goal": ""}, "field 'goal' is empty$"),
        ({"text": "a", "goal": 3}, "field 'goal' must be a string, got 3$"),
        ({"text": "a", "goal": "x", "slots": {}}, "field 'slots' must be a list"),
        ({"text": "a", "goal": "x", "slots": ["b"]}, 'slots.* must hold objects, got "b"$'),
        (
            {"text": "a", "goal": "x", "slots": [{"name": "s", "start": 0, "end": 2}]},
            "slot 's' is 0:2, empty or outside of 1",
        ),
        (
            {"text": "a b", "goal": "x", "slots": [{"name": "s", "start": 0, "end": 2}]},
            "'a ', which begins or ends with",
        ),
        ({"text": "a", "goal": "x", "slots": [{"name": "s", "start": 0}]}, "missing field 'end'"),
        (
            {"text": "a", "goal": "x", "slots": [{"name": "s", "start": 0, "end": 1, "value": "b"}]},
            "'b', but 'a' is at its",
        ),
        (
            {"text": "a", "goal": "x", "slots": [{"name": "s", "value": "b"}]},
            r"value 'b', which is not \(or no more\) in 'a'$",
        ),
        ({"text": "a", "goal": "x", "slots": [{"name": "s", "value": "a"}] * 2}, "value 'a', which is not"),
        ({"text": "a", "goal": "x", "slots": [{"value": "a"}]}, "missing field 'name'"),
    ],
)
def test_broken_own_goals(tmp_path, record, message):
    with pytest.raises(DataError, match=message):
        read_goals(folder(tmp_path, **three("jsonl", [record])))


def test_clinc_as_lines(tmp_path):
    files = three("jsonl", [{"text": "pay it", "label": "pay"}])
    files |= {f"oos__{name}_jsonl": [{"text": "hm", "label": "oos"}] for name in ("train", "dev", "test")}
    assert read_goals(folder(tmp_path, **files)) == Splits(*([[Utterance("pay it", "pay"), Utterance("hm", None)]] * 3))


def test_clinc_as_published(tmp_path):
    whole = {"train": [["pay it", "pay"]], "val": [["pay", "pay"]], "test": [["do", "do"]], "oos_test": [["hm", "oos"]]}
    path, packed = tmp_path / "data_full.json", tmp_path / "packed.json.gz"
    path.write_text(json.dumps(whole))
    packed.write_bytes(gzip.compress(path.read_bytes()))
    got = read_goals(path)
    assert got.dev == [Utterance("pay", "pay")]
    assert got.test == [Utterance("do", "do"), Utterance("hm", None)]
    assert read_goals(packed) == got


@pytest.mark.parametrize("name", ["data_full.json", "data_full.json.gz"])
def test_clinc_as_the_folder_it_is_in(tmp_path, name):
    whole = {split: [[f"pay {split}", "pay"]] for split in ("train", "val", "test")}
    text = json.dumps(whole).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert read_goals(tmp_path) == read_goals(tmp_path / name)
    # What else is there comes first, as it always did.
    own = [Utterance("go", "go")]
    assert read_goals(folder(tmp_path, **three("jsonl", [{"text": "go", "goal": "go"}]))) == Splits(own, own, own)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"train": [["a"]]}', r"entry 0 of 'train' must be \[text, label\], got \[\"a\"\]$"),
        ('{"x": 1}', 'expected lists "train", "val", "test"'),
        ("[]", 'expected an object with lists "train"'),
        ('{\n"train": ,', r"full\.json:2: invalid JSON: Expecting value at column 10$"),
    ],
)
def test_broken_clinc(tmp_path, content, message):
    path = tmp_path / "full.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_goals(path)


def test_a_file_of_another_kind(tmp_path):
    with pytest.raises(DataError, match=r"a\.xyz: expected a name that ends in one of \.jsonl, \.tsv"):
        read_goals(folder(tmp_path, a_xyz="x") / "a.xyz")


def test_a_folder_without_data(tmp_path):
    with pytest.raises(DataError, match=r"holds no data: expected train\.jsonl, or dev and test likewise$"):
        read_summaries(tmp_path)


def test_a_folder_without_train_is_read_and_said(tmp_path):
    got = read_summaries(folder(tmp_path, test_jsonl=[{"text": "a", "summary": "b"}]))
    assert got == Splits([], [], [Pair("a", "b")])
    assert got.missing == ("train", "dev")


@pytest.mark.parametrize("ending", ["jsonl", "tsv"])
def test_labelled(tmp_path, ending):
    content = [{"text": "so good", "label": "joy"}] if ending == "jsonl" else "so good\tjoy \n"
    assert read_labelled(folder(tmp_path, **three(ending, content))).train == [Labelled("so good", "joy")]


def test_spaces_around_a_label_are_none_of_it(tmp_path):
    rows = [{"text": "so good", "label": " joy "}]
    assert read_labelled(folder(tmp_path, **three("jsonl", rows))).train == [Labelled("so good", "joy")]
    assert read_goals(folder(tmp_path, **three("jsonl", rows))).train == [Utterance("so good", "joy")]


def test_json_is_not_taken_for_columns(tmp_path):
    with pytest.raises(DataError, match=r"rows\.json: expected a JSON object a line, in a file called \.jsonl"):
        read_labelled(folder(tmp_path, rows_json='[{"text": "a", "label": "b"}]') / "rows.json")


def test_a_link_that_leads_nowhere_is_no_missing_split(tmp_path):
    folder(tmp_path, train_jsonl=[{"text": "a", "label": "b"}])
    (tmp_path / "dev.jsonl").symlink_to("gone.jsonl")
    with pytest.raises(DataError, match=r"dev\.jsonl: is a link to gone\.jsonl, which is not there$"):
        read_labelled(tmp_path)


@pytest.mark.parametrize(("name", "said"), [("nowhere", "no such folder"), ("a.txt", "is a file, expected a folder")])
def test_documents_lie_in_a_folder(tmp_path, name, said):
    folder(tmp_path, a_txt="x")
    with pytest.raises(DataError, match=f"{name}: {said}"):
        read_retrieval(tmp_path / name)


def test_labelled_text_may_hold_tabs(tmp_path):
    assert read_labelled(folder(tmp_path, **three("tsv", "a\tb\tjoy\n"))).train == [Labelled("a\tb", "joy")]


@pytest.mark.parametrize("line", ["no tab", "\tjoy", "text\t", "x" * 10_000])
def test_broken_labelled(tmp_path, line):
    with pytest.raises(DataError, match=r"train\.tsv:2: expected text<TAB>label, got") as it:
        read_labelled(folder(tmp_path, **three("tsv", f"a\tb\n{line}\n")))
    assert len(str(it.value)) < len(str(tmp_path)) + 120


def test_a_file_alone_is_cut(tmp_path):
    rows = [{"text": f"text {n}", "label": "x"} for n in range(30)]
    got = read_labelled(folder(tmp_path, data_jsonl=rows) / "data.jsonl")
    assert (len(got.train), len(got.dev), len(got.test), got.cut) == (24, 3, 3, ("dev", "test"))


@pytest.mark.parametrize("test", ["test", "test2016"])
@pytest.mark.parametrize("names", [("en", "de"), ("en-de_en", "en-de_de"), ("de-en_en", "de-en_de")])
def test_pairs(tmp_path, names, test):
    files = {
        f"{split}_{name}": f"{name[-2:]} one\n\n{name[-2:]} two\n" for split in ("train", "val", test) for name in names
    }
    got = read_pairs(folder(tmp_path, **files), "en", "de")
    assert got == Splits(*([[Pair("en one", "de one"), Pair("en two", "de two")]] * 3))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"train_en": "a\nb\n", "train_de": "a\n"}, r"train\.de: has 1 line, but train\.en has 2$"),
        (
            {"train_en": "a\nb\n", "train_de": "a\n\n"},
            r"train\.de:2: is an empty line, but that line of train\.en is not$",
        ),
        (
            {"train_en": "a\n\nb", "train_de": "a\nb\nc"},
            r"train\.en:2: is an empty line, but that line of train\.de is not$",
        ),
        ({"train_en": "a\n"}, r"train\.en: has no train\.de beside it$"),
    ],
)
def test_broken_pairs(tmp_path, files, message):
    with pytest.raises(DataError, match=message):
        read_pairs(folder(tmp_path, **files), "en", "de")


def test_summaries(tmp_path):
    got = read_summaries(folder(tmp_path, **three("jsonl", [{"id": "1", "text": "long\ntext", "summary": "short"}])))
    assert got.train == [Pair("long\ntext", "short")]


QA = {"id": "7", "context": "Ada 👩 wrote it.", "question": "Who?", "answers": [{"text": "wrote", "start": 6}]}


def test_questions(tmp_path):
    got = read_questions(folder(tmp_path, **three("jsonl", [QA])))
    assert got.dev == [Question("7", "Ada 👩 wrote it.", "Who?", (Answer("wrote", 6),))]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"answers": [{"text": "wrote", "start": 5}]},
            r"train\.jsonl:1: answer 'wrote' is not at 5 of the context, ' wrot' is$",
        ),
        ({"answers": [{"text": "it", "start": -3}]}, "answer 'it' is not at -3"),
        ({"answers": [{"text": "it", "start": 99}]}, "answer 'it' is not at 99"),
        ({"answers": [{"text": "it"}]}, "missing field 'start'"),
        ({"answers": []}, "field 'answers' is empty$"),
        ({"answers": ["it"]}, "answers.* must hold objects, got 'it'$"),
        ({"question": ""}, "field 'question' is empty$"),
        ({"context": 1}, "field 'context' must be a string, got 1$"),
    ],
)
def test_broken_questions(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        read_questions(folder(tmp_path, **three("jsonl", [QA | change])))


DOCS = [{"doc_id": "a", "title": "ls", "text": "list"}, {"doc_id": "b", "text": "copy"}]


def search(path, **files):
    given = {
        "docs_jsonl": DOCS,
        "queries_train_jsonl": [{"query_id": "1", "text": "show"}],
        "qrels_train_tsv": "1\ta\t1\n",
    }
    return folder(path, **{name: content for name, content in (given | files).items() if content is not None})


def test_retrieval(tmp_path):
    own = [{"text": "duplicate", "relevant": ["b", "a"]}]
    got = read_retrieval(
        search(tmp_path, queries_valid_jsonl=own, queries_test_jsonl=own, qrels_train_tsv="1\ta\t3\n1\tb\t0\n\n")
    )
    assert got.documents == [Document("a", "ls\nlist"), Document("b", "copy")]
    assert got.queries.train == [Query("show", {"a": 3})]
    assert got.queries.dev == got.queries.test == [Query("duplicate", {"b": 1, "a": 1})]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"docs_jsonl": None}, "holds no docs.jsonl$"),
        ({"docs_jsonl": DOCS + DOCS}, r"docs\.jsonl:3: doc_id 'a' occurs twice$"),
        ({"queries_train_jsonl": None}, r"holds no queries: expected queries\.train\.jsonl"),
        ({"qrels_train_tsv": None}, r"queries\.train\.jsonl:1: query without a relevant document$"),
        ({"qrels_train_tsv": "1\tz\t1\n"}, r"qrels\.train\.tsv:1: unknown doc_id 'z'$"),
        (
            {"qrels_train_tsv": "1\ta\n"},
            r"qrels\.train\.tsv:1: expected query_id<TAB>doc_id<TAB>relevance, got '1\\ta'$",
        ),
        ({"qrels_train_tsv": "1\ta\tyes\n"}, "expected query_id<TAB>doc_id<TAB>relevance"),
        ({"qrels_train_tsv": "1\ta\t1\n9\tb\t1\n"}, r"judges query '9', which queries\.train\.jsonl lacks$"),
        ({"queries_train_jsonl": [{"text": "x", "relevant": ["z"]}]}, r"queries\.train\.jsonl:1: unknown doc_id 'z'$"),
        (
            {"queries_train_jsonl": [{"query_id": "1", "text": "x", "relevant": ["a"]}]},
            r"queries\.train\.jsonl:1: query '1' is judged here and in qrels\.train\.tsv: leave one out$",
        ),
        (
            {"queries_train_jsonl": [{"query_id": "7", "text": "x", "relevant": ["a"]}] * 2, "qrels_train_tsv": None},
            r"queries\.train\.jsonl:2: query_id '7' occurs twice$",
        ),
    ],
)
def test_broken_retrieval(tmp_path, files, message):
    with pytest.raises(DataError, match=message):
        read_retrieval(search(tmp_path, **files))


def test_texts(tmp_path):
    assert read_texts(folder(tmp_path, **three("txt", "a\n\nb\n"))) == Splits(*([["a\n\nb\n"]] * 3))


def test_texts_alone_are_cut_at_the_end(tmp_path):
    text = "".join(map(str, range(100)))
    got = read_texts(folder(tmp_path, book_txt=text) / "book.txt")
    assert "".join(got.train + got.dev + got.test) == text
    assert (len(got.dev[0]), len(got.test[0]), got.cut) == (9, 9, ("dev", "test"))
    with pytest.raises(DataError, match=r"has 3 characters, too few to cut dev and test from$"):
        read_texts(folder(tmp_path, tiny_txt="abc") / "tiny.txt")


def test_what_is_only_scored_is_not_cut(tmp_path):
    (tmp_path / "tiny.txt").write_text("a")
    (tmp_path / "one.jsonl").write_text('{"text": "so good", "label": "joy"}\n{"text": "oh no", "label": "fear"}\n')
    with all_as_test():
        assert read_texts(tmp_path / "tiny.txt") == Splits([], [], ["a"])
        assert len(read_labelled(tmp_path / "one.jsonl").test) == 2
        found = read_retrieval(search(tmp_path)).queries
        assert (found.train, found.dev, found.cut) == ([], [], ())
    with pytest.raises(DataError, match=r"has 1 character, too few to cut dev and test from$"):
        read_texts(tmp_path / "tiny.txt")
    with pytest.raises(DataError, match=r"has 2 different examples, too few to cut"):
        read_labelled(tmp_path / "one.jsonl")


def test_texts_a_line(tmp_path):
    lines = "".join(json.dumps({"id": n, "text": f"text {n}\nof two lines"}) + "\n" for n in range(20))
    got = read_texts(folder(tmp_path, train_jsonl=lines))
    assert sorted([*got.train, *got.dev, *got.test]) == sorted(f"text {n}\nof two lines" for n in range(20))
    assert (len(got.dev), len(got.test), got.cut) == (2, 2, ("dev", "test"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"train\.jsonl:1: field 'text' is empty"):
        read_texts(folder(tmp_path / "empty", train_jsonl='{"text": " "}'))


def test_labels_that_train_lacks():
    good, strange = Utterance("a", "x", (Slot("s", 0, 1),)), Utterance("a", "x", (Slot("t", 0, 1),))
    assert unknown_labels(Splits([good], [good], [Utterance("b", None)]), labels_of) == {}
    unknown = unknown_labels(Splits([good], [good], [good, strange]), labels_of)
    assert unknown == {"t": 1}
    assert says_unknown(unknown) == "1 label not in train, counted as wrong: 't' (1)"
    assert unknown_labels(Splits([], [good], []), labels_of) == {}


def test_spans_become_tags():
    places = ((0, 4), (5, 8), (9, 15), (16, 20), (21, 27))
    assert tags_of(places, (Slot("room", 9, 20),)) == ("O", "O", "B-room", "I-room", "O")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"train": 5}', "field 'train' must be a list, got 5"),
        ('{"train": [["half \\ud800", "a"]]}', "field 'train' holds half of a surrogate pair"),
        ("[" * 200_000, "invalid JSON: "),
        ('{"train": ' + "9" * 5000 + "}", "invalid JSON: "),
    ],
    ids=["number", "half", "nested", "digits"],
)
def test_clincs_layout_gone_wrong(content, message, tmp_path):
    (tmp_path / "data.json").write_text(content)
    with pytest.raises(DataError, match=rf"data\.json: {message}"):
        read_goals(tmp_path / "data.json")


@pytest.mark.parametrize("line", ["[" * 200_000, '{"text": ' + "9" * 5000 + "}"], ids=["nested", "digits"])
def test_a_line_that_json_cannot_hold(line, tmp_path):
    (tmp_path / "train.jsonl").write_text(f'{{"text": "a", "label": "b"}}\n{line}\n')
    with pytest.raises(DataError, match=r"train\.jsonl:2: invalid JSON: "):
        read_labelled(tmp_path)


def test_judgements_are_whole_numbers_and_queries_come_once(tmp_path):
    (tmp_path / "docs.jsonl").write_text('{"doc_id": "d", "text": "text"}\n')
    (tmp_path / "queries.train.jsonl").write_text('{"query_id": "q", "text": "text"}\n' * 2)
    for judged in ("\u00b2", "--5", "1.5"):
        (tmp_path / "qrels.train.tsv").write_text(f"q\td\t{judged}\n")
        with pytest.raises(DataError, match=r"qrels\.train\.tsv:1: expected query_id<TAB>doc_id<TAB>relevance"):
            read_retrieval(tmp_path)
    (tmp_path / "qrels.train.tsv").write_text("q\td\t1\n")
    with pytest.raises(DataError, match=r"queries\.train\.jsonl:2: query_id 'q' occurs twice"):
        read_retrieval(tmp_path)
