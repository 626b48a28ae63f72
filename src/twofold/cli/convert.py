"""`twofold convert`: a trained transformers model with split attention."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import tyro

from twofold.cli import say, say_json
from twofold.cli.arguments import parse


@dataclass(frozen=True, kw_only=True)
class Convert:
    """Give a trained transformers model keys and values for oneself, which start as copies of those for the others.

    For example: twofold convert models/llama models/llama-split

    The converted model answers as the original until its new weights are trained. That is proved before anything is
    written: a fresh process reads it back and must give the same answers. `twofold.load` and, after `import
    twofold.retrofit`, transformers' Auto classes open it.
    """

    source: tyro.conf.Positional[str]
    """A folder with a model that transformers saved, or a name that it fetches."""
    target: tyro.conf.Positional[str]
    """The folder to write, which must not be there yet."""
    attention: Literal["split_key", "split_value", "split_kv"] = "split_kv"
    """What a token has for itself: a key, a value or both."""
    layers: tuple[int, ...] = ()
    """Numbers of the layers to convert, from 0 on each side; all unless given."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute: a GPU if there is one."""
    json: bool = False
    """Print JSON."""


def run(words: Sequence[str]) -> int:
    chosen = parse(Convert, words, "twofold convert")
    from twofold.retrofit.proof import convert_saved

    proof = convert_saved(
        chosen.source, chosen.target, chosen.attention, layers=chosen.layers or None, device=chosen.device
    )
    if chosen.json:
        say_json(asdict(proof))
        return 0
    share = 100 * proof.own_parameters / proof.parameters
    say(f"{chosen.target}: {proof.modules} attention modules, {proof.own_parameters:,} own parameters ({share:.1f} %)")
    say(
        f"read back by a fresh process: top 1 {proof.top_1:.1%}, top 10 {proof.top_10:.1%} the same, "
        f"cosine {proof.cosine:.6f}, relative error {proof.error:.1e}"
    )
    return 0
