"""Short passages about invented people, with questions whose answers stand in them. Test has other people."""

from dataclasses import replace
from random import Random

from twofold.data.content import content, entries, lines, sources
from twofold.data.drawing import draw_splits
from twofold.data.examples import Answer, Question, Slot, Splits
from twofold.data.grammar import Generated, Lexicon, Shared, portion, wordings_in_hash_order

CONTENT = content("embedded/qa")
FIRST, LAST = (entries(CONTENT["names"][name]) for name in ("first", "last"))
TOWNS = entries(CONTENT["open"]["town"])
# For each kind of fact: wordings that state it, and wordings that ask for it. The answer is the kind's value.
STATEMENTS, QUESTIONS = (
    {kind: wordings_in_hash_order(lines(fact[name])) for kind, fact in CONTENT["facts"].items()}
    for name in ("statements", "questions")
)


def full_name(rng: Random) -> str:
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


SOURCES = {
    "who": Generated(full_name),
    "friend": Generated(full_name),
    **sources(CONTENT),
    "birth": Generated(lambda rng: str(rng.randrange(1780, 1900))),
    "year": Generated(lambda rng: str(rng.randrange(1900, 1990))),
}


def question(rng: Random, split: str) -> Question:
    """A passage of four or five facts in any order, and a question about one of them."""
    person = {kind: source.draw(kind, rng, split) for kind, source in SOURCES.items()}
    while person["friend"] == person["who"]:
        person["friend"] = SOURCES["friend"].draw("friend", rng, split)
    values = Lexicon({kind: Shared((value,)) for kind, value in person.items()})
    # The year of birth comes right after the town; the rest comes in any order.
    others = rng.sample(["job", "made", "friend", "prize"], rng.randrange(2, 4))
    order = [["town", "birth"], *([kind] for kind in others)]
    rng.shuffle(order)
    context, places = "", {}
    for kind in (kind for group in order for kind in group):
        spoken = values.say(_wording(STATEMENTS[kind], rng, split), rng, split)
        start = len(context) + bool(context)
        context += (" " if context else "") + spoken.text[0].upper() + spoken.text[1:]
        for slot in spoken.slots:
            places.setdefault(slot.name, Slot(slot.name, start + slot.start, start + slot.end))
    asked = rng.choice([kind for kind in QUESTIONS if kind in places])
    text = values.say(_wording(QUESTIONS[asked], rng, split), rng, split).text
    answer = context[places[asked].start : places[asked].end]
    return Question("", context, text[0].upper() + text[1:], (Answer(answer, places[asked].start),))


def _wording(wordings: list[str], rng: Random, split: str) -> str:
    """One wording of five. Dev and test have one each of their own and every other time one of train's."""
    return rng.choice(portion(wordings, split if rng.random() < 0.5 else "train"))


def biographies(seed: int = 0, train: int = 4000, dev: int = 300, test: int = 500) -> Splits[Question]:
    """Questions about passages."""

    def make(split: str, place: int, rng: Random) -> Question:
        return replace(question(rng, split), id=f"{split}-{place}")

    sizes = (train, dev, test)
    return draw_splits("qa", seed, sizes, make, lambda question: f"{question.context} {question.question}")
