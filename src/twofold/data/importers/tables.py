"""Tables with a header: CSV, TSV, or with semicolons; a column for the text, one for the label, perhaps the split."""

import csv
import io
from pathlib import Path

from twofold.data.examples import Utterance, in_scope
from twofold.data.files import DataError, check_count, text_of
from twofold.data.splits import SPLIT_NAMES, unpacked_name
from twofold_runtime.checked import shown

TEXT = ("text", "utterance", "sentence", "query", "message", "phrase", "question", "input", "content")
LABEL = ("goal", "intent", "label", "category", "class", "target", "sentiment", "topic")
SPLIT = ("split", "set", "partition", "fold")
DELIMITERS = "\t,;"


def is_table(path: Path, head: str) -> bool:
    """Whether the first line is a header with a column for the text and one for the label, or should be."""
    line = head.lstrip("\n").partition("\n")[0]
    return unpacked_name(path).endswith(".csv") or _delimiter(line) is not None


def read_table(path: Path, notes: list[str]) -> list[tuple[Utterance, str | None]]:
    """The utterances of a table, each with its split if there is a column for that."""
    text = text_of(path, "DOCUMENT_BYTES")
    check_count(path, None, "LINES", text.count("\n"), "lines")
    header = text.lstrip("\n").partition("\n")[0]
    delimiter = _delimiter(header)
    if delimiter is None:
        expected = f"a column for the text ({', '.join(TEXT)}) and one for the label ({', '.join(LABEL)})"
        raise DataError(path, 1, f"expected a header with {expected}, got {shown(header)}")
    columns = _columns(_cells(header, delimiter)) or {}
    # In tables with tabs, quotation marks are usually text.
    quoting = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    rows = csv.reader(io.StringIO(text), delimiter=delimiter, quoting=quoting, strict=True)
    utterances: list[tuple[Utterance, str | None]] = []
    try:
        for row in rows:
            line = rows.line_num
            if not utterances and _columns(row) == columns:
                continue
            if not any(cell.strip() for cell in row):
                continue
            if len(row) <= max(columns.values()):
                raise DataError(path, line, f"has {len(row)} cells, expected at least {max(columns.values()) + 1}")
            values = {name: row[place].strip() for name, place in columns.items()}
            if missing := next((name for name in ("text", "label") if not values[name]), None):
                raise DataError(path, line, f"the cell of column {_name(header, delimiter, columns[missing])} is empty")
            split = _split(path, line, values["split"]) if "split" in values else None
            utterances.append((Utterance(values["text"], in_scope(values["label"])), split))
    except csv.Error as error:
        raise DataError(path, rows.line_num, f"is no row of a table: {error}") from None
    return utterances


def _delimiter(header: str) -> str | None:
    return next((sign for sign in DELIMITERS if _columns(_cells(header, sign)) is not None), None)


def _cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip().strip('"').strip() for cell in line.split(delimiter)]


def _name(header: str, delimiter: str, place: int) -> str:
    return shown(_cells(header, delimiter)[place])


def _columns(cells: list[str]) -> dict[str, int] | None:
    """The places of text, label and perhaps split in a header. None if it has no such columns."""
    names = [cell.strip().strip('"').strip().lower() for cell in cells]
    places = {
        kind: next((names.index(name) for name in known if name in names), None)
        for kind, known in (("text", TEXT), ("label", LABEL), ("split", SPLIT))
    }
    if places["text"] is None or places["label"] is None:
        return None
    return {kind: place for kind, place in places.items() if place is not None}


def _split(path: Path, line: int, value: str) -> str:
    for split, names in SPLIT_NAMES.items():
        if value.lower() in names:
            return split
    raise DataError(path, line, f"the split must be train, dev or test, got {shown(value)}")
