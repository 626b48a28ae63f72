"""Parts of speech: sentences whose words often belong to two of them (walk, light, water, back), told apart by place.

Tags are the universal ones (UPOS). Test has patterns and nouns, verbs and adjectives that train lacks.
"""

from random import Random

from twofold.data.content import content, entries, lines, sources
from twofold.data.drawing import draw_splits
from twofold.data.embedded.ner import words_and_tags
from twofold.data.examples import Splits, Tagged
from twofold.data.grammar import Lexicon, Open, portion, wordings_in_hash_order

CONTENT = content("embedded/pos")
WORDINGS = wordings_in_hash_order(lines(CONTENT["patterns"]))


def third_person(verb: str) -> str:
    """He walks, he watches, he carries."""
    if verb[-1] == "y" and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("s", "sh", "ch", "x", "o")) else f"{verb}s"


def past(verb: str) -> str:
    """Walked, danced, carried; irregular verbs from a list."""
    if verb in CONTENT["irregular_past"]:
        return CONTENT["irregular_past"][verb]
    if verb[-1] == "y" and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ied"
    return f"{verb}d" if verb.endswith("e") else f"{verb}ed"


def plural(noun: str) -> str:
    return CONTENT["irregular_plural"].get(noun) or third_person(noun)


def _lexicon() -> Lexicon:
    nouns, verbs = entries(CONTENT["open"]["NOUN"]), entries(CONTENT["open"]["do"])
    forms = {"things": map(plural, nouns), "does": map(third_person, verbs), "did": map(past, verbs)}
    return Lexicon(sources(CONTENT) | {kind: Open(tuple(words)) for kind, words in forms.items()})


LEXICON = _lexicon()


def parts_of_speech(seed: int = 0, train: int = 3000, dev: int = 300, test: int = 500) -> Splits[Tagged]:
    """Sentences, a tag for every word and sign."""

    def make(split: str, place: int, rng: Random) -> Tagged:
        own = split if rng.random() < 0.5 else "train"
        tagged = words_and_tags(LEXICON.say(rng.choice(portion(WORDINGS, own)), rng, split))
        first = tagged.words[0][0].upper() + tagged.words[0][1:]
        return Tagged((first, *tagged.words[1:]), tuple(tag.removeprefix("B-") for tag in tagged.tags))

    return draw_splits("pos", seed, (train, dev, test), make, lambda tagged: " ".join(tagged.words))
