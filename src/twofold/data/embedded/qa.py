"""Short passages about people who never were, with questions whose answers stand in them. Test has other people."""

from functools import cache
from random import Random

from twofold.data.drawing import draw_splits
from twofold.data.examples import Answer, Question, Slot, Splits
from twofold.data.grammar import Lexicon, Made, Open, Shared, portion, shuffled, wordings, words

FIRST = words(
    """
    Ada, Omar, Mei, Tomás, Ingrid, Kofi, Leila, Jonas, Priya, Marek, Yuki, Clara, Dmitri, Amina, Felix, Rosa,
    Ivan, Noor, Hugo, Sena
    """
)
LAST = words(
    """
    Lindqvist, Okoro, Castellan, Haddad, Whitlock, Sato, Moreno, Kowalczyk, Benali, Fennel, Marchetti, Varga,
    Solheim, Achterberg, Mensah, Quill, Ortega, Petrossian, Rahimi, Dupont
    """
)
TOWNS = words(
    """
    Norwick, Alderbay, Port Selma, Kestrel Hill, Marrow, Lindenau, Tarvisk, Oakhaven, San Telmo, Greyford,
    Vellamo, Bramley, Ostrava Bay, Duskwater, Ilmen, Corrado, Fernmoor, Halvik, Qasr Amal, Pellworm
    """
)
JOBS = words(
    """
    baker, pilot, botanist, violin maker, teacher, engineer, clockmaker, nurse, painter, librarian, geologist,
    tailor, beekeeper, lighthouse keeper, surveyor, glassblower
    """
)
MADE = words(
    """
    a folding bicycle, a solar oven, a silent clock, a map of the coast, a machine for peeling apples, a
    waterproof ink, a very small radio, an alphabet for knitters, a lamp without shadows, a self-watering pot, a
    bridge of rope, a new kind of kite, a paper boat that sails for days, a singing kettle, a pocket telescope,
    a book of tides
    """
)
PRIZES = words(
    """
    the Silver Acorn, the Harbour Medal, the Prize of the Seven Towns, the Golden Compass, the Lantern Award,
    the Coastal Cup, the Blue Ribbon of Marrow, the Order of the Heron
    """
)

# A kind of fact: how it is told, and how it is asked. The answer is the value of the kind's name.
INVENTED = (
    "[In {year}, {who} invented {made}|{who} invented {made} in {year}|{who} is known for {made}, finished in {year}|"
    "{year} was the year of {made}, an idea of {who}|The world owes {made} to {who}, who built it in {year}]."
)
FACTS = {
    "town": (
        "[{who} was born in {town}|{town} is where {who} was born|{who} came into the world in {town}|"
        "{who} grew up in {town}, having been born there|The birthplace of {who} is {town}].",
        "[where was <who> born|in which town was <who> born|what is the birthplace of <who>|"
        "which town is <who> from|where did <who> come into the world]?",
    ),
    "birth": (
        "[The year of birth was {birth}|That was in {birth}|It happened in {birth}|The year was {birth}|"
        "One wrote the year {birth}].",
        "[when was <who> born|in which year was <who> born|what is <who>'s year of birth|"
        "in what year did <who> come into the world|when was the birth of <who>]?",
    ),
    "job": (
        "[{who} worked as a {job}|By profession {who} was a {job}|{who} made a living as a {job}|"
        "{who} earned money as a {job}|The trade that {who} learnt was that of a {job}].",
        "[what did <who> work as|what was <who>'s profession|how did <who> make a living|"
        "what was the trade of <who>|how did <who> earn money]?",
    ),
    "made": (
        INVENTED,
        "[what did <who> invent|what is <who> known for|which invention is by <who>|what does the world owe to <who>|"
        "what was <who>'s idea]?",
    ),
    "year": (
        INVENTED,
        "[when did <who> invent <made>|in which year was <made> invented|what was the year of <made>|"
        "when was <made> invented|in what year did <who> finish <made>]?",
    ),
    "friend": (
        "[{friend} was a close friend|A close friend was {friend}|{who} often wrote letters to {friend}|"
        "{friend} often came to visit|{who} shared a house with {friend}].",
        "[who was a friend of <who>|to whom was <who> close|what was the name of <who>'s friend|"
        "which friend did <who> have|who was close to <who>]?",
    ),
    "prize": (
        "[{who} was given {prize}|{prize} went to {who} soon after|For this {who} received {prize}|"
        "{who} won {prize}|The city honoured {who} with {prize}].",
        "[which prize did <who> get|what was <who> given|what did <who> receive|which prize did <who> win|"
        "what was <who> honoured with]?",
    ),
}
PEOPLE = Lexicon(
    {
        "who": Made(lambda rng: f"{rng.choice(FIRST)} {rng.choice(LAST)}"),
        "friend": Made(lambda rng: f"{rng.choice(FIRST)} {rng.choice(LAST)}"),
        "town": Open(TOWNS),
        "job": Open(JOBS),
        "made": Open(MADE),
        "prize": Open(PRIZES),
        "birth": Made(lambda rng: str(rng.randrange(1780, 1900))),
        "year": Made(lambda rng: str(rng.randrange(1900, 1990))),
    }
)


def question(rng: Random, split: str) -> Question:
    """A passage of four or five facts in any order, and a question about one of them."""
    person = {kind: PEOPLE.sources[kind].draw(kind, rng, split) for kind in PEOPLE.sources}
    while person["friend"] == person["who"]:
        person["friend"] = PEOPLE.sources["friend"].draw("friend", rng, split)
    known = Lexicon({kind: Shared((value,)) for kind, value in person.items()})
    told = ["town", "birth", *rng.sample(["job", "made", "friend", "prize"], rng.randrange(2, 4))]
    # A year of birth is told right after the town; the rest comes in any order.
    order = [["town", "birth"], *([kind] for kind in told[2:])]
    rng.shuffle(order)
    context, places = "", {}
    for kind in (kind for group in order for kind in group):
        spoken = known.say(_wording(FACTS[kind][0], rng, split), rng, split)
        start = len(context) + bool(context)
        context += (" " if context else "") + spoken.text[0].upper() + spoken.text[1:]
        for slot in spoken.slots:
            places.setdefault(slot.name, Slot(slot.name, start + slot.start, start + slot.end))
    asked = rng.choice([kind for kind in FACTS if kind in places])
    text = known.say(_wording(FACTS[asked][1], rng, split), rng, split).text
    answer = context[places[asked].start : places[asked].end]
    return Question("", context, text[0].upper() + text[1:], (Answer(answer, places[asked].start),))


def _wording(template: str, rng: Random, split: str) -> str:
    """One wording of five. Dev and test have one each of their own and every other time one of train's."""
    return rng.choice(portion(_wordings(template), split if rng.random() < 0.5 else "train"))


@cache
def _wordings(template: str) -> list[str]:
    return shuffled(wordings(template))


def biographies(seed: int = 0, train: int = 4000, dev: int = 300, test: int = 500) -> Splits[Question]:
    """Questions about passages."""

    def make(split: str, place: int, rng: Random) -> Question:
        made = question(rng, split)
        return Question(f"{split}-{place}", made.context, made.question, made.answers)

    sizes = (train, dev, test)
    return draw_splits("qa", seed, sizes, make, lambda question: f"{question.context} {question.question}")
