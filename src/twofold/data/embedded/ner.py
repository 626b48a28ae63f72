"""Names in short news: people, places, organisations and works. The names of test occur nowhere in train or dev."""

import re
from random import Random

from twofold.data.bio import tags_of
from twofold.data.content import content, lines, sources
from twofold.data.drawing import draw_splits
from twofold.data.embedded.qa import LAST, TOWNS, full_name
from twofold.data.examples import Splits, Tagged
from twofold.data.goals import CITIES, SONGS
from twofold.data.grammar import Generated, Lexicon, Open, Spoken, portion, wordings_in_hash_order

CONTENT = content("embedded/ner")
WORDINGS = wordings_in_hash_order(lines(CONTENT["news"]))
LEXICON = Lexicon(
    sources(CONTENT)
    | {"person": Generated(full_name), "surname": Open(LAST), "LOC": Open((*TOWNS, *CITIES)), "WORK": Open(SONGS)}
)


def words_and_tags(spoken: Spoken) -> Tagged:
    """The words and signs of a sentence, with BIO tags for its slots."""
    places = tuple(match.span() for match in re.finditer(r"\w+(?:['’-]\w+)*|[^\w\s]", spoken.text))
    return Tagged(tuple(spoken.text[start:end] for start, end in places), tags_of(places, spoken.slots))


def news(seed: int = 0, train: int = 3000, dev: int = 300, test: int = 500) -> Splits[Tagged]:
    """Sentences with BIO tags for PER, LOC, ORG and WORK."""

    def make(split: str, place: int, rng: Random) -> Tagged:
        return words_and_tags(LEXICON.say(rng.choice(portion(WORDINGS, split)), rng, split))

    return draw_splits("ner", seed, (train, dev, test), make, lambda tagged: " ".join(tagged.words))
