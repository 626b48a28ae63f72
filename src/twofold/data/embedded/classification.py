"""The mood of a short message: six moods, wordings that train lacks in test, and words that several moods share."""

from random import Random

from twofold.data.content import content, lines, sources
from twofold.data.drawing import draw_splits
from twofold.data.examples import Labelled, Splits
from twofold.data.grammar import Lexicon, portion, wordings_in_hash_order
from twofold.data.speech import written

CONTENT = content("embedded/classification")
WORDINGS = {mood: wordings_in_hash_order(lines(text)) for mood, text in CONTENT["moods"].items()}
LEXICON = Lexicon(sources(CONTENT))


def moods(seed: int = 0, train: int = 2400, dev: int = 300, test: int = 500) -> Splits[Labelled]:
    """Messages, every mood equally common."""
    names = list(WORDINGS)

    def make(split: str, place: int, rng: Random) -> Labelled:
        mood = names[place % len(names)]
        template = rng.choice(portion(WORDINGS[mood], split))
        return Labelled(written(LEXICON.say(f"{template}<end>", rng, split), rng).text, mood)

    return draw_splits("classification", seed, (train, dev, test), make, lambda message: message.text)
