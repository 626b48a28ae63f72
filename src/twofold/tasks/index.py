"""An index of documents: their vectors, exact search over them, and two files that hold them.

index.safetensors   the vectors, a row a document
index.json          ids and texts in the same order, and the hash of the vectors' file: both are of one make, or refused
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from twofold.data.examples import Document
from twofold.disk import write_whole

VECTORS, DOCUMENTS, VERSION = "index.safetensors", "index.json", 1


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    documents: Sequence[Document]
    vectors: Tensor
    """(documents, width), each of length 1."""

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.documents):
            shape = tuple(self.vectors.shape)
            raise ValueError(f"vectors must have a row for each of {len(self.documents)} documents, got shape {shape}")

    def search(self, queries: Tensor, top: int = 10) -> list[list[tuple[Document, float]]]:
        """The documents nearest to each of (B, width) vectors, best first, with the cosine of the angle between."""
        if queries.shape[-1] != self.vectors.shape[1]:
            raise ValueError(
                f"the index has vectors of {self.vectors.shape[1]} numbers, and the model makes {queries.shape[-1]}"
            )
        scores, places = (queries @ self.vectors.mT).topk(min(top, len(self.documents)))
        return [
            [(self.documents[place], score) for place, score in zip(*row, strict=True)]
            for row in zip(places.tolist(), scores.tolist(), strict=True)
        ]

    def write(self, folder: Path) -> None:
        """Each file at once, the one that vouches for the other last."""
        vectors = save({"vectors": self.vectors.contiguous()})
        told = {
            "version": VERSION,
            "sha256": hashlib.sha256(vectors).hexdigest(),
            "documents": [{"id": document.id, "text": document.text} for document in self.documents],
        }
        for name, data in ((VECTORS, vectors), (DOCUMENTS, json.dumps(told, ensure_ascii=False).encode())):
            write_whole(folder / name, data)


def read_index(folder: Path) -> Index:
    """What `Index.write` wrote."""
    advice = "`twofold evaluate` makes it anew"
    try:
        told: Any = json.loads((folder / DOCUMENTS).read_bytes())
        vectors = (folder / VECTORS).read_bytes()
        if told["version"] != VERSION:
            raise ValueError(f"is of version {told['version']!r}, and this version of twofold reads {VERSION}")
        if hashlib.sha256(vectors).hexdigest() != told["sha256"]:
            raise ValueError(f"{DOCUMENTS} and {VECTORS} do not belong together")
        documents = [Document(one["id"], one["text"]) for one in told["documents"]]
        return Index(documents, load(vectors)["vectors"].to(torch.float32))
    except FileNotFoundError as error:
        raise ValueError(f"{folder} has no index of documents yet: {advice}") from error
    except (ValueError, KeyError, TypeError, SafetensorError) as error:
        raise ValueError(f"the index in {folder} cannot be read ({error}): {advice}") from error
