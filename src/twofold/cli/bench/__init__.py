"""`twofold bench`: measure on this machine; a table for people, JSON for programs."""

from collections.abc import Sequence
from importlib import import_module

from twofold.cli import say

BENCHES = {
    "attention": "the attention function alone",
    "layer": "one compiled transformer layer, equal parameters",
    "training": "tokens per second of training a small decoder, equal parameters",
    "decode": "tokens per second of generation over a cache, equal parameters",
}


def run(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        lines = "\n".join(f"  {name:<12} {what}" for name, what in BENCHES.items())
        say(f"usage: twofold bench WHAT ...\n\n{lines}\n\n`twofold bench WHAT --help` explains one.")
        return 0 if words else 2
    if words[0] not in BENCHES:
        raise ValueError(f"unknown bench {words[0]!r}; there are: {', '.join(BENCHES)}")
    return import_module(f"twofold.cli.bench.{words[0]}").run(words[1:])
