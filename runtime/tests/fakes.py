"""A tokenizer and engines that need no library and no model."""

from itertools import islice
from types import SimpleNamespace

from twofold_runtime.tokens import END

FIRST = 5


class ByteTokenizer:
    """Stands for a `tokenizers.Tokenizer`: the ids of a text are its UTF-8 bytes, behind those of special tokens."""

    def __init__(self, ends=False):
        self.ends = ends

    def no_truncation(self):
        pass

    def no_padding(self):
        pass

    def get_vocab_size(self):
        return FIRST + 256

    def encode(self, text):
        return SimpleNamespace(ids=[FIRST + byte for byte in text.encode()] + [END] * self.ends)

    def decode(self, ids, skip_special_tokens):
        assert skip_special_tokens
        return bytes(token - FIRST for token in ids if token >= FIRST).decode(errors="replace")


class ScriptedWriter:
    """Writes the ids of an iterator, one at a time, and remembers what it was asked for."""

    def __init__(self, ids):
        self.ids, self.calls = iter(ids), []

    def write(self, arrays, *, decoding, max_new_tokens, never, listen=None):
        self.calls.append({"arrays": arrays, "decoding": decoding, "most": max_new_tokens, "never": set(never)})
        written = []
        for token in islice(self.ids, max_new_tokens):
            written.append(token)
            if listen is not None:
                listen([token])
            if token == END:
                break
        return [written]


class EchoingWriter:
    """Answers each row with its own ids."""

    def __init__(self):
        self.sizes = []

    def write(self, arrays, *, decoding, max_new_tokens, never, listen=None):
        mask = arrays["attention_mask"]
        self.sizes.append(mask.shape)
        return [row[: int(seen.sum())].tolist() for row, seen in zip(arrays["input_ids"], mask, strict=True)]
