"""Panics of libraries written in Rust."""

import os
import sys

import pytest
from tokenizers import Tokenizer

from twofold_runtime.panics import panics_as_errors

PANICS = """{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "post_processor": null,
"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "pre_tokenizer": null, "decoder": null,
"model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0}}}"""


def test_a_panic_is_a_value_error_without_the_library_s_report(capfd):
    with (
        pytest.raises(ValueError, match=r"^the file is damaged: .*charsmap"),
        panics_as_errors("the file is damaged"),
    ):
        Tokenizer.from_str(PANICS)
    os.write(2, b"heard again\n")
    assert capfd.readouterr().err == "heard again\n"


def test_other_errors_stay_what_they_are(capfd):
    with pytest.raises(KeyError), panics_as_errors("nothing"):
        raise KeyError
    with panics_as_errors("nothing"):
        pass
    sys.stderr.write("heard again\n")
    assert capfd.readouterr().err == "heard again\n"
