"""Names in short news: people, places, organisations and works, of which test has names that nobody has seen."""

import re
from random import Random

from twofold.data.assistant.values import CITIES, SONGS
from twofold.data.bio import tags_of
from twofold.data.drawing import draw_splits
from twofold.data.embedded.qa import FIRST, LAST, TOWNS
from twofold.data.examples import Splits, Tagged
from twofold.data.grammar import Lexicon, Made, Open, Shared, Spoken, lines, portion, shuffled, wordings, words

NEWS = """
    {PER} [moved|travelled|returned] to {LOC} (on <day>).
    {PER} of {ORG} [met|thanked|called] {PER} in {LOC}.
    {ORG} [opens|closes] its [office|shop|factory] in {LOC}.
    {PER} will [join|leave|lead] {ORG} (in <month>).
    In {LOC}, {PER} [sang|played|presented] {WORK} (for the first time).
    The [mayor|bishop|police] of {LOC} [welcomed|praised|warned] {PER}.
    {ORG} and {ORG} [agreed on|argued about] a new [bridge|road|line] to {LOC}.
    [Nobody|No one] in {LOC} had heard of {PER} before {WORK}.
    {WORK} by {PER} [sold well|was a surprise] in {LOC}.
    "I [love|miss] {LOC}", said {PER}.
    [Rain|Snow|Fog] is expected in {LOC} and {LOC} (on <day>).
    {PER} and {PER} [bought|sold] a house near {LOC}.
    A spokesman for {ORG} [did not comment|was not available] (on <day>).
    [Critics|Readers|Listeners] called {WORK} [boring|brilliant|too long].
    The train from {LOC} to {LOC} was late [again|on <day>].
    {PER} works for {ORG} in {LOC} and likes {WORK}.
"""
KINDS = words("Bank, University, Institute, Museum, Theatre, Railways, Hospital, Brewery, Airport, Observatory")
LEXICON = Lexicon(
    {
        "PER": Shared(("<person>", "<person>", "<surname>", "[Mr|Mrs|Dr] <surname>")),
        "person": Made(lambda rng: f"{rng.choice(FIRST)} {rng.choice(LAST)}"),
        "surname": Open(LAST),
        "LOC": Open((*TOWNS, *map(str.title, words(CITIES)))),
        # A town's name inside of an organisation's belongs to the organisation.
        "ORG": Shared(("<LOC> <kind>", "<surname> [& Sons|Brothers|Ltd|Group]", "[Bank|University|City] of <LOC>")),
        "kind": Open(KINDS),
        "WORK": Open(words(SONGS)),
        "day": Shared(words("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday")),
        "month": Shared(words("January, March, April, May, June, August, October")),
    }
)


def words_and_tags(spoken: Spoken) -> Tagged:
    """The words and signs of a sentence, with BIO tags for its slots."""
    found = [(match.start(), match.end()) for match in re.finditer(r"\w+(?:['’-]\w+)*|[^\w\s]", spoken.text)]
    return Tagged(tuple(spoken.text[start:end] for start, end in found), tags_of(tuple(found), spoken.slots))


def news(seed: int = 0, train: int = 3000, dev: int = 300, test: int = 500) -> Splits[Tagged]:
    """Sentences with BIO tags for PER, LOC, ORG and WORK."""
    options = shuffled([wording for line in lines(NEWS) for wording in wordings(line)])

    def make(split: str, place: int, rng: Random) -> Tagged:
        return words_and_tags(LEXICON.say(rng.choice(portion(options, split)), rng, split))

    return draw_splits("ner", seed, (train, dev, test), make, lambda tagged: " ".join(tagged.words))
