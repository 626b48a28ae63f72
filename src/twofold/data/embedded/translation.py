"""English to German: small sentences with what makes German German: gender, case, endings, and where the verb goes.

A verb and its object that occur together in test never do so in train or dev; every word by itself does.
"""

from dataclasses import dataclass
from random import Random

from twofold.data.content import content, lines
from twofold.data.drawing import draw_splits
from twofold.data.examples import Pair, Splits
from twofold.data.grammar import split_of

CONTENT = content("embedded/translation")
DEFINITE = {"m": "der", "f": "die", "n": "das"}


@dataclass(frozen=True, slots=True)
class Noun:
    english: str
    german: str
    gender: str


@dataclass(frozen=True, slots=True)
class Verb:
    base: str
    third: str
    participle: str
    german: str
    german_participle: str
    particle: str


PEOPLE, THINGS = ([Noun(*line.split()) for line in lines(CONTENT[name])] for name in ("people", "things"))
OBJECTS = [*PEOPLE, *THINGS]
ADJECTIVES = [line.split() for line in lines(CONTENT["adjectives"])]
VERBS = [Verb(*line.split()) for line in lines(CONTENT["verbs"])]


def phrase(noun: Noun, rng: Random, case: str) -> tuple[str, str]:
    """A noun with article and perhaps an adjective, in both languages. `case` is "nominative" or "accusative"."""
    masculine_object = noun.gender == "m" and case == "accusative"
    article = rng.choice(["the", "a", "my"])
    if article == "the":
        german = "den" if masculine_object else DEFINITE[noun.gender]
        ending = "en" if masculine_object else "e"
    else:
        german = ("ein" if article == "a" else "mein") + (
            "en" if masculine_object else "e" if noun.gender == "f" else ""
        )
        ending = "en" if masculine_object else {"m": "er", "f": "e", "n": "es"}[noun.gender]
    if rng.random() < 0.5:
        return _english(article, noun.english), f"{german} {noun.german}"
    quality, eigenschaft = rng.choice(ADJECTIVES)
    return _english(article, f"{quality} {noun.english}"), f"{german} {eigenschaft}{ending} {noun.german}"


def _english(article: str, rest: str) -> str:
    return f"{'an' if article == 'a' and rest[0] in 'aeiou' else article} {rest}"


def sentence(rng: Random, split: str) -> Pair:
    """One sentence of one of six shapes."""
    while True:
        verb, thing = rng.choice(VERBS), rng.choice(OBJECTS)
        if split_of(f"{verb.base} {thing.english}") == split:
            break
    who = rng.choice([noun for noun in PEOPLE if noun != thing])
    subject, subjekt = phrase(who, rng, "nominative")
    target, objekt = phrase(thing, rng, "accusative")
    where, wo = rng.choice(CONTENT["places"]) if rng.random() < 0.4 else ("", "")
    when, wann = rng.choice(CONTENT["times"])
    opening, anfang = rng.choice(CONTENT["openings"])
    finite, particle = verb.german, verb.particle.strip("-")
    shapes = [
        (f"{subject} {verb.third} {target} {where}.", f"{subjekt} {finite} {objekt} {wo} {particle}."),
        (
            f"{subject} has {verb.participle} {target} {where}.",
            f"{subjekt} hat {objekt} {wo} {verb.german_participle}.",
        ),
        (f"does {subject} {verb.base} {target} {where}?", f"{finite} {subjekt} {objekt} {wo} {particle}?"),
        (f"{when} {subject} {verb.third} {target}.", f"{wann} {finite} {subjekt} {objekt} {particle}."),
        (f"{opening} {subject} {verb.third} {target}.", f"{anfang} {subjekt} {objekt} {particle}{finite}."),
        (f"{subject} does not {verb.base} {target} {when}.", f"{subjekt} {finite} {objekt} {wann} nicht {particle}."),
    ]
    return Pair(*(_written(side) for side in rng.choice(shapes)))


def _written(text: str) -> str:
    text = " ".join(text.split()).replace(" .", ".").replace(" ?", "?")
    return text[0].upper() + text[1:]


def english_to_german(seed: int = 0, train: int = 6000, dev: int = 300, test: int = 500) -> Splits[Pair]:
    """Sentence pairs."""
    sizes = (train, dev, test)
    return draw_splits("translation", seed, sizes, lambda split, _, rng: sentence(rng, split), lambda pair: pair.source)
