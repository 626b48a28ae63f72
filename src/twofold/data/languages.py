"""Which two languages a folder of parallel text is in, read off its file names."""

import re
from pathlib import Path

from twofold.data.files import DataError
from twofold.data.splits import ENDINGS, SPLIT_NAMES
from twofold_runtime.checked import shown

SPLIT = "|".join(name for names in SPLIT_NAMES.values() for name in names)
# train.en, test2016.de.gz, train.en-de.en, train.zh-Hant
FILE = re.compile(rf"(?:{SPLIT})[^.]*(?:\.(?P<pair>\w+-\w+))?\.(?P<language>[a-z]{{2,3}}(?:[-_]\w+)*)(?:\.gz)?")


def languages_of(folder: Path | str, source: str | None = None, target: str | None = None) -> tuple[str, str]:
    """Source and target: the arguments, or the two languages of the files. English is the source by default."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(folder, None, "is no folder, expected one with files such as train.en and train.de")
    matches = [match for path in sorted(folder.iterdir()) if (match := FILE.fullmatch(path.name))]
    matches = [match for match in matches if f".{match['language']}" not in (*ENDINGS, ".gz")]
    pairs = {tuple(match["pair"].split("-")) for match in matches if match["pair"]}
    there = sorted({match["language"] for match in matches})
    for name, language in (("source", source), ("target", target)):
        if language is not None and language not in there:
            problem = f"has no {name} language {shown(language)}: there is {', '.join(there) or 'none'}"
            raise DataError(folder, None, problem)
    if source is not None and source == target:
        raise ValueError(f"source and target must be two languages, got {shown(source)} twice")
    if source is not None and target is not None:
        return source, target
    others = [language for language in there if language not in (source, target)]
    if len(there) == 2:
        if source is None and target is None and len(pairs) == 1:
            first, second = next(iter(pairs))
            return first, second
        first = source or (next(iter(others)) if target else "en" if "en" in there else there[0])
        return first, next(language for language in there if language != first)
    if len(there) < 2:
        raise DataError(folder, None, f"has files in {len(there)} languages, expected two, as in train.en and train.de")
    raise DataError(folder, None, f"has files in {', '.join(there)}: say which two with source and target")
