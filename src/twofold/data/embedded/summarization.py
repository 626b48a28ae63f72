"""Match reports and their headlines: who won, how clearly, where. Clubs that meet in test meet nowhere else."""

from random import Random

from twofold.data.content import content, entries, lines, sources
from twofold.data.drawing import draw_splits
from twofold.data.examples import Pair, Splits
from twofold.data.grammar import Generated, Lexicon, Shared, portion, split_of

CONTENT = content("embedded/summarization")
CLUBS, CITIES = (entries(CONTENT[name]) for name in ("clubs", "cities"))
PARTS = {name: lines(text) for name, text in CONTENT["parts"].items()}
SOURCES = {
    **sources(CONTENT),
    "crowd": Generated(lambda rng: f"{rng.randrange(2, 60)},000"),
    "minute": Generated(lambda rng: str(rng.randrange(2, 90))),
}


def report(rng: Random, split: str) -> Pair:
    """A report of three to six sentences and its headline."""
    while True:
        home, away = rng.sample(CLUBS, 2)
        if split_of(" ".join(sorted((home, away)))) == split:
            break
    ours, theirs = rng.randrange(5), rng.randrange(5)
    winner, loser = (home, away) if ours >= theirs else (away, home)
    result = f"{max(ours, theirs)}-{min(ours, theirs)}"
    city = rng.choice(CITIES)

    facts = {"home": home, "away": away, "city": city, "winner": winner, "loser": loser, "result": result}
    facts |= {"goals": str(ours)}
    lexicon = Lexicon(SOURCES | {name: Shared((value,)) for name, value in facts.items()})

    def sentences(part: str, count: int = 1) -> list[str]:
        options = portion(PARTS[part], "train" if rng.random() < 0.5 else split)
        return [lexicon.say(template, rng, split).text for template in rng.sample(options, min(count, len(options)))]

    details = sentences("detail", rng.randrange(1, 4))
    # The result may stand anywhere but first.
    details.insert(rng.randrange(len(details) + 1), *sentences("draw" if ours == theirs else "result"))
    text = " ".join([*sentences("opening"), *details])
    if ours == theirs:
        return Pair(text, f"{home} and {away} draw {result} in {city}")
    verb = {1: "edge", 2: "beat"}.get(abs(ours - theirs), "thrash")
    return Pair(text, f"{winner} {verb} {loser} {result} in {city}")


def match_reports(seed: int = 0, train: int = 4000, dev: int = 300, test: int = 500) -> Splits[Pair]:
    """Reports with their headlines."""
    sizes = (train, dev, test)
    return draw_splits("summarization", seed, sizes, lambda split, _, rng: report(rng, split), lambda pair: pair.source)
