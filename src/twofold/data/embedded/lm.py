"""Little stories for language models: someone wants something, goes somewhere, meets somebody. Test has other things.

Who is who stays the same through a story, pronouns included, so there is something to learn beyond the last word.
"""

from random import Random

from twofold.data.drawing import draw_splits
from twofold.data.examples import Splits
from twofold.data.grammar import Open, lines, say, words

HEROES = (
    ("Mara", "she", "her"),
    ("Tom", "he", "his"),
    ("the old fox", "it", "its"),
    ("Aunt Lena", "she", "her"),
    ("the baker", "he", "his"),
    ("a small robot", "it", "its"),
    ("Yusuf", "he", "his"),
    ("the lighthouse keeper", "she", "her"),
)
THINGS = """
red kite, warm coat, silver key, new boat, pair of boots, jar of honey, clock, map, wooden flute, lamp, loaf of bread,
blue umbrella, bag of seeds, rope, window, telescope, teapot, letter, bicycle bell, drum
"""
PLACES = """
forest, market, harbour, mountain, village, mill, bridge, garden, island, library, station, orchard, quarry, castle
"""
FRIENDS = """
goose, carpenter, little girl, sailor, donkey, postman, librarian, cat, miller, giant, shepherd, clockmaker
"""
WISH = lines(
    """
    {Who} needed a <thing>.
    One [morning|evening], {who} wished for a <thing>.
    {Who} had lost {her} <thing>.
    Everybody knew that {who} wanted a <thing>.
    """
)
WAY = lines(
    """
    So {she} went to the <place>.
    The next day {she} walked to the <place>, [singing|whistling] all the way.
    {She} took {her} hat and set off for the <place>.
    It was [raining|snowing], but {she} went to the <place> all the same.
    """
)
MEETING = lines(
    """
    There {she} met a <friend>.
    In the <place>, a <friend> was waiting.
    A <friend> sat by the road.
    """
)
TALK = lines(
    """
    "Have you seen a <thing>?" asked {who}.
    "I am looking for a <thing>," said {who}.
    "Can you help me?" {she} asked. "I need a <thing>."
    """
)
ANSWER = lines(
    """
    "Take mine," said the <friend>, "I have two."
    The <friend> [laughed|smiled] and gave {her} hat back, with the <thing> in it.
    "Only if you sing for me," said the <friend>. And {who} sang.
    The <friend> had none, but knew the way to the <thing>.
    """
)
END = lines(
    """
    In the evening {who} came home with the <thing>.
    And that is how {who} got {her} <thing>.
    {Who} still has the <thing> today.
    Since then {who} and the <friend> are friends.
    """
)


def story(rng: Random, split: str) -> str:
    """A story of six sentences."""
    name, she, her = rng.choice(HEROES)
    sources = {"thing": Open(words(THINGS)), "place": Open(words(PLACES)), "friend": Open(words(FRIENDS))}
    facts = {kind: source.draw(kind, rng, split) for kind, source in sources.items()}
    facts |= {"who": name, "she": she, "her": her, "Who": name[0].upper() + name[1:], "She": she.capitalize()}
    parts = (WISH, WAY, MEETING, TALK, ANSWER, END)
    return " ".join(say(rng.choice(part), rng, facts.__getitem__).text for part in parts)


def stories(seed: int = 0, train: int = 3000, dev: int = 150, test: int = 250) -> Splits[str]:
    """Stories, one a string."""
    return draw_splits("lm", seed, (train, dev, test), lambda split, _, rng: story(rng, split), str)
