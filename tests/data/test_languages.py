"""Two languages, read off the names of files."""

import pytest

from twofold.data.files import DataError
from twofold.data.languages import languages_of


def folder_of(tmp_path, *names):
    for name in names:
        (tmp_path / name).write_text("x\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("names", "given", "found"),
    [
        (["train.en", "train.de"], {}, ("en", "de")),
        (["train.de.gz", "train.en.gz", "README.md", "train.txt", "dev.tsv.gz"], {}, ("en", "de")),
        (["train.de", "train.fr"], {}, ("de", "fr")),
        (["train.en", "train.de"], {"source": "de"}, ("de", "en")),
        (["train.en", "train.de"], {"target": "en"}, ("de", "en")),
        (["train.de-en.de", "train.de-en.en"], {}, ("de", "en")),
        (["train.en", "train.pt-BR"], {}, ("en", "pt-BR")),
        (["train.zh-Hant", "train.zh_CN", "train.en"], {"source": "zh-Hant", "target": "en"}, ("zh-Hant", "en")),
        (["train.en", "train.de", "test2016.fr"], {"source": "fr", "target": "de"}, ("fr", "de")),
    ],
)
def test_languages_are_those_given_or_those_there_are(tmp_path, names, given, found):
    assert languages_of(folder_of(tmp_path, *names), **given) == found


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        (["train.en", "train.de", "train.fr"], {}, "has files in de, en, fr: say which two with source and target"),
        (["train.en", "train.de", "train.fr"], {"source": "en"}, "say which two with source and target"),
        (["train.en"], {}, "has files in 1 languages, expected two"),
        (["train.en", "train.de"], {"source": "it"}, "has no source language 'it': there is de, en"),
        (["train.en", "train.de"], {"source": "en", "target": "en"}, "source and target must be two languages"),
    ],
)
def test_it_says_what_is_missing(tmp_path, names, given, message):
    with pytest.raises(ValueError, match=message):
        languages_of(folder_of(tmp_path, *names), **given)


def test_a_file_is_no_folder(tmp_path):
    with pytest.raises(DataError, match=r"is no folder, expected one with files such as train\.en"):
        languages_of(tmp_path / "train.en")
