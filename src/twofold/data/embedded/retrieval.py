"""Help pages about household devices, and what people ask when they need one. Test asks in words that train lacks."""

from random import Random

from twofold.data.drawing import draw_splits
from twofold.data.examples import Document, Query, Retrieval
from twofold.data.grammar import Lexicon, Shared, lines, portion, seeded, shuffled, words

# What the manual calls a device, then what people call it.
DEVICES = {
    "washing machine": "washing machine, washer",
    "dishwasher": "dishwasher, dish machine",
    "robot vacuum cleaner": "robot vacuum, hoover robot, vacuum",
    "coffee maker": "coffee machine, coffee maker, espresso machine",
    "television set": "tv, television, telly",
    "wireless router": "router, wifi box",
    "thermostat": "thermostat, heating control",
    "refrigerator": "fridge, refrigerator",
    "window blind": "blind, window blind, shade",
    "door lock": "lock, front door lock, smart lock",
    "electric kettle": "kettle, water boiler",
    "ceiling lamp": "lamp, ceiling light, light",
}
# A page's title, its text, and how people put the question.
PAGES = {
    "Cleaning": (
        "Unplug the {device} before you clean it. Wipe the surface with a soft, damp cloth; never use solvents.",
        """
        how do i clean the {name}
        the {name} is dirty, what now
        what may i wipe the {name} with
        best way to get the {name} clean
        stains on my {name}
        """,
    ),
    "Noise": (
        "If the {device} rattles or hums, check that it stands level and that no screws are loose.",
        """
        my {name} makes a strange noise
        the {name} is so loud
        why does the {name} rattle
        {name} hums all night
        how can i make the {name} quieter
        """,
    ),
    "No power": (
        "When the {device} cannot be switched on, test the socket and the fuse, then press reset for five seconds.",
        """
        the {name} does not turn on
        {name} is dead
        nothing happens when i start the {name}
        my {name} won't start any more
        no sign of life from the {name}
        """,
    ),
    "Child safety": (
        "Hold the key symbol for three seconds to lock the controls of the {device} against small hands.",
        """
        how do i lock the {name} for children
        my toddler keeps pressing buttons on the {name}
        is there a child lock on the {name}
        make the {name} safe for kids
        stop the baby from using the {name}
        """,
    ),
    "Saving energy": (
        "In eco mode the {device} uses up to a third less electricity. It goes to standby after ten minutes.",
        """
        how much electricity does the {name} use
        can the {name} save power
        my bill is high because of the {name}
        use the {name} with less energy
        cheaper way to run the {name}
        """,
    ),
    "Connecting": (
        "Open the app, choose add, and scan the code under the {device} to join it to your network.",
        """
        how do i connect the {name} to my phone
        pair the {name} with the app
        the {name} is not in the network
        set up the {name} online
        {name} lost its connection
        """,
    ),
    "Warranty": (
        "We repair or replace your {device} free of charge for two years. Keep the receipt.",
        """
        how long is the guarantee on the {name}
        who pays if the {name} breaks
        can i send the {name} back
        my {name} is broken after one year, is repair free
        do i need the receipt for the {name}
        """,
    ),
    "Disposal": (
        "Do not put an old {device} into household waste. Bring it to a collection point for recycling.",
        """
        where do i throw away my old {name}
        how do i get rid of the {name}
        recycle the {name}
        which bin does a {name} go into
        what to do with a {name} that nobody needs
        """,
    ),
    "Timer": (
        "Press the clock symbol of the {device} and turn the dial to the hour at which it shall begin.",
        """
        can the {name} start by itself in the morning
        make the {name} begin later
        delay the {name} by three hours
        schedule the {name} for tomorrow
        i want the {name} to run while i sleep
        """,
    ),
    "Update": (
        "New software for the {device} is loaded at night. The display shows the version under information.",
        """
        how do i update the {name}
        which version does my {name} have
        new software for the {name}
        install the latest release on the {name}
        is my {name} up to date
        """,
    ),
}
LEADS = ("", "", "hello,", "hi,", "please help:", "question:", "quick one:")


def help_pages(seed: int = 0, train: int = 2400, dev: int = 200, test: int = 300) -> Retrieval:
    """Pages, and queries of which each has one page that answers it."""
    documents = [
        Document(f"{device}/{title}".replace(" ", "-").lower(), f"{title}: {device}\n{text.format(device=device)}")
        for device in DEVICES
        for title, (text, _) in PAGES.items()
    ]
    # The order of pages must not tell what they are about.
    seeded("retrieval", seed).shuffle(documents)

    def make(split: str, place: int, rng: Random) -> Query:
        device, title = rng.choice(list(DEVICES)), rng.choice(list(PAGES))
        template = rng.choice(portion(shuffled(lines(PAGES[title][1])), split))
        known = Lexicon({"name": Shared(words(DEVICES[device])), "lead": Shared(LEADS)})
        spoken = known.say(f"<lead> {template}", rng, split)
        return Query(spoken.text, {f"{device}/{title}".replace(" ", "-").lower(): 1})

    return Retrieval(documents, draw_splits("retrieval", seed, (train, dev, test), make, lambda query: query.text))
