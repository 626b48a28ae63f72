"""Numbers, times, dates and durations as people say and write them."""

from random import Random

from twofold.data.content import content, entries

WORDS = {name: entries(written) for name, written in content("assistant/numbers").items()}
ONES, TENS, WEEKDAYS, MONTHS, ORDINALS = (WORDS[name] for name in ("ones", "tens", "weekdays", "months", "ordinals"))


def spell(number: int) -> str:
    """A whole number from 0 to 9999 in words."""
    if not 0 <= number <= 9999:
        raise ValueError(f"number must be between 0 and 9999, got {number}")
    if number < 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")
    size, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    rest = f" {'and ' if number % size < 100 else ''}{spell(number % size)}" if number % size else ""
    return f"{spell(number // size)} {name}{rest}"


def ordinal(day: int) -> str:
    """1st, 2nd, 3rd, 4th."""
    ending = "th" if day % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def number(rng: Random, low: int, high: int, step: int = 1) -> str:
    """A number in digits or in words."""
    value = rng.randrange(low, high + 1, step)
    return str(value) if rng.random() < 0.6 else spell(value).replace("-", rng.choice("- "))


def percent(rng: Random) -> str:
    text = number(rng, 5, 100, rng.choice([1, 5, 5]))
    return text + (rng.choice([" percent", "%", " %"]) if text.isdigit() else " percent")


def level(rng: Random) -> str:
    """How loud: a step from 0 to 10, or a percentage."""
    return number(rng, 0, 10) if rng.random() < 0.4 else percent(rng)


def degrees(rng: Random) -> str:
    if rng.random() < 0.2:
        return f"{rng.randrange(60, 80)}{rng.choice([' degrees fahrenheit', '°F', ' fahrenheit'])}"
    value = rng.randrange(15, 27)
    text = (
        f"{value}{rng.choice(['.5', ''])}" if rng.random() < 0.5 else f"{spell(value)}{rng.choice(['', ' and a half'])}"
    )
    return f"{text}{rng.choice([' degrees', ' degrees', '', ' celsius'])}"


def amount(rng: Random) -> str:
    return f"{rng.randrange(1, 40)}.{rng.randrange(1, 10)}" if rng.random() < 0.2 else number(rng, 2, 500)


def count(rng: Random) -> str:
    return number(rng, 2, 20)


def quantity(rng: Random) -> str:
    if rng.random() < 0.2:
        return f"{rng.randrange(100, 1000, 50)} {rng.choice(['grams', 'g'])}"
    return f"{number(rng, 2, 12)} {rng.choice(['packs', 'bags', 'boxes', 'kilos', 'packets'])}"


def time(rng: Random) -> str:
    """A time of day: 10:30, half past six, quarter to nine, 7 pm, ten."""
    hour, twelve = rng.randrange(24), rng.randrange(1, 13)
    minute = rng.randrange(0, 60, 5)
    style = rng.randrange(10)
    if style == 0:
        return rng.choice(["noon", "midnight", "sunrise", "sunset", "lunchtime", "bedtime"])
    if style == 1:
        return f"half past {rng.choice([spell(twelve), str(twelve)])}"
    if style == 2:
        return f"{rng.choice(['', 'a '])}quarter {rng.choice(['to', 'past'])} {spell(twelve)}"
    if style == 3:
        return f"{spell(rng.choice([5, 10, 20, 25]))} {rng.choice(['to', 'past'])} {spell(twelve)}"
    if style == 4:
        return f"{twelve}{rng.choice([' ', ''])}{rng.choice(['am', 'pm', 'p.m.', 'a.m.'])}"
    if style == 5:
        return f"{twelve}:{minute:02}{rng.choice([' am', ' pm', 'pm', 'am'])}"
    if style == 6:
        return f"{hour:02}{rng.choice(':.')}{minute:02}"
    if style == 7:
        return f"{rng.choice([spell(twelve), str(twelve)])} o'clock"
    if style == 8:
        return f"{spell(twelve)} {spell(rng.choice([10, 15, 20, 30, 40, 45, 50]))}"
    return spell(twelve)


def day(rng: Random) -> str:
    """A date that takes no "on": tomorrow, next friday."""
    if rng.random() < 0.45:
        return rng.choice(["today", "tomorrow", "tomorrow", "the day after tomorrow", "this weekend", "next week"])
    return f"{rng.choice(['next', 'this', 'next', 'this coming'])} {rng.choice(WEEKDAYS)}"


def calendar_date(rng: Random) -> str:
    """A date that takes "on": friday, the 3rd of may, 2026-05-03."""
    month, of_month = rng.randrange(12), rng.randrange(1, 29)
    name = MONTHS[month]
    style = rng.randrange(8)
    if style < 3:
        weekday = rng.choice(WEEKDAYS)
        return weekday if style else f"{weekday} {rng.choice(['morning', 'evening', 'afternoon'])}"
    if style == 3:
        return f"the {ordinal(of_month)} of {name}"
    if style == 4:
        return f"{name} {rng.choice([ordinal(of_month), str(of_month)])}"
    if style == 5:
        return f"{rng.randrange(2025, 2030)}-{month + 1:02}-{of_month:02}"
    if style == 6:
        return f"{of_month} {name[:3] if rng.random() < 0.4 else name}"
    return f"the {rng.choice(ORDINALS)} of {name}"


def seconds(rng: Random) -> str:
    """A short wait, as before a photograph."""
    return f"{number(rng, 2, 60)} {rng.choice(['seconds', 'seconds', 'secs'])}"


def span(rng: Random) -> str:
    """A duration that stands before a noun: a ten minute timer."""
    return f"{number(rng, 2, 59)}{rng.choice([' ', ' ', '-'])}{rng.choice(['minute', 'minute', 'second', 'hour'])}"


def duration(rng: Random) -> str:
    """How long: twenty minutes, an hour and a half, 90 s."""
    style = rng.randrange(8)
    if style == 0:
        return rng.choice(["an hour", "half an hour", "a minute", "an hour and a half", "a quarter of an hour"])
    if style == 1:
        return rng.choice(
            ["a couple of minutes", "a couple of hours", "two and a half hours", "three quarters of an hour"]
        )
    if style == 2:
        return f"{rng.randrange(2, 91)}{rng.choice([' min', ' mins', ' secs', 's'])}"
    if style == 3:
        return f"{number(rng, 2, 5)} hours and {number(rng, 5, 55, 5)} minutes"
    if style == 4:
        return f"{number(rng, 2, 12)} hours"
    if style == 5:
        return f"{number(rng, 10, 90)} seconds"
    return f"{number(rng, 2, 59)} minutes"
