"""retrieval: from a question to the documents that answer it, by an exact search over their vectors.

The index lies in two files of the run, index-DIGEST.npy (a vector a row) and index-DIGEST.json (ids and texts in the
same order). They are named in run.json, so that an index is never half of one and half of another.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from twofold_runtime.codec import Encoded, TextCodec, checked_text
from twofold_runtime.engine import Arrays
from twofold_runtime.folder import (
    INDEX,
    RunRecord,
    check_file,
    check_shape,
    read_json,
    read_run,
    sha256_of,
    write_run,
    write_whole,
)
from twofold_runtime.predictions import DocumentsPrediction, Prediction, ScoredDocument
from twofold_runtime.tokens import TextTokenizer

# Tokens of a question or a document that are read; what follows is cut off.
LONGEST = 256
TOP = 10


class Document(NamedTuple):
    """Something to be found."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Documents, and a vector of length 1 for each: (documents, width)."""

    documents: Sequence[Document]
    vectors: np.ndarray

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.documents):
            shape = tuple(self.vectors.shape)
            raise ValueError(f"vectors must have a row for each of {len(self.documents)} documents, got shape {shape}")

    def search(self, query: np.ndarray, top: int = TOP) -> list[tuple[Document, float]]:
        """The documents nearest to a vector, best first, each with the cosine of the angle between."""
        if query.shape != self.vectors.shape[1:]:
            raise ValueError(f"query must be of width {self.vectors.shape[1]}, as the index is, got {query.shape}")
        scores = self.vectors @ query
        best = np.argsort(-scores, kind="stable")[:top]
        return [(self.documents[place], float(scores[place])) for place in best]

    def write(self, folder: Path) -> None:
        """Write the files, name them in run.json, then remove those of the index before."""
        buffer = BytesIO()
        np.save(buffer, self.vectors.astype(np.float32), allow_pickle=False)
        documents = json.dumps([one._asdict() for one in self.documents], ensure_ascii=False).encode()
        stem = INDEX + hashlib.sha256(buffer.getvalue() + documents).hexdigest()[:16]
        names = {f"{stem}.npy": buffer.getvalue(), f"{stem}.json": documents}
        for name, data in names.items():
            write_whole(folder / name, data)
        record = read_run(folder)
        others = {name: digest for name, digest in record.files.items() if not name.startswith(INDEX)}
        write_run(folder, replace(record, files=others | {name: sha256_of(folder / name) for name in names}))
        for name in set(record.files) - set(others) - set(names):
            (folder / name).unlink(missing_ok=True)

    @classmethod
    def read(cls, folder: Path, files: Mapping[str, str]) -> Self:
        """The index that run.json names among its files."""
        names = sorted(name for name in files if name.startswith(INDEX))
        if [Path(name).suffix for name in names] != [".json", ".npy"]:
            raise ValueError(f"{folder} has no index of documents yet: `twofold evaluate` makes it")
        for name in names:
            check_file(folder, name, files[name])
        content = read_json(folder / names[0], any_size=True)
        check_shape(content, [{"id": str, "text": str}], str(folder / names[0]))
        try:
            vectors = np.load(folder / names[1], allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ValueError(f"{folder / names[1]} is no readable array: {error}") from error
        return cls([Document(**document) for document in content], vectors)


class RankingCodec(TextCodec):
    """Vectors of texts; a prediction searches the run's index."""

    task = "retrieval"
    reads_words = False
    tokens: TextTokenizer
    # Read from the run's folder when it is first needed.
    index: Index | None = None
    folder: Path | None = None
    files: Mapping[str, str] = {}

    def opened_in(self, folder: Path, record: RunRecord) -> None:
        self.folder, self.files = folder, record.files

    def encode(self, input: str) -> Encoded[str]:
        text = checked_text(input)
        return Encoded(text, ({"input_ids": np.array(self.tokens.encode(text, LONGEST), np.int64)},))

    def decode(self, encoded: Encoded[str], outputs: Sequence[Arrays]) -> DocumentsPrediction:
        if self.index is None:
            if self.folder is None:
                raise ValueError("there is no index of documents to search in: open a run")
            self.index = Index.read(self.folder, self.files)
        found = self.index.search(outputs[0]["pooler_output"])
        return DocumentsPrediction(
            encoded.input, tuple(ScoredDocument(document.id, score, document.text) for document, score in found)
        )

    def shown(self, prediction: Prediction) -> str:
        found = [f"  {one['score']:5.2f}  {one['id']}: {_line(one['text'])}" for one in prediction["documents"]]
        return "\n".join([prediction["text"], *found])


def _line(text: str, width: int = 80) -> str:
    """As much of a text as fits into a line."""
    whole = " ".join(text.split())
    return whole if len(whole) <= width else f"{whole[: width - 1]}…"
