"""How large data may be. A file that holds more, by mistake or on purpose, is refused before it fills the memory.

A limit is raised by an environment variable of its name: TWOFOLD_MAX_LABELS=50000.
"""

import os

LIMITS = {
    "FILE_BYTES": 400_000_000,  # of a file, unpacked
    "DOCUMENT_BYTES": 2**26,  # of a file that is parsed as a whole: JSON, CSV
    "YAML_BYTES": 2**22,  # of a file of YAML, which is slow to parse
    "LINES": 5_000_000,  # of a file
    "LINE_CHARACTERS": 2_000_000,  # of one line
    "LABELS": 10_000,  # different ones in a data set
    "WORDS": 10_000,  # of an utterance or a tagged sentence
    "SLOTS": 1_000,  # of an utterance
    "GRADE": 1_000,  # the highest relevance that a judgement may have
    "CHARACTERS": 30_000,  # different ones that a tokenizer of characters learns
    "PIXELS": 50_000_000,  # of an image before it is made smaller
    "SILENT_SECONDS": 10,  # for which a pipe may give nothing
}


def limit(name: str) -> int:
    """A limit: the default, or what the environment says."""
    variable = f"TWOFOLD_MAX_{name}"
    value = os.environ.get(variable, "")
    if not value:
        return LIMITS[name]
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise ValueError(f"{variable} must be a whole number below 10^18, got {value[:40]!r}")
    return int(value)


def why_too_many(name: str, count: int, what: str) -> str | None:
    """What is wrong with a count over a limit, and how to raise it. None if nothing is."""
    most = limit(name)
    return f"{count:,} {what}, expected at most {most:,} (TWOFOLD_MAX_{name} raises that)" if count > most else None
