"""Files as text, lines and records. What is wrong with a file is said in one line: where and what."""

import gzip
import io
import json
import os
import select
import stat
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from twofold_runtime.checked import shortened
from twofold_runtime.limits import limit, why_too_many

CHUNK = 1 << 20
HEAD = 1 << 14
KINDS = {"string": str, "list": list, "object": dict, "whole number": int}
# How files begin that are packed in a way other than gzip.
PACKED = {b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip"}


class DataError(ValueError):
    """Data that cannot be read. The message names the file, the line where there is one, and what is wrong."""

    def __init__(self, path: Path | str, line: int | None, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")


def check_count(path: Path | str, line: int | None, name: str, count: int, what: str) -> None:
    """Refuse a count over the limit of that name."""
    if problem := why_too_many(name, count, what):
        raise DataError(path, line, problem)


class Pipe(io.RawIOBase):
    """The reading end of a named or unnamed pipe. It waits for a writer and for data, but not for ever."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds = limit("SILENT_SECONDS")
        # Opened like this it does not wait for a writer; `select` does, for so many seconds.
        self.descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not select.select([self.descriptor], [], [], self.seconds)[0]:
            problem = f"is a pipe that gave nothing for {self.seconds} seconds (TWOFOLD_MAX_SILENT_SECONDS raises that)"
            raise DataError(self.path, None, problem)
        return os.readv(self.descriptor, [buffer])

    def close(self) -> None:
        if not self.closed:
            os.close(self.descriptor)
        super().close()


@contextmanager
def opened(path: Path) -> Generator[BinaryIO]:
    """A file's bytes, unpacked if its name ends in .gz. What goes wrong is a DataError."""
    try:
        is_pipe = stat.S_ISFIFO(path.stat().st_mode)
        with Pipe(path) if is_pipe else path.open("rb", buffering=0) as raw:
            yield cast(BinaryIO, gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw)
    except FileNotFoundError:
        raise DataError(path, None, "no such file") from None
    except IsADirectoryError:
        raise DataError(path, None, "is a folder, expected a file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(path, None, "is not a whole gzip file") from None


def bytes_of(path: Path | str, limit_name: str = "FILE_BYTES") -> bytearray:
    """A file's bytes, unpacked. A file with more than the limit is refused on the way."""
    path = Path(path)
    if path.is_file():
        check_count(path, None, limit_name, path.stat().st_size, "bytes")
    content = bytearray()
    with opened(path) as file:
        while chunk := file.read(CHUNK):
            content += chunk
            check_count(path, None, limit_name, len(content), "bytes or more")
    return content


def head_of(path: Path) -> str:
    """The beginning of a file's text, to see what it is. Empty for a pipe, which can be read only once."""
    if not path.is_file():
        return ""
    with opened(path) as file:
        return file.read(HEAD).decode("utf-8", errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")


def text_of(path: Path | str, limit_name: str = "FILE_BYTES") -> str:
    """A file's text, unpacked if it ends in .gz, without a byte order mark and with plain line ends."""
    data = bytes_of(path, limit_name)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if kind := next((kind for first, kind in PACKED.items() if data.startswith(first)), None):
            raise DataError(path, None, f"is packed with {kind}; expected plain text, or gzip and .gz") from None
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start} of the file"
        raise DataError(path, line, problem) from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.strip():
        raise DataError(path, None, "is empty")
    return text


def lines_of(path: Path | str) -> list[str]:
    """Lines without spaces at their ends. Only a newline ends a line: other separators of Unicode are text."""
    text = text_of(path).removesuffix("\n")
    check_count(path, None, "LINES", text.count("\n") + 1, "lines")
    lines = [line.strip(" \r") for line in text.split("\n")]
    if max(map(len, lines)) > limit("LINE_CHARACTERS"):
        for number, line in enumerate(lines, 1):
            check_count(path, number, "LINE_CHARACTERS", len(line), "characters in one line")
    return lines


def records_of(path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of a file with one JSON object a line, with their line numbers. Blank lines are passed over."""
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        record = parsed_json(path, line, number)
        if not isinstance(record, dict):
            raise DataError(path, number, f"expected a JSON object, got {as_json(record)}")
        yield number, record


def parsed_json(path: Path | str, text: str, line: int | None = None) -> Any:
    """What a text of JSON says. `line` is where it stands if it is one line of the file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(path, line or error.lineno, f"invalid JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits, or thousands of brackets.
        raise DataError(path, line, f"invalid JSON: {error}") from None


def field(path: Path | str, line: int | None, record: dict[str, Any], name: str, kind: str = "string") -> Any:
    """A record's field, there and of its kind."""
    if name not in record:
        names = shortened(", ".join(record)) if record else "none"
        raise DataError(path, line, f"missing field {name!r} (fields here: {names})")
    value = record[name]
    if not isinstance(value, KINDS[kind]) or isinstance(value, bool):
        raise DataError(path, line, f"field {name!r} must be a {kind}, got {as_json(value)}")
    if isinstance(value, str):
        check_characters(path, line, name, value)
    return value


def text_field(path: Path | str, line: int | None, record: dict[str, Any], name: str) -> str:
    """A field that must hold some text."""
    value = field(path, line, record, name)
    if not value.strip():
        raise DataError(path, line, f"field {name!r} is empty")
    return value


def check_characters(path: Path | str, line: int | None, name: str, value: str) -> None:
    """Refuse halves of characters, which JSON can spell and no tokenizer can read."""
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise DataError(path, line, f"field {name!r} holds half of a surrogate pair, which is no character")


def as_json(value: Any) -> str:
    """A value as JSON, for errors."""
    return shortened(json.dumps(value, ensure_ascii=False, default=repr))


def counted(count: int, what: str) -> str:
    """As in "1 example" and "2 examples"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
