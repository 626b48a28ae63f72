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

from twofold.data.assistant import numbers
from twofold.data.content import content, entries, lines, sources
from twofold.data.drawing import draw_splits
from twofold.data.examples import Splits, Utterance
from twofold.data.grammar import Lexicon, Made, Spoken, hashed_wordings, portion, shuffled
from twofold.data.speech import written

OUT_OF_SCOPE = 0.12
UNITS = [
    pair
    for dimension in ("length", "weight", "volume", "heat")
    for pair in ((dimension, f"imperial_{dimension}"), (f"imperial_{dimension}", dimension))
]


def with_units(template: str) -> str:
    """A template with {from_unit} and {to_unit} as a choice of dimension and direction; others as they are."""
    if "{from_unit}" not in template:
        return template
    dash, command = ("- ", template[2:]) if template.startswith("- ") else ("", template)
    options = [
        command.replace("{from_unit}", f"{{from_unit:{source}}}").replace("{to_unit}", f"{{to_unit:{target}}}")
        for source, target in UNITS
    ]
    return f"{dash}[{'|'.join(options)}]"


TEMPLATES = {
    goal: [with_units(template) for template in lines(text)]
    for name in ("home", "media", "phone", "world")
    for goal, text in content(f"assistant/{name}").items()
}
VALUES = content("assistant/values")
CITIES, SONGS = (entries(VALUES["open"][kind]) for kind in ("city", "song"))
NUMBERS = (
    numbers.time,
    numbers.day,
    numbers.calendar_date,
    numbers.duration,
    numbers.percent,
    numbers.level,
    numbers.degrees,
    numbers.amount,
    numbers.count,
    numbers.quantity,
    numbers.seconds,
    numbers.span,
)
LEXICON = Lexicon(sources(VALUES) | {number.__name__: Made(number) for number in NUMBERS})
OUTSIDE = content("assistant/outside")
OUTSIDE_LEXICON = Lexicon(sources(OUTSIDE))


@cache
def wordings_of(goal: str) -> list[str]:
    """What can be said for a goal, values left open, in the order of their hashes. "- ": not a command."""
    return hashed_wordings(TEMPLATES[goal])


def goals(seed: int = 0, train: int = 7000, dev: int = 1000, test: int = 1500) -> Splits[Utterance]:
    """The goal set of a seed: so many utterances a split, all different from each other."""
    names = list(TEMPLATES)

    def make(split: str, place: int, rng: Random) -> Utterance:
        # Goals take turns, so that each is equally common; utterances out of scope come in between.
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
    return LEXICON.say(_politely(wording, rng, split), rng, split)


def _politely(command: str, rng: Random, split: str) -> str:
    """A command with something polite around it, every other time. Test has phrases that train lacks, and train's."""
    if rng.random() < 0.5:
        return command
    return rng.choice(portion(VALUES["polite"], split if rng.random() < 0.5 else "train")).format(command)


def _outside(split: str, rng: Random) -> Spoken:
    families = OUTSIDE.get(f"{split}_only")
    if families and rng.random() < 0.5:
        template = rng.choice(lines(families[rng.choice(sorted(families))]))
    else:
        families = OUTSIDE["every_split"]
        template = rng.choice(portion(shuffled(lines(families[rng.choice(sorted(families))])), split))
    return OUTSIDE_LEXICON.say(f"<lead> {template}", rng, split)
