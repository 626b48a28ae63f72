"""tokenizer.json: words and spelling features of a model that reads words, or a tokenizer of the tokenizers library.

Ids of special tokens are the same everywhere: padding 0, beginning 1, end 2, unknown 3, and a separator 4 where a task
asks for one.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from twofold_runtime.checked import shortened
from twofold_runtime.folder import check_shape, read_json
from twofold_runtime.panics import panics_as_errors
from twofold_runtime.words import spelling_features

PAD, BEGIN, END, UNKNOWN, SEPARATOR = range(5)
FILE = "tokenizer.json"


class WordVocabulary:
    """Ids of words and of spelling features."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = ids
        self.known = frozenset(token.removeprefix("word:") for token in ids if token.startswith("word:"))

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Of a run's tokenizer.json."""
        path = folder / FILE
        if not path.is_file():
            raise ValueError(f"{folder} has no {FILE}")
        content = read_json(path)
        model = content.get("model") if isinstance(content, dict) else None
        ids: Any = model.get("vocab") if isinstance(model, dict) else None
        check_shape(ids, {str: int}, f"{path}: model: vocab")
        return cls(ids)

    def encode(self, words: Iterable[str]) -> tuple[list[int], list[list[int]]]:
        """Ids of words, and of their spelling features; an unknown feature is padding, which adds nothing."""
        ids, words = self.ids, list(words)
        return (
            [ids.get(f"word:{word.lower()}", UNKNOWN) for word in words],
            [[ids.get(feature, PAD) for feature in spelling_features(word)] for word in words],
        )


class TextTokenizer:
    """A `tokenizers.Tokenizer` that frames a text as training did."""

    def __init__(self, tokenizer: Any) -> None:
        self.library = tokenizer
        # A special token's spelling inside of a text is text. The file does not keep this setting.
        tokenizer.encode_special_tokens = True
        tokenizer.no_truncation()
        tokenizer.no_padding()

    def __len__(self) -> int:
        return self.library.get_vocab_size()

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Of a run's tokenizer.json."""
        path = folder / FILE
        if not path.is_file():
            raise ValueError(f"{folder} has no {FILE}")
        try:
            from tokenizers import Tokenizer
        except ModuleNotFoundError as error:
            raise ValueError(f"reading {path} needs tokenizers: pip install 'twofold-runtime[text]'") from error
        try:
            with panics_as_errors(f"{path} is no readable tokenizer"):
                return cls(Tokenizer.from_file(str(path)))
        # The library raises Exception itself.
        except Exception as error:
            raise ValueError(f"{path} is no readable tokenizer: {shortened(str(error))}") from error

    def encode(self, text: str, longest: int | None = None) -> list[int]:
        """Ids of a text in its frame; of one that is too long the end is cut off, and the last id stays the frame's."""
        ids = list(self.library.encode(text).ids)
        if longest is None or len(ids) <= longest:
            return ids
        ends = [END] if ids[-1] == END else []
        return [*ids[: longest - len(ends)], *ends]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens left out."""
        return self.library.decode(list(ids), skip_special_tokens=True)
