"""Pictures of numbers as SVG: lines, bars, calibration and heat maps.

Colours are classes that the page gives a meaning to, so that a picture follows light and dark; whatever a colour says,
a dash, a place or a tooltip says too. All are drawn about as wide as a telephone, where their letters stay readable.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from twofold.report.markup import Markup, shortened, tag

WIDTH, HEIGHT = 400, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 40
LABEL = 13


class Line(NamedTuple):
    """One arm's curve; `place` is the arm's number, which decides colour and dash."""

    name: str
    place: int
    points: Sequence[tuple[float, float]]


class Frame(NamedTuple):
    """From numbers to places on a picture."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + _share(x, self.x) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - _share(y, self.y) * (HEIGHT - TOP - BOTTOM),
        )


def line_chart(lines: Sequence[Line], *, title: str, x_label: str, y_label: str) -> Markup:
    """Curves over a common axis."""
    found = [point for line in lines for point in line.points]
    if not found:
        return tag("p", f"{title}: no numbers yet", class_="quiet")
    xs, ys = ticks(0, max(x for x, _ in found)), ticks(min(y for _, y in found), max(y for _, y in found))
    frame = Frame((0, max(x for x, _ in found) or 1), (ys[0], ys[-1]))
    drawn = [_axes(frame, [x for x in xs if x <= frame.x[1]], ys, x_label, y_label)]
    for line in lines:
        places = [frame.at(x, y) for x, y in line.points]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        drawn.append(tag("path", d=path, class_=f"line arm{line.place}"))
        # Curves of single points, and where each curve ends.
        x, y = places[-1]
        drawn.append(tag("circle", tag("title", _told(line)), cx=x, cy=y, r=3.5, class_=f"dot arm{line.place}"))
    return _picture(title, WIDTH, HEIGHT, *drawn)


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
    drawn = [_axes(frame, quarters, quarters, "confidence", "accuracy")]
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
    above = 10 + 5.6 * max(len(shortened(column, LABEL)) for column in columns)
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


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers around all from low to high, some five of them."""
    if not high > low:
        low, high = low - 0.5, low + 0.5
    rough = (high - low) / about
    power = 10 ** math.floor(math.log10(rough))
    step = power * next(nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _axes(frame: Frame, xs: Sequence[float], ys: Sequence[float], x_label: str, y_label: str) -> Markup:
    drawn = []
    for value in ys:
        x, y = frame.at(frame.x[0], value)
        drawn.append(tag("line", x1=x, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        drawn.append(tag("text", f"{value:g}", x=x - 6, y=y + 4, class_="end"))
    for value in xs:
        x, y = frame.at(value, frame.y[0])
        # The last number must not hang over the edge.
        anchor = "end" if x > WIDTH - RIGHT - 12 else "middle"
        drawn.append(tag("text", f"{value:g}", x=x, y=y + 15, class_=anchor))
    middle = TOP + (HEIGHT - TOP - BOTTOM) / 2
    turn = f"rotate(-90 12 {middle:.1f})"
    drawn.append(tag("text", y_label, x=12, y=middle, class_="middle label", transform=turn))
    drawn.append(tag("text", x_label, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, class_="middle label"))
    return tag("g", *drawn)


def _picture(title: str, width: float, height: float, *drawn: str) -> Markup:
    box = f"0 0 {width:g} {height:.0f}"
    return tag("svg", tag("title", title), *drawn, viewBox=box, role="img", aria_label=title)


def _told(line: Line) -> str:
    x, y = line.points[-1]
    return f"{line.name}: {y:.4g} at {x:g}"


def _share(value: float, span: tuple[float, float]) -> float:
    return (value - span[0]) / (span[1] - span[0])
