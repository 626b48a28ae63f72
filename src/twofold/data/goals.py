"""The embedded goal set: what people say to a home and phone assistant, with goal and slots, made by a grammar.

How the splits differ, by a rule that is fixed before anything is drawn:

- *Templates.* Every line of the grammar stands for several wordings ("[turn|switch] on the {room} lights" for two). A
  goal's wordings, in the order of their hashes, are divided 60/15/25: no test sentence has a wording that train or dev
  has. Some come from lines of which train knows another wording, some are new altogether.
- *Values.* Names, titles, things, messages, numbers, times and dates of test occur in no other split. Closed classes
  (rooms, devices, colours) are divided too, and test draws from its own and from train's.
- *Dev* is half train's wordings and half wordings of its own, with values that train lacks. So a model chosen on dev
  was chosen for sentences it had not seen, and nothing of test was looked at.
- *Out of scope* (goal None): families of sentences with grammars of their own. Dev has families that train lacks, test
  others again.
"""

from functools import cache
from random import Random

from twofold.data.assistant.home import HOME
from twofold.data.assistant.media import MEDIA
from twofold.data.assistant.outside import DEV_ONLY, KNOWN, OUTSIDE_LEXICON, TEST_ONLY
from twofold.data.assistant.phone import PHONE
from twofold.data.assistant.values import LEXICON
from twofold.data.assistant.world import WORLD
from twofold.data.drawing import draw_splits
from twofold.data.examples import Splits, Utterance
from twofold.data.grammar import Spoken, lines, portion, shuffled, wordings
from twofold.data.speech import politely, written

TEMPLATES = {goal: lines(text) for goal, text in (HOME | MEDIA | PHONE | WORLD).items()}
OUT_OF_SCOPE = 0.12


@cache
def wordings_of(goal: str) -> list[str]:
    """What can be said for a goal, values left open, in an order that nobody chose. "- ": not a command."""
    return shuffled([wording for template in TEMPLATES[goal] for wording in wordings(template)])


def goals(seed: int = 0, train: int = 7000, dev: int = 1000, test: int = 1500) -> Splits[Utterance]:
    """The goal set of a seed: so many utterances a split, all different from each other."""
    names = list(TEMPLATES)

    def make(split: str, place: int, rng: Random) -> Utterance:
        # Goals take turns, so that every one is equally common; what is out of scope comes in between.
        outside = int((place + 1) * OUT_OF_SCOPE) > int(place * OUT_OF_SCOPE)
        goal = None if outside else names[place % len(names)]
        spoken = written(_outside(split, rng) if goal is None else _inside(goal, split, rng), rng)
        return Utterance(spoken.text, goal, spoken.slots)

    return draw_splits("goals", seed, (train, dev, test), make, lambda utterance: utterance.text)


def _inside(goal: str, split: str, rng: Random) -> Spoken:
    familiar = split == "dev" and rng.random() < 0.5
    wording = rng.choice(portion(wordings_of(goal), "train" if familiar else split))
    if wording.startswith("- "):
        return LEXICON.say(wording[2:], rng, split)
    return LEXICON.say(politely(wording, rng, split), rng, split)


def _outside(split: str, rng: Random) -> Spoken:
    own = {"train": {}, "dev": DEV_ONLY, "test": TEST_ONLY}[split]
    if own and rng.random() < 0.5:
        template = rng.choice(lines(own[rng.choice(sorted(own))]))
    else:
        template = rng.choice(portion(shuffled(lines(KNOWN[rng.choice(sorted(KNOWN))])), split))
    return OUTSIDE_LEXICON.say(f"<lead> {template}", rng, split)
