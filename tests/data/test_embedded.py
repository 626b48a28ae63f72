"""The small sets for every task: the same for a seed, nothing twice, something new in test, and right."""

import re
from collections import Counter
from functools import cache

import pytest
import torch

from twofold.data.bio import why_not_bio
from twofold.data.digest import digest_of_examples
from twofold.data.drawing import draw_splits
from twofold.data.embedded.captioning import COLOURS, SIDE, Thing, paint, shapes
from twofold.data.embedded.classification import WORDINGS, moods
from twofold.data.embedded.lm import stories
from twofold.data.embedded.ner import news
from twofold.data.embedded.pos import parts_of_speech, past, plural, third_person
from twofold.data.embedded.qa import biographies
from twofold.data.embedded.retrieval import help_pages
from twofold.data.embedded.summarization import match_reports
from twofold.data.embedded.translation import OBJECTS, PEOPLE, VERBS, english_to_german, phrase
from twofold.data.examples import SPLITS, Splits
from twofold.data.goals import goals
from twofold.data.grammar import seeded, split_of

SETS = {
    "lm": stories,
    "translation": english_to_german,
    "summarization": match_reports,
    "qa": biographies,
    "classification": moods,
    "ner": news,
    "pos": parts_of_speech,
    "retrieval": lambda *sizes: help_pages(*sizes).queries,
}
OTHERS = {"goals": goals, "captioning": shapes, "documents": lambda: Splits(help_pages().documents, [], [])}


@cache
def whole(name):
    """A set as it is without arguments, generated once for all tests."""
    return (SETS | OTHERS)[name]()


TEXT = {
    "lm": str,
    "translation": lambda pair: pair.source,
    "summarization": lambda pair: pair.source,
    "qa": lambda question: question.context + question.question,
    "classification": lambda message: message.text,
    "ner": lambda tagged: " ".join(tagged.words),
    "pos": lambda tagged: " ".join(tagged.words),
    "retrieval": lambda query: query.text,
}


@pytest.mark.parametrize("name", SETS)
class TestEverySet:
    def test_same_for_a_seed(self, name):
        assert SETS[name](3, 40, 10, 10) == SETS[name](3, 40, 10, 10)
        assert SETS[name](3, 40, 10, 10) != SETS[name](4, 40, 10, 10)

    def test_as_many_as_asked_for_and_nothing_twice(self, name):
        splits = whole(name)
        assert not splits.missing
        assert len(splits.train) >= 2000
        texts = [TEXT[name](example).casefold() for split in SPLITS for example in getattr(splits, split)]
        assert len(set(texts)) == len(texts)

    def test_is_tidy(self, name):
        for example in SETS[name](0, 300, 50, 50).train:
            text = TEXT[name](example)
            assert text == text.strip()
            assert not re.search(r"  |[\[\]{}<>|]", text)

    def test_asks_for_a_size_that_can_be(self, name):
        with pytest.raises(ValueError, match="dev must be 0 or more, got -1"):
            SETS[name](0, 1, -1, 1)


# Runs and experiments are known by the digests of their data, so an embedded set never changes unintended.
DIGESTS = {
    "goals": "5ffa8d1e54dee601",
    "lm": "1433e6fcfa80774d",
    "translation": "b45cce1764183375",
    "summarization": "6952ccaaf0899d50",
    "qa": "363bd1cfe0b2362f",
    "classification": "aa223d2feafe5c5e",
    "ner": "b3c5a46c7f455c67",
    "pos": "ff76f96f1bf61d65",
    "retrieval": "08a7358d9a576515",
    "documents": "87272414e8eaf6d8",
    "captioning": "468ba9bccd288693",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_embedded_sets_are_the_same_to_the_byte(name):
    if name == "captioning" and torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("torch rounds the pictures' noise otherwise on this processor: one pixel in ten million differs")
    assert digest_of_examples(whole(name)) == DIGESTS[name]


def test_a_set_that_runs_dry():
    with pytest.raises(ValueError, match="dev must be smaller: digits has fewer than 7 different examples"):
        draw_splits("digits", 0, (5, 7, 0), lambda split, place, rng: str(rng.randrange(10)), str)


def test_stories_of_test_tell_of_other_things():
    splits = stories(0, 500, 50, 50)
    assert not any("teapot" in story for story in splits.train)
    assert any("teapot" in story for story in splits.test)


def test_verb_and_object_of_test_never_met_before():
    def met(pairs):
        found = set()
        for pair in pairs:
            words = re.findall(r"\w+", pair.source.lower())
            verbs = [v.base for v in VERBS if {v.base, v.third, v.participle} & set(words)]
            things = [noun.english for noun in OBJECTS if noun.english in words]
            # The object is the last noun but for "in front of the house".
            found.add((verbs[0], max(things, key=lambda noun: len(words) - words[::-1].index(noun))))
        return found

    splits = english_to_german(0, 2000, 100, 300)
    assert {split_of(f"{verb} {thing}") for verb, thing in met(splits.test)} == {"test"}
    assert not met(splits.train) & met(splits.test)


@pytest.mark.parametrize(
    ("noun", "case", "expected"),
    [
        ("dog", "nominative", {"der Hund", "ein Hund", "der alte Hund", "ein alter Hund"}),
        ("dog", "accusative", {"den Hund", "einen Hund", "den alten Hund", "einen alten Hund"}),
        ("cat", "nominative", {"die Katze", "eine Katze", "die alte Katze", "eine alte Katze"}),
        ("cat", "accusative", {"die Katze", "eine Katze", "die alte Katze", "eine alte Katze"}),
        ("child", "nominative", {"das Kind", "ein Kind", "das alte Kind", "ein altes Kind"}),
        ("child", "accusative", {"das Kind", "ein Kind", "das alte Kind", "ein altes Kind"}),
    ],
)
def test_german_articles_and_endings(noun, case, expected):
    thing = next(one for one in PEOPLE if one.english == noun)
    assert expected <= {phrase(thing, seeded(seed), case)[1] for seed in range(2000)}


def test_german_word_order():
    pairs = english_to_german(0, 3000, 1, 1).train
    assert any(re.search(r"dass .* (auf|ab|mit|zurück)(macht|holt|hebt|nimmt|gibt)\.", pair.target) for pair in pairs)
    assert any(re.search(r"^Macht .* auf\?$", pair.target) for pair in pairs)
    assert any(re.search(r"^Heute \w+ (der|die|das|ein|mein)", pair.target) for pair in pairs)
    assert all(pair.target[0].isupper() and pair.target[-1] == pair.source[-1] for pair in pairs)
    assert not any(re.search(r"\ba [aeiou]|\ban [^aeiou]", pair.source) for pair in pairs)


def test_headlines_say_what_the_report_says():
    for pair in match_reports(0, 300, 50, 50).train:
        match = re.fullmatch(r"(\w+) (edge|beat|thrash|and) (\w+) (draw )?(\d)-(\d) in (\w+)", pair.target)
        one, verb, other, _, ours, theirs, city = match.groups()
        assert {one, other, city} <= set(re.findall(r"\w+", pair.source))
        margin = int(ours) - int(theirs)
        assert verb == {0: "and", 1: "edge", 2: "beat"}.get(margin, "thrash")
        assert f"{ours}-{theirs}" in pair.source or f"{ours} goals" in pair.source


def test_clubs_of_test_meet_nowhere_else():
    def clubs(pairs):
        return {frozenset((pair.target.split()[0], pair.target.split()[2])) for pair in pairs}

    splits = match_reports(0, 1000, 100, 200)
    assert not clubs(splits.train) & clubs(splits.test)


def test_answers_stand_where_they_say():
    splits = whole("qa")
    for question in splits.train + splits.dev + splits.test:
        (answer,) = question.answers
        assert question.context[answer.start : answer.start + len(answer.text)] == answer.text
        assert question.question[-1] == "?"
    assert not {q.answers[0].text for q in splits.train} & {q.answers[0].text for q in splits.test}
    assert len({question.id for question in splits.train}) == len(splits.train)


def test_moods_are_equally_common():
    counts = Counter(message.label for message in whole("classification").train)
    assert set(counts) == set(WORDINGS)
    assert set(counts.values()) == {400}


def test_names_are_well_tagged():
    splits = whole("ner")
    for tagged in splits.train + splits.test:
        assert len(tagged.words) == len(tagged.tags)
        for tag, before in zip(tagged.tags, ("O", *tagged.tags), strict=False):
            assert why_not_bio(tag, before) is None
    assert {tag[2:] for tagged in splits.train for tag in tagged.tags if tag != "O"} == {"PER", "LOC", "ORG", "WORK"}


def test_every_word_has_a_part_of_speech():
    splits = whole("pos")
    tags = {tag for tagged in splits.train for tag in tagged.tags}
    assert {
        "NOUN",
        "VERB",
        "ADJ",
        "ADV",
        "DET",
        "PRON",
        "ADP",
        "AUX",
        "PUNCT",
        "PROPN",
        "NUM",
        "CCONJ",
        "SCONJ",
    } <= tags
    assert "O" not in tags
    assert {tag for tagged in splits.test for tag in tagged.tags} <= tags
    seen = {(word.lower(), tag) for tagged in splits.train for word, tag in zip(tagged.words, tagged.tags, strict=True)}
    assert {("walk", "NOUN"), ("walk", "VERB"), ("light", "ADJ"), ("light", "NOUN"), ("light", "VERB")} <= seen


def test_forms_of_words():
    assert [third_person(verb) for verb in ("walk", "watch", "carry", "play")] == [
        "walks",
        "watches",
        "carries",
        "plays",
    ]
    assert [past(verb) for verb in ("walk", "dance", "carry", "play", "see")] == [
        "walked",
        "danced",
        "carried",
        "played",
        "saw",
    ]
    assert [plural(noun) for noun in ("dog", "child", "watch")] == ["dogs", "children", "watches"]


def test_every_query_has_its_page():
    pages = help_pages()
    names = {document.id for document in pages.documents}
    assert len(names) == len(pages.documents) >= 100
    for split in SPLITS:
        assert all(
            len(query.relevant) == 1 and query.relevant.keys() <= names for query in getattr(pages.queries, split)
        )


@pytest.fixture(scope="module")
def pictures():
    return shapes(0, 300, 50, 80)


def things(example):
    return re.findall(r"(?:small|big) \w+ \w+", example.caption)


def test_pictures(pictures):
    for example in pictures.train + pictures.test:
        assert example.pixels.shape == (SIDE, SIDE, 3)
        assert example.pixels.dtype == torch.uint8
        assert re.fullmatch(r"an? \w+ \w+ \w+( (above|below|left of|right of) an? \w+ \w+ \w+)?", example.caption)


def test_pictures_are_the_same_for_a_seed(pictures):
    again = shapes(0, 300, 50, 80)
    assert all(torch.equal(a.pixels, b.pixels) for a, b in zip(pictures.train, again.train, strict=True))
    assert [a.caption for a in pictures.test] == [b.caption for b in again.test]


def test_pictures_of_test_show_new_combinations(pictures):
    old = {thing for example in pictures.train for thing in things(example)}
    assert all(set(things(example)) - old for example in pictures.test)
    assert {thing.split()[1] for thing in old} == set(COLOURS)


def test_what_a_caption_says_is_in_the_picture(pictures):
    """Middles of the two colours, found again in the pixels, lie as the words say."""
    checked = 0
    for example in pictures.train:
        match = re.fullmatch(r"an? \w+ (\w+) \w+ (above|below|left of|right of) an? \w+ (\w+) \w+", example.caption)
        if match is None or match[1] == match[3]:
            continue
        middles = []
        for colour in (match[1], match[3]):
            near = (example.pixels.float() - torch.tensor(COLOURS[colour])).abs().amax(-1) < 45
            middles.append(near.nonzero().float().mean(0))
        down, right = (middles[1] - middles[0]).tolist()
        assert {"above": down, "below": -down, "left of": right, "right of": -right}[match[2]] > 3
        checked += 1
    assert checked > 100


@pytest.mark.parametrize("shape", ["circle", "square", "triangle", "cross"])
def test_a_big_shape_covers_more_than_a_small_one(shape):
    covered = []
    for size in ("small", "big"):
        canvas = torch.zeros(SIDE, SIDE, 3)
        paint(canvas, Thing(size, "red", shape), 15.5, 15.5)
        covered.append(int((canvas.sum(-1) > 0).sum()))
    assert 0 < covered[0] < covered[1] < SIDE * SIDE / 3
