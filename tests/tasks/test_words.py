"""Words of raw texts, and what their spelling gives away."""

import pytest
import torch
from twofold.tasks.words import SPELLING, cues_of, encoded, hidden, learned_tokenizer, short_words, split_words

from twofold.tasks.task import padded


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
def test_raw_text_is_split_as_the_known_words_were(text, known, words):
    places = split_words(text, frozenset(known))
    assert cut(text, places) == words
    assert "".join(words) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the self-made man's 3.5 m", ["the", "self", "-", "made", "man", "'", "s", "3", ".", "5", "m"]),
        ("北京在哪里?", ["北", "京", "在", "哪", "里", "?"]),
        ("हिन्दी", ["हिन्दी"]),
        ("\u0301", ["\u0301"]),
        ("", []),
    ],
)
def test_short_words_are_cut_at_every_sign(text, words):
    assert cut(text, short_words(text)) == words


def test_cues_tell_beginning_end_and_shape():
    assert cues_of("McDonald") == (
        "shape:XxXxx",
        "begin:mc",
        "begin:mcd",
        "begin:mcdo",
        "end:d",
        "end:ld",
        "end:ald",
        "end:nald",
    )
    assert {len(cues_of(word)) for word in ("a", "10:30", "🙂", "extraordinarily")} == {SPELLING}


def test_a_new_word_keeps_the_cues_that_it_shares():
    tokenizer = learned_tokenizer(["walking", "walking", "talking", "talking", "once"])
    vocabulary = tokenizer.get_vocab()
    ids, cues = encoded(tokenizer, ["Walking", "stalking", "once"], vocabulary)
    assert ids == [vocabulary["word:walking"], tokenizer.unk_token_id, tokenizer.unk_token_id]
    assert vocabulary["end:king"] in cues[1]
    assert vocabulary["begin:wal"] in cues[0]
    assert set(cues[2]) == {tokenizer.pad_token_id, vocabulary["shape:xx"]}


def test_hides_words_and_cues_but_nothing_special():
    tokenizer = learned_tokenizer(["dog", "dog"])
    ids, cues = encoded(tokenizer, ["dog"] * 2000, tokenizer.get_vocab())
    cues = [[*row, 5] for row in cues]
    ids[0], cues[0] = tokenizer.bos_token_id, [tokenizer.pad_token_id] * 9
    batch = padded([{"input_ids": ids, "cue_ids": cues}, {"input_ids": ids[:9], "cue_ids": cues[:9]}], 0)
    shown = hidden(batch, tokenizer)
    unknown, left_out = shown["input_ids"] == tokenizer.unk_token_id, shown["cue_ids"] == tokenizer.pad_token_id
    wholly = left_out[0, 1:, 1:8].all(-1)
    assert 0.25 < unknown[0].float().mean() < 0.35
    assert 0.1 < wholly.float().mean() < 0.2
    assert unknown[0, 1:][wholly].all()
    assert 0.05 < left_out[0, 1:, [0, 8]].float().mean() < 0.15
    assert shown["input_ids"][0, 0] == tokenizer.bos_token_id
    assert not unknown[1, 9:].any()
    assert torch.equal(batch["input_ids"][0], torch.tensor(ids))
