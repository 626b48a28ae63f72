"""`twofold data`: what is understood of a file or folder, what is doubtful about it, and in our format."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from twofold.cli import say, say_json
from twofold.cli.arguments import parse

# Labels that are listed for people; --json has all of them.
LISTED = 20


@dataclass(frozen=True, kw_only=True)
class Data:
    """Show what is understood of goals, labels or tagged words, and what may be wrong with them.

    For example: twofold data nlu.yml --write goals
    """

    file: tyro.conf.Positional[Path]
    """A file or a folder, in a format of ours or of another tool."""
    task: Literal["goals", "classification", "ner", "pos"] | None = None
    """What to read it as; by its content unless given."""
    write: Path | None = None
    """A new folder for the data in our own format."""
    json: bool = False
    """Print JSON."""


def run(words: Sequence[str]) -> int:
    chosen = parse(Data, words, "twofold data")
    if chosen.write is not None and chosen.write.exists():
        raise ValueError(f"write must be a new folder, and {chosen.write} exists")
    from twofold.data.overview import understand, written
    from twofold_runtime.folder import write_whole

    overview, splits = understand(chosen.file, chosen.task)
    if chosen.write is not None:
        chosen.write.mkdir(parents=True)
        for name, content in written(splits).items():
            write_whole(chosen.write / name, content)
    if chosen.json:
        say_json(asdict(overview))
    else:
        say("\n".join(lines(asdict(overview))))
        if chosen.write is not None:
            say(f"written: {chosen.write}")
    return 0


def lines(overview: Mapping[str, Any]) -> list[str]:
    """An overview for people."""
    counts = ", ".join(f"{count:,} {split}" for split, count in overview["examples"].items())
    said = [f"{overview['path']}: {overview['format']}, read for the task {overview['task']}", f"examples: {counts}"]
    for what in ("labels", "slots"):
        if counts := overview[what]:
            said.append(f"{what}: {len(counts):,}")
            said += [f"  {name}: {_by_split(splits)}" for name, splits in list(counts.items())[:LISTED]]
            said += [f"  ... and {len(counts) - LISTED:,} more"] if len(counts) > LISTED else []
    said.append("some of them:")
    said += [f"  {_example(record)}" for record in overview["shown"]]
    if overview["contradictory"]:
        said.append(f"texts with different labels: {overview['contradictory']:,}")
        said += [f"  {one['text']!r}: {_counts(one['labels'])}" for one in overview["contradictions"]]
    if overview["duplicate"]:
        said.append(f"texts in several splits: {overview['duplicate']:,}")
        said += [f"  {one['text']!r}: {', '.join(one['splits'])}" for one in overview["duplicates"]]
    if overview["few"]:
        said.append(f"labels with few examples in train: {_counts(overview['few'])}")
    if overview["unknown"]:
        said.append(f"labels of dev or test that train lacks: {_counts(overview['unknown'])}")
    return said + [f"note: {note}" for note in overview["notes"]]


def _by_split(splits: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {split}" for split, count in splits.items() if count)


def _counts(counts: Mapping[str, int]) -> str:
    listed = ", ".join(f"{name} ({count})" for name, count in list(counts.items())[:LISTED])
    return listed + (f" and {len(counts) - LISTED:,} more" if len(counts) > LISTED else "")


def _example(record: Mapping[str, Any]) -> str:
    if "words" in record:
        tagged = zip(record["words"], record["tags"], strict=True)
        return " ".join(word if tag == "O" else f"{word}/{tag}" for word, tag in tagged)
    slots = ", ".join(f"{slot['name']}={slot['value']!r}" for slot in record.get("slots", []))
    label = record["goal"] if "goal" in record else record["label"]
    return f"{record['text']!r}: {'out of scope' if label is None else label}" + (f" ({slots})" if slots else "")
