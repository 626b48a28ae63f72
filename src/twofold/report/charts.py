"""Pictures of numbers as SVG: lines with bands, intervals, bars, calibration and heat maps.

Colours are classes that the page gives a meaning to, so that a picture follows light and dark; whatever a colour says,
a dash, a place or a tooltip says too. All are drawn about as wide as a telephone, where their letters stay readable.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from twofold.report.markup import Markup, shortened, tag

WIDTH, HEIGHT = 400, 250
LEFT, RIGHT, TOP, BOTTOM = 60, 10, 10, 40
LABEL = 13
# The height of a line of a legend.
KEY = 18


# Colours that the page has, each with a dash; a second round of them has long ones.
STYLES = 8


def style_of(place: int) -> str:
    """The classes of an arm's colour and dash."""
    return f"arm{place % STYLES}{' again' if place // STYLES % 2 else ''}"


class Line(NamedTuple):
    """One arm's curve; `place` is the arm's number, which decides colour and dash."""

    name: str
    place: int
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()
    """How sure it is: x, low and high."""

    @property
    def style(self) -> str:
        return style_of(self.place)


class Interval(NamedTuple):
    """A mean with an interval around it, and what it is the mean of."""

    name: str
    place: int
    mean: float
    low: float
    high: float
    values: Sequence[float]


class Frame(NamedTuple):
    """From numbers to places on a picture."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + _share(x, self.x) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - _share(y, self.y) * (HEIGHT - TOP - BOTTOM),
        )


def line_chart(
    lines: Sequence[Line],
    *,
    title: str,
    x_label: str,
    y_label: str,
    mark: float | None = None,
    log_x: bool = False,
    legend: bool = False,
) -> Markup:
    """Curves over a common axis, which begins at 0 unless it is logarithmic; `mark` is a height to compare with.

    A logarithmic axis has its numbers where the points are.
    """
    lines = [line for line in lines if line.points]
    if not lines:
        return tag("p", f"{title}: no numbers yet", class_="quiet")
    across = math.log if log_x else float
    found = {x for line in lines for x, _ in line.points}
    heights = [y for line in lines for _, y in line.points] + [y for line in lines for x in line.band for y in x[1:]]
    heights += [] if mark is None else [mark]
    ys = ticks(min(heights), max(heights))
    if log_x:
        xs, ends = sorted(found), (across(min(found)), across(max(found)))
        # A single place gets the middle; others keep off the edges.
        room = 0.05 * (ends[1] - ends[0]) or 1.0
        frame = Frame((ends[0] - room, ends[1] + room), (ys[0], ys[-1]))
    else:
        frame = Frame((0, max(found) or 1), (ys[0], ys[-1]))
        xs = [x for x in ticks(0, max(found)) if x <= frame.x[1]]
    drawn = [_axes(frame, [(across(x), short(x)) for x in xs], ys, x_label, y_label)]
    if mark is not None:
        (start, y), (end, _) = frame.at(frame.x[0], mark), frame.at(frame.x[1], mark)
        drawn.append(tag("line", tag("title", f"{mark:g}"), x1=start, x2=end, y1=y, y2=y, class_="mark"))
    for line in lines:
        edge = [(x, high) for x, _, high in line.band] + [(x, low) for x, low, _ in reversed(line.band)]
        if edge:
            drawn.append(tag("path", d=_path(frame, edge, across) + "Z", class_=f"band {line.style}"))
    for line in lines:
        drawn.append(tag("path", d=_path(frame, line.points, across), class_=f"line {line.style}"))
        # Where each curve ends; and all points of an axis that is numbered by them.
        for x, y in line.points if log_x else line.points[-1:]:
            cx, cy = frame.at(across(x), y)
            told = tag("title", f"{line.name}: {y:.4g} at {x:g}")
            drawn.append(tag("circle", told, cx=cx, cy=cy, r=3.5, class_=f"dot {line.style}"))
    below, rows = _legend(lines) if legend else ([], 0)
    return _picture(title, WIDTH, HEIGHT + KEY * rows, *drawn, *below)


def interval_chart(rows: Sequence[Interval], *, title: str, x_label: str) -> Markup:
    """Means with their intervals, one below the other, with all values that went into them, and a line at zero."""
    if not rows:
        return tag("p", f"{title}: no numbers yet", class_="quiet")
    numbers = [x for row in rows for x in (row.low, row.high, *row.values) if math.isfinite(x)]
    xs = ticks(min([*numbers, 0.0]), max([*numbers, 0.0]))
    tall, top = 46, 8
    bottom = top + tall * len(rows)

    def across(x: float) -> float:
        return 14 + _share(x, (xs[0], xs[-1])) * (WIDTH - 28)

    drawn = [tag("line", x1=across(x), x2=across(x), y1=top, y2=bottom, class_="grid") for x in xs]
    for x in xs:
        label, place = f"{x:g}", across(x)
        # A letter is some 6 wide. The first number and the last must not hang over the edges.
        half = 3.1 * len(label)
        anchor, place = (None, 2) if place < half else ("end", WIDTH - 2) if place > WIDTH - half else ("middle", place)
        drawn.append(tag("text", label, x=place, y=bottom + 15, class_=anchor))
    drawn.append(tag("line", x1=across(0.0), x2=across(0.0), y1=top, y2=bottom, class_="mark"))
    drawn.append(tag("text", x_label, x=WIDTH / 2, y=bottom + 33, class_="middle label"))
    for number, row in enumerate(rows):
        y, style = top + tall * (number + 0.66), style_of(row.place)
        drawn.append(tag("text", row.name, x=20, y=y - 14, class_="named"))
        low, high = (max(xs[0], row.low), min(xs[-1], row.high))
        told = tag("title", f"{row.name}: {row.mean:.4g}, {row.low:.4g} to {row.high:.4g}")
        drawn.append(tag("line", told, x1=across(low), x2=across(high), y1=y, y2=y, class_=f"reach {style}"))
        spots = [tag("circle", tag("title", f"{x:.4g}"), cx=across(x), cy=y, r=3.0) for x in row.values]
        drawn.append(tag("g", *spots, class_=f"faint {style}"))
        drawn.append(tag("line", x1=across(row.mean), x2=across(row.mean), y1=y - 7, y2=y + 7, class_=f"reach {style}"))
    return _picture(title, WIDTH, bottom + 40, *drawn)


def bar_chart(
    groups: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], *, title: str, y_label: str, mark: float
) -> Markup:
    """Shares (0 to 1) by group, one bar for each of the series; `mark` is a line to compare with."""
    ys = ticks(0, max([mark, *(value for _, values in series for value in values)]))
    frame = Frame((0, len(groups)), (0, ys[-1]))
    drawn = [_axes(frame, [], ys, "", y_label)]
    width = (WIDTH - LEFT - RIGHT) / len(groups) * 0.8 / len(series)
    for place, (name, values) in enumerate(series):
        for group, value in enumerate(values):
            x, y = frame.at(group + 0.1 + 0.8 * place / len(series), value)
            told = tag("title", f"{name}, {groups[group]}: {value:.3f}")
            height = max(0.0, HEIGHT - BOTTOM - y)
            drawn.append(tag("rect", told, x=x, y=y, width=width - 1, height=height, class_=f"bar arm{place}"))
    for group, name in enumerate(groups):
        x, y = frame.at(group + 0.5, 0)
        drawn.append(tag("text", name, x=x, y=y + 15, class_="middle"))
    (start, y), (end, _) = frame.at(0, mark), frame.at(len(groups), mark)
    drawn.append(tag("line", tag("title", f"{mark:.3f}"), x1=start, x2=end, y1=y, y2=y, class_="mark"))
    return _picture(title, WIDTH, HEIGHT, *drawn)


def calibration_chart(bins: Sequence[tuple[int, float, float]], place: int, *, title: str) -> Markup:
    """Accuracy in bins of confidence (count, mean confidence, accuracy); honest ones end on the diagonal."""
    frame, whole = Frame((0, 1), (0, 1)), sum(count for count, _, _ in bins) or 1
    quarters = [0, 0.25, 0.5, 0.75, 1]
    drawn = [_axes(frame, [(x, f"{x:g}") for x in quarters], quarters, "confidence", "accuracy")]
    width = (WIDTH - LEFT - RIGHT) / len(bins)
    for number, (count, confidence, accuracy) in enumerate(bins):
        if count == 0:
            continue
        x, y = frame.at(number / len(bins), accuracy)
        told = f"{count} utterances ({count / whole:.0%}): confidence {confidence:.2f}, accuracy {accuracy:.2f}"
        # Pale where there is little to go by; never so pale that it is not seen.
        strength = 0.25 + 0.75 * min(1.0, count / whole * len(bins))
        height = HEIGHT - BOTTOM - y
        drawn.append(
            tag(
                "rect",
                tag("title", told),
                x=x + 1,
                y=y,
                width=width - 2,
                height=height,
                class_=f"bar arm{place}",
                style=f"opacity:{strength:.2f}",
            )
        )
        cx, cy = frame.at(confidence, accuracy)
        drawn.append(tag("circle", tag("title", told), cx=cx, cy=cy, r=3.0, class_="spot"))
    (x1, y1), (x2, y2) = frame.at(0, 0), frame.at(1, 1)
    drawn.append(tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="mark"))
    return _picture(title, WIDTH, HEIGHT, *drawn)


def heat_map(
    values: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    most: float = 1.0,
    numbers: bool = False,
    width: float = WIDTH,
) -> Markup:
    """A table of shades, full at `most`; with `numbers` they are written into the cells, zeros left out."""
    left = 10 + 6.6 * max(len(shortened(row, LABEL)) for row in rows)
    above = 16 + 5.6 * max(len(shortened(column, LABEL)) for column in columns)
    # Slanted words lean out to the right.
    cell = min(44.0, (width - left - 30) / len(columns))
    tall = min(cell, 26.0)
    drawn = []
    for j, column in enumerate(columns):
        x, y = left + (j + 0.5) * cell, above - 6.0
        turn = f"rotate(-55 {x:.1f} {y:.1f})"
        drawn.append(tag("text", shortened(column, LABEL), tag("title", column), x=x, y=y, transform=turn))
    for i, (row, line) in enumerate(zip(rows, values, strict=True)):
        y = above + i * tall
        label = tag("text", shortened(row, LABEL), tag("title", row), x=left - 6, y=y + tall / 2 + 4, class_="end")
        drawn.append(label)
        for j, value in enumerate(line):
            shade = min(1.0, value / most) if most else 0.0
            told = tag("title", f"{row} / {columns[j]}: {value:.3g}")
            x, box = left + j * cell, {"width": cell - 1, "height": tall - 1, "rx": 2}
            drawn.append(tag("rect", told, x=x, y=y, class_="cell", style=f"--shade:{shade:.3f}", **box))
            if numbers and value:
                kind = "middle inside strong" if shade > 0.5 else "middle inside"
                drawn.append(tag("text", f"{value:g}", x=x + cell / 2, y=y + tall / 2 + 4, class_=kind))
    return _picture(title, width, above + len(rows) * tall + 4, *drawn)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers around all from low to high, some five of them."""
    # Numbers that differ in their last bits are the same number.
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        low, high = low - 0.5, low + 0.5
    rough = (high - low) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = power * next(nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(number * step, digits) for number in range(first, last + 1)]


def short(value: float) -> str:
    """Thousands and more in letters: 20M."""
    if abs(value) < 1e4:
        return f"{value:g}"
    size, letter = next((size, letter) for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if abs(value) >= size)
    return f"{value / size:.4g}{letter}"


def _axes(frame: Frame, xs: Sequence[tuple[float, str]], ys: Sequence[float], x_label: str, y_label: str) -> Markup:
    drawn = []
    for value in ys:
        x, y = frame.at(frame.x[0], value)
        drawn.append(tag("line", x1=x, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        drawn.append(tag("text", f"{value:g}", x=x - 6, y=y + 4, class_="end"))
    for value, label in xs:
        x, y = frame.at(value, frame.y[0])
        # The last number must not hang over the edge.
        anchor = "end" if x > WIDTH - RIGHT - 12 else "middle"
        drawn.append(tag("text", label, x=x, y=y + 15, class_=anchor))
    middle = TOP + (HEIGHT - TOP - BOTTOM) / 2
    turn = f"rotate(-90 12 {middle:.1f})"
    drawn.append(tag("text", y_label, x=12, y=middle, class_="middle label", transform=turn))
    drawn.append(tag("text", x_label, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, class_="middle label"))
    return tag("g", *drawn)


def _path(frame: Frame, points: Sequence[tuple[float, float]], across: Callable[[float], float]) -> str:
    places = (frame.at(across(x), y) for x, y in points)
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _legend(lines: Sequence[Line]) -> tuple[list[Markup], int]:
    """Names with their strokes, two beside each other where they are short; and how many rows they take."""
    beside = 2 if all(len(line.name) <= 20 for line in lines) else 1
    keys = []
    for number, line in enumerate(lines):
        x, y = LEFT + (number % beside) * (WIDTH - LEFT) / 2, HEIGHT + 6 + KEY * (number // beside)
        stroke = tag("path", d=f"M{x:.1f} {y:.1f}L{x + 24:.1f} {y:.1f}", class_=f"line {line.style}")
        keys.append(tag("g", stroke, tag("text", shortened(line.name, 46), x=x + 30, y=y + 4)))
    return keys, math.ceil(len(lines) / beside)


def _picture(title: str, width: float, height: float, *drawn: str) -> Markup:
    box = f"0 0 {width:g} {height:.0f}"
    return tag("svg", tag("title", title), *drawn, viewBox=box, role="img", aria_label=title)


def _share(value: float, span: tuple[float, float]) -> float:
    return (value - span[0]) / (span[1] - span[0])
