"""Match reports and their headlines: who won, how clearly, where. Clubs that meet in test meet nowhere else."""

from random import Random

from twofold.data.drawing import draw_splits
from twofold.data.examples import Pair, Splits
from twofold.data.grammar import Lexicon, Made, Open, Shared, lines, portion, share, words

CLUBS = words(
    """
    Foxes, Owls, Rovers, Lanterns, Sailors, Bakers, Comets, Badgers, Harriers, Millers, Pilots, Otters, Ravens, Giants,
    Weavers, Tigers
    """
)
CITIES = words("Lisbon, Leeds, Lyon, Turin, Bergen, Gdansk, Porto, Graz, Ghent, Malaga, Aarhus, Cork, Basel, Split")
NAMES = words(
    "Silva, Novak, Jansen, Okafor, Meyer, Rossi, Larsen, Haddad, Kim, Dubois, Costa, Petrov, Nagy, Byrne, Sato, Eze"
)
OPENING = lines(
    """
    The {home} met the {away} in {city} on <day>.
    On <day> the {away} came to {city} to play the {home}.
    {city} saw a match between the {home} and the {away} on <day>.
    It was <day> in {city}, and the {home} played the {away}.
    The {away} were the guests of the {home} in {city}.
    """
)
DETAIL = lines(
    """
    [Rain|Snow|Wind] made the pitch hard to play on.
    Around {crowd} people watched.
    {name} was shown a yellow card in minute {minute}.
    {name} hit the post shortly before the break.
    The keeper had a quiet afternoon.
    The first half was <mood>.
    Coach {name} was not available for comment.
    The referee had to stop the game for [two|five|ten] minutes.
    {name} left the pitch injured.
    The second half was <mood>.
    Supporters sang until minute {minute}.
    """
)
RESULT = lines(
    """
    In the end it was {result} for the {winner}.
    The {winner} won {result}.
    After ninety minutes the score was {result} for the {winner}.
    The {loser} lost {result}.
    With a score of {result} the points went to the {winner}.
    """
)
DRAW = lines(
    """
    In the end both sides had {goals} goals.
    Nobody won: it ended {result}.
    After ninety minutes the score was {result}.
    The points were shared at {result}.
    """
)
LEXICON = Lexicon(
    {
        "name": Shared(NAMES),
        "crowd": Made(lambda rng: f"{rng.randrange(2, 60)},000"),
        "minute": Made(lambda rng: str(rng.randrange(2, 90))),
        "day": Shared(words("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday")),
        "mood": Open(words("slow, lively, full of mistakes, one to forget, fast, even, rough, noisy, nervous, dull")),
    }
)


def report(rng: Random, split: str) -> Pair:
    """A report of three to six sentences and its headline."""
    while True:
        home, away = rng.sample(CLUBS, 2)
        if share(" ".join(sorted((home, away)))) == split:
            break
    ours, theirs = rng.randrange(5), rng.randrange(5)
    winner, loser = (home, away) if ours >= theirs else (away, home)
    result = f"{max(ours, theirs)}-{min(ours, theirs)}"
    city = rng.choice(CITIES)

    facts = {"home": home, "away": away, "city": city, "winner": winner, "loser": loser, "result": result}
    known = Lexicon(
        LEXICON.sources | {name: Shared((value,)) for name, value in (facts | {"goals": str(ours)}).items()}
    )

    def tell(templates: tuple[str, ...], count: int = 1) -> list[str]:
        options = portion(templates, "train" if rng.random() < 0.5 else split)
        return [known.say(template, rng, split).text for template in rng.sample(options, min(count, len(options)))]

    details = tell(DETAIL, rng.randrange(1, 4))
    # The result may stand anywhere but first.
    details.insert(rng.randrange(len(details) + 1), *tell(DRAW if ours == theirs else RESULT))
    text = " ".join([*tell(OPENING), *details])
    if ours == theirs:
        return Pair(text, f"{home} and {away} draw {result} in {city}")
    verb = {1: "edge", 2: "beat"}.get(abs(ours - theirs), "thrash")
    return Pair(text, f"{winner} {verb} {loser} {result} in {city}")


def match_reports(seed: int = 0, train: int = 4000, dev: int = 300, test: int = 500) -> Splits[Pair]:
    """Reports with their headlines."""
    sizes = (train, dev, test)
    return draw_splits("summarization", seed, sizes, lambda split, _, rng: report(rng, split), lambda pair: pair.source)
