"""Tokenizers: ids, offsets, round trips of any text, files that give the same tokenizer back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from twofold.data.vocabulary import KINDS, listed_tokenizer, train_tokenizer

TEXTS = [
    "turn the kitchen lights off at ten",
    "Turn the living room lights on, please!",
    "mach das Licht in der Küche aus",
    "台所の電気を消して",
    "أطفئ ضوء المطبخ",
    "play Don't Wake the Moon 🎵",
] * 3
HARD = [
    "台所の電気を消してください",
    "أَطْفِئْ ضَوْءَ المَطْبَخِ",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽",
    "e\u0301 é ﬁ ﷺ Å",
    "  two  spaces \t tab\n\nlines \r\n ",
    "हिन्दी ไทย עברית",
    "</s><pad> <unk><s> <0x41>",
    "\u200b\u200d\ufeff\x00",
    "Ġ▁#",
    "x",
    " ",
]


@pytest.fixture(scope="module", params=KINDS)
def any_tokenizer(request):
    return train_tokenizer(TEXTS, request.param, size=400)


@pytest.fixture(scope="module", params=["char", "bpe"])
def exact_tokenizer(request):
    return train_tokenizer(TEXTS, request.param, size=400)


def test_special_ids(any_tokenizer):
    t = any_tokenizer
    assert (t.pad_token_id, t.bos_token_id, t.eos_token_id, t.unk_token_id) == (0, 1, 2, 3)
    assert t.sep_token_id is None
    assert t.mask_token_id is None


@pytest.mark.parametrize("kind", KINDS)
def test_special_ids_on_request(kind):
    t = train_tokenizer(TEXTS, kind, extra=("mask", "sep"))
    assert (t.pad_token_id, t.unk_token_id, t.sep_token_id, t.mask_token_id) == (0, 3, 4, 5)
    assert max(t.get_vocab().values()) == len(t) - 1


def test_offsets_are_places_in_the_text(any_tokenizer):
    text = "turn the living room lights off at ten"
    coded = any_tokenizer(text, return_offsets_mapping=True)
    pieces = [text[start:end] for start, end in coded["offset_mapping"]]
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    assert all(piece.strip() == piece or piece == " " for piece in pieces)


def test_offsets_survive_other_scripts():
    t = train_tokenizer(TEXTS, "char")
    text = "消👍🏽é"
    assert {text[a:b] for a, b in t(text, return_offsets_mapping=True)["offset_mapping"]} == set(text)


@pytest.mark.parametrize("text", HARD)
def test_hard_texts_come_back(exact_tokenizer, text):
    ids = exact_tokenizer(text)["input_ids"]
    assert exact_tokenizer.decode(ids) == text
    assert exact_tokenizer.decode(ids, skip_special_tokens=True) == text


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=60))
def test_every_text_comes_back(exact_tokenizer, text):
    ids = exact_tokenizer(text)["input_ids"]
    assert exact_tokenizer.decode(ids, skip_special_tokens=True) == text
    assert not set(ids) & {0, 1, 2, 3}


def test_nothing_in_a_text_is_special(any_tokenizer):
    assert not set(any_tokenizer("stop </s> <pad><s>")["input_ids"]) & {0, 1, 2}


def test_empty(any_tokenizer):
    assert any_tokenizer("")["input_ids"] == []
    assert any_tokenizer.decode([]) == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("ends", "before", "after"), [("none", [], []), ("eos", [], [2]), ("both", [1], [2])])
def test_ends(kind, ends, before, after):
    bare = train_tokenizer(TEXTS, kind, size=400, extra=("sep",))
    framed = train_tokenizer(TEXTS, kind, size=400, extra=("sep",), ends=ends)
    one, two = (bare(text)["input_ids"] for text in TEXTS[:2])
    assert framed(TEXTS[0])["input_ids"] == before + one + after
    assert framed(TEXTS[0], TEXTS[1])["input_ids"] == [*before, *one, 4, *two, *after]


def test_words():
    t = train_tokenizer(["a b b C c", "b c"], "word", min_count=2)
    assert t.convert_ids_to_tokens(t("a b c C")["input_ids"]) == ["<unk>", "b", "c", "<unk>"]
    t = train_tokenizer(["a b b C c", "b c"], "word", min_count=2, lowercase=True)
    assert t.convert_ids_to_tokens(t("A B C")["input_ids"]) == ["<unk>", "b", "c"]
    assert t("A B C", return_offsets_mapping=True)["offset_mapping"] == [(0, 1), (2, 3), (4, 5)]


def test_characters():
    t = train_tokenizer(["hello"], "char", fallback=False)
    assert t.get_vocab() == {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "e": 4, "h": 5, "l": 6, "o": 7}
    assert t("help")["input_ids"] == [5, 4, 6, 3]
    assert train_tokenizer(["aab"], "char", fallback=False, min_count=2)("ab")["input_ids"] == [4, 3]
    assert train_tokenizer(["Aa"], "char", fallback=False, lowercase=True)("Aa")["input_ids"] == [4, 4]


def test_listed_tokens_are_all_there_is(tmp_path):
    tokenizer = listed_tokenizer(["end:ing", "word:a b", "end:ing"], extra=("sep",))
    assert tokenizer.get_vocab() == {
        "<pad>": 0,
        "<s>": 1,
        "</s>": 2,
        "<unk>": 3,
        "<sep>": 4,
        "end:ing": 5,
        "word:a b": 6,
    }
    assert tokenizer.sep_token_id == 4
    assert tokenizer(["word:a b", "word"])["input_ids"] == [[6], [3]]
    tokenizer.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).get_vocab() == tokenizer.get_vocab()


@pytest.mark.parametrize("kind", KINDS)
def test_training_twice_gives_one_tokenizer(kind):
    made = {train_tokenizer(iter(TEXTS), kind, size=400).backend_tokenizer.to_str() for _ in range(4)}
    assert len(made) == 1


def test_sizes_are_kept():
    assert len(train_tokenizer(TEXTS, "bpe", size=300)) == 300
    assert len(train_tokenizer(TEXTS, "word", size=10)) == 10


def test_saved_and_loaded(any_tokenizer, tmp_path):
    any_tokenizer.save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").is_file()
    for opened in (PreTrainedTokenizerFast.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)):
        assert opened.get_vocab() == any_tokenizer.get_vocab()
        assert opened.pad_token_id == 0
        for text in [*TEXTS, *HARD]:
            ids = any_tokenizer(text)["input_ids"]
            assert opened(text)["input_ids"] == ids
            assert opened.decode(ids) == any_tokenizer.decode(ids)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side(any_tokenizer, side):
    short, long = any_tokenizer(["turn", "turn the lights"])["input_ids"]
    coded = any_tokenizer(["turn", "turn the lights"], padding=True, padding_side=side)
    padding = [0] * (len(long) - len(short))
    assert coded["input_ids"] == [padding + short if side == "left" else short + padding, long]
    assert [sum(mask) for mask in coded["attention_mask"]] == [len(short), len(long)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "syllable"}, "kind must be one of char, word, bpe, got 'syllable'"),
        ({"ends": "bos"}, "ends must be one of none, eos, both, got 'bos'"),
        ({"min_count": 0}, "min_count must be 1 or more, got 0"),
        ({"extra": ("cls",)}, "extra must name only sep, mask, got 'cls'"),
        ({"size": 100}, "vocabulary must be at least 260 for bpe, special tokens and all bytes, got 100"),
        ({"kind": "word", "size": 4}, "vocabulary must be at least 5 for word"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        train_tokenizer(TEXTS, **options)


@pytest.mark.parametrize("text", ["the lights", " the lights", "the\n lights\t", "please the  lights"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_words_alike_have_the_same_tokens_wherever_they_stand(text, lowercase):
    t = train_tokenizer(TEXTS, "bpe", size=400, alike=True, lowercase=lowercase)
    assert t("the lights")["input_ids"] == t(text)["input_ids"][-len(t("the lights")["input_ids"]) :]
    assert t.decode(t(text)["input_ids"]) == " ".join(text.split())


@pytest.mark.parametrize("text", HARD)
def test_words_alike_lose_white_space_alone(text):
    t = train_tokenizer(TEXTS, "bpe", size=400, alike=True)
    assert t.decode(t(text)["input_ids"]).split() == text.split()


@pytest.mark.parametrize("kind", ["char", "word"])
def test_only_byte_pairs_can_be_alike(kind):
    with pytest.raises(ValueError, match=f"alike must be False unless kind is bpe, got '{kind}'"):
        train_tokenizer(TEXTS, kind, alike=True)
