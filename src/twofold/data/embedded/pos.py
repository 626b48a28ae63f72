"""Parts of speech: sentences whose words often belong to two of them (walk, light, water, back), told apart by place.

Tags are the universal ones (UPOS). Test has patterns and nouns, verbs and adjectives that train lacks.
"""

from random import Random

from twofold.data.drawing import draw_splits
from twofold.data.embedded.ner import words_and_tags
from twofold.data.examples import Splits, Tagged
from twofold.data.grammar import Lexicon, Open, Shared, lines, portion, shuffled, wordings, words

PATTERNS = """
    <np> {VERB:does} <np> {PUNCT:stop}
    <np> {VERB:does} <np> <pp> {PUNCT:stop}
    <np> {VERB:did} {ADV} {PUNCT:stop}
    {PRON:subject} {AUX:modal} {VERB:do} <np> {PUNCT:stop}
    {PRON:subject} {AUX:modal} {PART:not} {VERB:do} <np> <pp> {PUNCT:stop}
    {PRON:subject} {VERB:did} <np> {CCONJ} {VERB:did} <np> {PUNCT:stop}
    <np> {AUX:is} {ADV:degree} {ADJ} {PUNCT:stop}
    <np> {CCONJ} <np> {VERB:did} <pp> {PUNCT:stop}
    {VERB:do} <np> {ADV} {PUNCT:stop}
    {PROPN} {VERB:does} <np> {SCONJ} {PRON:subject} {VERB:did} <np> {PUNCT:stop}
    {ADV:time} {PROPN} {VERB:did} {NUM} {NOUN:things} {PUNCT:stop}
    {AUX:modal} {PRON:subject} {VERB:do} <np> {PUNCT:ask}
    {SCONJ} <np> {VERB:did} {PUNCT:comma} {PRON:subject} {VERB:did} {ADV} {PUNCT:stop}
    {INTJ} {PUNCT:comma} <np> {AUX:is} {ADJ} {PUNCT:shout}
    {DET:the} {NUM} {NOUN:things} {VERB:did} <pp> {PUNCT:stop}
    {PRON:subject} {VERB:did} {PART:to} {VERB:do} <np> {PUNCT:stop}
    {PROPN} {CCONJ} {PROPN} {VERB:did} <np> <pp> {PUNCT:stop}
    <pp> {PRON:subject} {VERB:did} <np> {PUNCT:stop}
    {PRON:subject} {VERB:did} <np> {SCONJ} <np> {AUX:is} {ADJ} {PUNCT:stop}
    {SCONJ} {PRON:subject} {VERB:did} <pp> {PUNCT:comma} <np> {VERB:did} {PUNCT:stop}
    <np> {VERB:did} {SCONJ} {PROPN} {VERB:did} {PUNCT:stop}
"""
# Words of the second line are nouns as well as verbs; only their place tells.
NOUNS = words(
    """
    dog, house, river, teacher, song, window, garden, child, kitchen, letter,
    walk, light, water, cook, paint, dance, drink, watch, plant, play,
    market, uncle, bridge, blanket, engine, violin, harbour, lantern, ladder, pigeon, orchard, trumpet
    """
)
ACTIONS = words(
    """
    see, find, open, carry, need, follow,
    walk, light, water, cook, paint, dance, drink, watch, plant, play,
    sell, wash, clean, repair, guard, measure, polish, collect
    """
)
SIZES = words(
    "old, small, red, open, clean, quiet, light, warm, green, happy, tall, cheap, narrow, wooden, noisy, gentle"
)
ADVERBS = words("slowly, often, here, well, again, quickly, outside, early, loudly, together, gladly, badly")


def third(verb: str) -> str:
    """He walks, he watches, he carries."""
    if verb[-1] == "y" and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("s", "sh", "ch", "x", "o")) else f"{verb}s"


def past(verb: str) -> str:
    """Walked, danced, carried; the irregular ones by heart."""
    irregular = {"see": "saw", "find": "found", "light": "lit", "drink": "drank", "sell": "sold"}
    if verb in irregular:
        return irregular[verb]
    if verb[-1] == "y" and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ied"
    return f"{verb}d" if verb.endswith("e") else f"{verb}ed"


def several(noun: str) -> str:
    return {"child": "children"}.get(noun, third(noun))


LEXICON = Lexicon(
    {
        "np": Shared(
            ("{DET:the} {NOUN}", "{DET:the} {ADJ} {NOUN}", "{DET:a} {NOUN}", "{DET:a} {ADJ} {NOUN}", "{PROPN}")
        ),
        "pp": Shared(("{ADP} {DET:the} {NOUN}", "{ADP} {DET:a} {ADJ} {NOUN}")),
        "the": Shared(words("the, this, every, the, that, no")),
        "a": Shared(("a",)),
        "NOUN": Open(NOUNS),
        "things": Open(tuple(map(several, NOUNS))),
        "ADJ": Open(SIZES),
        "do": Open(ACTIONS),
        "does": Open(tuple(map(third, ACTIONS))),
        "did": Open(tuple(map(past, ACTIONS))),
        "modal": Shared(words("can, will, must, should, may")),
        "is": Shared(words("is, was")),
        "not": Shared(("not",)),
        "to": Shared(("to",)),
        "subject": Shared(words("she, he, they, we, you, it, someone")),
        "PROPN": Open(
            words("Anna, Omar, Paris, May, Rose, Will, Mark, Lisbon, Priya, Nairobi, Kofi, Grace, Bill, Oslo")
        ),
        "ADV": Open(ADVERBS),
        "degree": Shared(words("very, quite, too, rather")),
        "time": Shared(words("yesterday, then, later, soon")),
        "ADP": Shared(words("in, under, behind, with, near, on, to")),
        "CCONJ": Shared(words("and, or, but")),
        "SCONJ": Shared(words("because, when, while, if")),
        "NUM": Open(words("two, three, 5, ten, 12, four, 40, seven, 99, twenty")),
        "INTJ": Shared(words("oh, well, yes, hey")),
        "stop": Shared((".",)),
        "ask": Shared(("?",)),
        "shout": Shared(("!",)),
        "comma": Shared((",",)),
    }
)


def parts_of_speech(seed: int = 0, train: int = 3000, dev: int = 300, test: int = 500) -> Splits[Tagged]:
    """Sentences, a tag for every word and sign."""
    options = shuffled([wording for line in lines(PATTERNS) for wording in wordings(line)])

    def make(split: str, place: int, rng: Random) -> Tagged:
        own = split if rng.random() < 0.5 else "train"
        tagged = words_and_tags(LEXICON.say(rng.choice(portion(options, own)), rng, split))
        first = tagged.words[0][0].upper() + tagged.words[0][1:]
        return Tagged((first, *tagged.words[1:]), tuple(tag.removeprefix("B-") for tag in tagged.tags))

    return draw_splits("pos", seed, (train, dev, test), make, lambda tagged: " ".join(tagged.words))
