"""English to German: small sentences with what makes German German: gender, case, endings, and where the verb goes.

A verb and its object that occur together in test never do so in train or dev; every word by itself does.
"""

from dataclasses import dataclass
from random import Random

from twofold.data.drawing import draw_splits
from twofold.data.examples import Pair, Splits
from twofold.data.grammar import share, words

# English, German, gender.
NOUNS = """
dog Hund m, cat Katze f, child Kind n, woman Frau f, man Mann m, bird Vogel m, horse Pferd n, cow Kuh f, friend
Freund m, teacher Lehrerin f, doctor Ärztin f, girl Mädchen n, king König m, queen Königin f, baker Bäcker m,
sheep Schaf n, mouse Maus f, uncle Onkel m
"""
THINGS = """
book Buch n, lamp Lampe f, ball Ball m, apple Apfel m, flower Blume f, car Auto n, chair Stuhl m, letter Brief
m, picture Bild n, bag Tasche f, key Schlüssel m, coat Mantel m, bicycle Fahrrad n, cake Kuchen m, watch Uhr f,
shirt Hemd n
"""
ADJECTIVES = """
old alt, small klein, big groß, red rot, clever klug, young jung, green grün, beautiful schön, white weiß, new neu,
black schwarz, strange seltsam
"""
# English base, third person and participle; German third person, participle and particle (- for none).
VERBS = """
see sees seen sieht gesehen -, find finds found findet gefunden -, love loves loved liebt geliebt -, carry
carries carried trägt getragen -, buy buys bought kauft gekauft -, wash washes washed wäscht gewaschen -, paint
paints painted malt gemalt -, need needs needed braucht gebraucht -, hear hears heard hört gehört -, pull pulls
pulled zieht gezogen -, collect collects collected holt abgeholt ab, lift lifts lifted hebt aufgehoben auf, take
takes taken nimmt mitgenommen mit, open opens opened macht aufgemacht auf, return returns returned gibt
zurückgegeben zurück
"""
PLACES = (
    ("in the kitchen", "in der Küche"),
    ("in the garden", "im Garten"),
    ("at the station", "am Bahnhof"),
    ("in front of the house", "vor dem Haus"),
    ("behind the church", "hinter der Kirche"),
    ("at the lake", "am See"),
)
TIMES = (
    ("today", "heute"),
    ("now", "jetzt"),
    ("every morning", "jeden Morgen"),
    ("on Sunday", "am Sonntag"),
    ("sometimes", "manchmal"),
    ("in winter", "im Winter"),
)
OPENINGS = (
    ("I know that", "ich weiß, dass"),
    ("we think that", "wir denken, dass"),
    ("she says that", "sie sagt, dass"),
    ("it is nice that", "es ist schön, dass"),
)
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


PEOPLE = [Noun(*entry.split()) for entry in words(NOUNS)]
OBJECTS = [*PEOPLE, *(Noun(*entry.split()) for entry in words(THINGS))]
QUALITIES = [tuple(entry.split()) for entry in words(ADJECTIVES)]
ACTIONS = [Verb(*entry.replace("-", "").split(), *([""] if entry.endswith("-") else [])) for entry in words(VERBS)]


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
    quality, eigenschaft = rng.choice(QUALITIES)
    return _english(article, f"{quality} {noun.english}"), f"{german} {eigenschaft}{ending} {noun.german}"


def _english(article: str, rest: str) -> str:
    return f"{'an' if article == 'a' and rest[0] in 'aeiou' else article} {rest}"


def sentence(rng: Random, split: str) -> Pair:
    """One sentence of one of six shapes."""
    while True:
        verb, thing = rng.choice(ACTIONS), rng.choice(OBJECTS)
        if share(f"{verb.base} {thing.english}") == split:
            break
    who = rng.choice([noun for noun in PEOPLE if noun != thing])
    subject, subjekt = phrase(who, rng, "nominative")
    target, objekt = phrase(thing, rng, "accusative")
    where, wo = rng.choice(PLACES) if rng.random() < 0.4 else ("", "")
    when, wann = rng.choice(TIMES)
    opening, anfang = rng.choice(OPENINGS)
    finite, particle = verb.german, verb.particle
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
