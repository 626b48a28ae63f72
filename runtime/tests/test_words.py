"""Words of raw texts, and what their spelling says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold_runtime.tokens import PAD, UNKNOWN, WordVocabulary
from twofold_runtime.words import SPELLING, fine_words, spelling_features, words_as_known


def cut(text, places):
    return [text[start:end] for start, end in places]


@pytest.mark.parametrize(
    ("text", "known", "words"),
    [
        ("", (), []),
        (" \n\t", (), []),
        ("I don't know.", (), ["I", "don't", "know", "."]),
        ("I don't know.", ("do", "n't"), ["I", "do", "n't", "know", "."]),
        ("I DON’T!", ("n't",), ["I", "DO", "N’T", "!"]),
        ("Anna's well-known dog", (), ["Anna's", "well-known", "dog"]),
        ("Anna's well-known dog", ("'s", "-"), ["Anna", "'s", "well", "-", "known", "dog"]),
        ("well-known", ("-", "well-known"), ["well-known"]),
        ("@anna #fun", ("@omar",), ["@anna", "#", "fun"]),
        ("@anna #fun", ("#sun",), ["@", "anna", "#fun"]),
        ("wait... what?!", ("...",), ["wait", "...", "what", "?", "!"]),
        ("at 10:30, 1,000.50 more", (), ["at", "10:30", ",", "1,000.50", "more"]),
        ("see https://example.org/a-b?c=d now", ("-",), ["see", "https://example.org/a-b?c=d", "now"]),
        ("Привет, мир!", (), ["Привет", ",", "мир", "!"]),
        ("हिन्दी में", (), ["हिन्दी", "में"]),
        ("naïve cafe\u0301", (), ["naïve", "cafe\u0301"]),
        ("I ❤️ you 👍🏽", (), ["I", "❤️", "you", "👍", "🏽"]),
        ("我喜欢北京", ("喜欢", "北京"), ["我", "喜欢", "北京"]),
        ("İstanbul'da", ("'da",), ["İstanbul", "'da"]),
    ],
)
def test_a_raw_text_is_cut_as_the_known_words_were(text, known, words):
    assert cut(text, words_as_known(text, frozenset(known))) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Set it to 20%, anna's way", ["Set", "it", "to", "20", "%", ",", "anna", "'", "s", "way"]),
        ("the self-made man's 3.5 m", ["the", "self", "-", "made", "man", "'", "s", "3", ".", "5", "m"]),
        ("spiel für Zoë!", ["spiel", "für", "Zoë", "!"]),
        ("北京在哪里?", ["北", "京", "在", "哪", "里", "?"]),
        ("電気を10分", ["電", "気", "を", "10", "分"]),
        ("हिन्दी", ["हिन्दी"]),
        ("\u0301", ["\u0301"]),
        ("", []),
    ],
)
def test_fine_words_are_cut_at_every_sign(text, words):
    assert cut(text, fine_words(text)) == words


KNOWN = frozenset(("n't", "'s", "-", "@anna", "#fun", "...", "北京", "喜欢"))
PIECES = (
    "don't",
    "N’T",
    "well-known",
    "@anna",
    "#",
    "http://a.b/-",
    "10:30",
    "北京",
    "喜欢",
    "é",
    "e\u0301",
    "\u200d",
    "İ",
)


@given(st.lists(st.one_of(st.sampled_from((*PIECES, " ", "\n")), st.text(max_size=4))).map("".join))
def test_words_are_all_of_the_text_but_its_spaces(text):
    for places in (fine_words(text), words_as_known(text, KNOWN), words_as_known(text, frozenset())):
        assert "".join(cut(text, places)) == "".join(text.split())
        ends = [0, *(end for place in places for end in place)]
        assert ends == sorted(ends)
        assert all(start < end for start, end in places)


def test_features_tell_beginning_end_and_shape():
    assert spelling_features("McDonald") == (
        "shape:XxXxx",
        "begin:mc",
        "begin:mcd",
        "begin:mcdo",
        "end:d",
        "end:ld",
        "end:ald",
        "end:nald",
    )
    assert {len(spelling_features(word)) for word in ("a", "10:30", "🙂", "extraordinarily")} == {SPELLING}


def test_a_new_word_keeps_the_features_that_it_shares():
    tokens = WordVocabulary({"word:walking": 4, "begin:wal": 5, "end:king": 6, "shape:xx": 7})
    ids, features = tokens.encode(["Walking", "stalking", "once"])
    assert ids == [4, UNKNOWN, UNKNOWN]
    assert 5 in features[0]
    assert 6 in features[1]
    assert set(features[2]) == {PAD, 7}
    assert tokens.known == {"walking"}
