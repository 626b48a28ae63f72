"""Help pages about household devices, and what people ask when they need one. Test asks in words that train lacks."""

from random import Random

from twofold.data.content import content, entries, lines
from twofold.data.drawing import draw_splits
from twofold.data.examples import Document, Query, Retrieval
from twofold.data.grammar import Lexicon, Shared, in_hash_order, portion, seeded

CONTENT = content("embedded/retrieval")
PAGES = CONTENT["pages"]
LEADS = Shared(entries(CONTENT["leads"]))
LEXICONS = {
    device: Lexicon({"name": Shared(entries(names)), "lead": LEADS}) for device, names in CONTENT["devices"].items()
}
QUESTIONS = {title: in_hash_order(lines(page["questions"])) for title, page in PAGES.items()}


def page_id(device: str, title: str) -> str:
    return f"{device}/{title}".replace(" ", "-").lower()


def help_pages(seed: int = 0, train: int = 2400, dev: int = 200, test: int = 300) -> Retrieval:
    """Pages, and queries of which each has one page that answers it."""
    documents = [
        Document(page_id(device, title), f"{title}: {device}\n{page['text'].format(device=device)}")
        for device in LEXICONS
        for title, page in PAGES.items()
    ]
    # The order of pages must not tell what they are about.
    seeded("retrieval", seed).shuffle(documents)

    def make(split: str, place: int, rng: Random) -> Query:
        device, title = rng.choice(list(LEXICONS)), rng.choice(list(PAGES))
        template = rng.choice(portion(QUESTIONS[title], split))
        spoken = LEXICONS[device].say(f"<lead> {template}", rng, split)
        return Query(spoken.text, {page_id(device, title): 1})

    return Retrieval(documents, draw_splits("retrieval", seed, (train, dev, test), make, lambda query: query.text))
