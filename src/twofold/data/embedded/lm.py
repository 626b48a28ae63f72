"""Little stories for language models: someone wants something, goes somewhere, meets somebody. Test has other things.

A hero's name and pronouns stay the same through a story, so there is something to learn beyond the last word.
"""

from random import Random

from twofold.data.content import content, lines, sources
from twofold.data.drawing import draw_splits
from twofold.data.examples import Splits
from twofold.data.grammar import say

CONTENT = content("embedded/lm")
PARTS = [lines(text) for text in CONTENT["parts"].values()]
SOURCES = sources(CONTENT)


def story(rng: Random, split: str) -> str:
    """A story of six sentences."""
    name, she, her = rng.choice(CONTENT["heroes"])
    facts = {kind: source.draw(kind, rng, split) for kind, source in SOURCES.items()}
    facts |= {"who": name, "she": she, "her": her, "Who": name[0].upper() + name[1:], "She": she.capitalize()}
    return " ".join(say(rng.choice(part), rng, facts.__getitem__).text for part in PARTS)


def stories(seed: int = 0, train: int = 3000, dev: int = 150, test: int = 250) -> Splits[str]:
    """Stories, one a string."""
    return draw_splits("lm", seed, (train, dev, test), lambda split, _, rng: story(rng, split), str)
