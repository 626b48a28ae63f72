"""Tasks whose answer is text: what is handed out while it is written, pieces of long texts, and batches in order."""

from itertools import repeat

import pytest
from fakes import FIRST, ByteTokenizer, EchoingWriter, ScriptedWriter
from hypothesis import given
from hypothesis import strategies as st

from twofold_runtime.decoding import Decoding
from twofold_runtime.tokens import BEGIN, END, PAD, UNKNOWN, TextTokenizer
from twofold_runtime.writing import LONGEST, ContinuationCodec, Streamer, SummaryCodec, TranslationCodec

PAIR = {"beams": 3, "copies": False, "longest": 40}


def continuation(context=16, ends=True):
    reading = {"tokenization": "bpe", "context": context, "ends": ends}
    return ContinuationCodec(reading, {}, TextTokenizer(ByteTokenizer()))


def translation():
    return TranslationCodec(PAIR | {"words": "13a"}, {}, TextTokenizer(ByteTokenizer(ends=True)))


def ids_of(text):
    return [FIRST + byte for byte in text.encode()]


class TestStreamer:
    def test_half_of_a_character_waits_for_its_other_half(self):
        said = []
        streamer = Streamer(TextTokenizer(ByteTokenizer()), said.append)
        for token in ids_of("猫😀a"):
            streamer.add([token])
        assert said == ["猫", "😀", "a"]

    def test_a_character_that_stays_half_is_said_at_the_end(self):
        said = []
        streamer = Streamer(TextTokenizer(ByteTokenizer()), said.append)
        streamer.add(ids_of("猫")[:2])
        assert said == []
        streamer.end()
        assert said == ["\ufffd"]

    @given(st.lists(st.binary(max_size=4), max_size=8))
    def test_pieces_make_up_the_text_whatever_the_bytes(self, parts):
        said = []
        tokens = TextTokenizer(ByteTokenizer())
        streamer = Streamer(tokens, said.append)
        for part in parts:
            streamer.add([FIRST + byte for byte in part])
        streamer.end()
        assert "".join(said) == tokens.decode([FIRST + byte for byte in b"".join(parts)])


class TestContinuation:
    @given(context=st.integers(4, 40), size=st.integers(0, 100), wanted=st.integers(1, 100))
    def test_a_long_text_is_written_in_pieces_from_half_a_context(self, context, size, wanted):
        codec, writer = continuation(context), ScriptedWriter(repeat(FIRST + ord("b")))
        encoded = codec.encode("a" * size)
        [written] = codec.write(writer, [encoded], Decoding(max_new_tokens=wanted))
        assert len(written) == wanted
        there = 1 + size
        for call in writer.calls:
            read = call["arrays"]["input_ids"].shape[1]
            assert read + call["most"] <= context
            assert read >= min(there, context - context // 2)
            there += call["most"]

    def test_every_piece_has_random_numbers_of_its_own(self):
        codec, writer = continuation(context=8), ScriptedWriter(repeat(FIRST))
        decoding = Decoding(temperature=1.0, max_new_tokens=40, seed=2**64 - 1)
        codec.write(writer, [codec.encode("a")], decoding)
        seeds = [call["decoding"].seed for call in writer.calls]
        assert seeds[0] == decoding.seed
        assert len(set(seeds)) == len(seeds) > 5

    def test_an_end_ends_it(self):
        codec, writer = continuation(), ScriptedWriter([*ids_of("ab"), END, *ids_of("cd")])
        encoded = codec.encode("x")
        [written] = codec.write(writer, [encoded], Decoding(max_new_tokens=50))
        assert written == [*ids_of("ab"), END]
        assert dict(codec.decode(encoded, codec.run(ScriptedWriter([*ids_of("ab"), END]), [encoded])[0])) == {
            "text": "x",
            "continuation": "ab",
        }

    @pytest.mark.parametrize("ends", [True, False])
    def test_a_text_without_ends_never_gets_one(self, ends):
        codec, writer = continuation(ends=ends), ScriptedWriter(ids_of("abc"))
        codec.write(writer, [codec.encode("x")], Decoding(max_new_tokens=3))
        assert writer.calls[0]["never"] == {PAD, BEGIN, UNKNOWN} | (set() if ends else {END})

    @pytest.mark.parametrize(("ends", "text", "first"), [(True, "", BEGIN), (True, "a", BEGIN), (False, "", BEGIN)])
    def test_a_prompt_has_a_beginning(self, ends, text, first):
        assert continuation(ends=ends).encode(text).rows[0]["input_ids"][0] == first

    def test_what_is_said_is_what_is_written(self):
        codec, said = continuation(context=8), []
        text = "猫 and dog 😀!"
        decoding = Decoding(max_new_tokens=len(ids_of(text)))
        [written] = codec.write(ScriptedWriter(ids_of(text)), [codec.encode("x")], decoding, said.append)
        assert codec.tokens.decode(written) == "".join(said) == text
        assert len(said) > 5


class TestPairs:
    def test_answers_come_in_the_order_of_the_inputs(self):
        codec, writer = translation(), EchoingWriter()
        texts = [f"{'long ' * (number % 7)}{number}" for number in range(150)]
        encoded = [codec.encode(text) for text in texts]
        outputs = codec.run(writer, encoded)
        predictions = [codec.decode(*pair) for pair in zip(encoded, outputs, strict=True)]
        assert [dict(one) for one in predictions] == [{"text": text, "translation": text} for text in texts]
        assert [size[0] for size in writer.sizes] == [64, 64, 22]

    def test_it_is_written_as_the_run_says(self):
        codec, writer = translation(), ScriptedWriter(ids_of("gut"))
        codec.run(writer, [codec.encode("good")])
        assert writer.calls[0]["decoding"] == Decoding(beams=3, max_new_tokens=40)
        assert writer.calls[0]["most"] == 40
        codec.write(writer, [codec.encode("good")], Decoding(max_new_tokens=10_000))
        assert writer.calls[1]["most"] == LONGEST

    def test_a_source_that_is_too_long_loses_its_end(self):
        [row] = translation().encode("word " * 3000).rows
        assert row["input_ids"].tolist() == [*ids_of("word " * 3000)[: LONGEST - 1], END]

    def test_what_is_shown(self):
        codec = SummaryCodec(PAIR, {}, TextTokenizer(ByteTokenizer(ends=True)))
        encoded = codec.encode("a long text")
        prediction = codec.decode(encoded, codec.run(ScriptedWriter([*ids_of("short"), END]), [encoded])[0])
        assert dict(prediction) == {"text": "a long text", "summary": "short"}
        assert codec.shown(prediction) == "short"

    @pytest.mark.parametrize("text", ["", " \n", None, 3, b"bytes", ["a"], "half \udcff"])
    def test_what_is_no_text_is_refused(self, text):
        with pytest.raises(ValueError, match=r"^text "):
            translation().encode(text)
