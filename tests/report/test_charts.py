"""Pictures: well-formed, inside their frame, and nothing in them that was not meant."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.report.charts import (
    Interval,
    Line,
    bar_chart,
    calibration_chart,
    heat_map,
    interval_chart,
    line_chart,
    short,
    ticks,
)
from twofold.report.markup import Markup, joined, shortened, tag

HOSTILE = "</title><script>alert('1')</script>&\"'"
NUMBERS = st.floats(-1e6, 1e6).map(lambda number: round(number, 3))


def parsed(picture):
    return ElementTree.fromstring(picture)  # noqa: S314 (our own)


def texts(picture):
    return [element.text for element in parsed(picture).iter("text")]


@given(NUMBERS, NUMBERS)
def test_ticks_hold_what_they_are_for(one, other):
    low, high = sorted((one, other))
    found = ticks(low, high)
    assert found[0] <= low + 1e-6 * abs(low) + 1e-9
    assert found[-1] >= high - 1e-6 * abs(high) - 1e-9
    assert found == sorted(set(found))
    assert 2 <= len(found) <= 8


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e12, 1e300])
def test_ticks_are_of_any_size(scale):
    assert ticks(0, 100 * scale) == pytest.approx([scale * one for one in (0, 20, 40, 60, 80, 100)])


def test_numbers_that_differ_in_their_last_bits_have_ticks():
    found = ticks(5.0, 5.0 + 2e-15)
    assert found[0] < 5 < found[-1]
    assert found == sorted(set(found))


def test_ticks_are_round():
    assert ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert ticks(12.3, 48.9) == [10, 20, 30, 40, 50]
    assert ticks(3, 3) == [2.4, 2.6, 2.8, 3.0, 3.2, 3.4, 3.6]


def places(element):
    """x, y, x, y, ... of a path."""
    return [float(number) for number in re.findall(r"-?[\d.]+", element.get("d"))]


def is_inside(found):
    return all(0 <= x <= 400 for x in found[::2]) and all(0 <= y <= 250 for y in found[1::2])


@pytest.mark.parametrize("points", [[(1, 0.5)], [(0, 3.0), (10, 1.0), (20, 2.0)], [(5, -1.0), (5, -1.0)]])
def test_lines_stay_inside_the_frame_and_say_where_they_end(points):
    picture = line_chart([Line("split_kv", 0, points)], title="loss", x_label="steps", y_label="loss")
    found = places(next(parsed(picture).iter("path")))
    assert is_inside(found)
    assert len(found) == 2 * len(points)
    assert f"split_kv: {points[-1][1]:.4g} at {points[-1][0]:g}" in picture
    assert {"steps", "loss"} <= set(texts(picture))


def test_bands_are_drawn_below_their_lines_and_stay_inside():
    line = Line("a", 9, [(1, 2.0), (2, 3.0)], [(1, 1.0, 2.5), (2, 2.0, 9.0)])
    picture = line_chart([line], title="loss", x_label="x", y_label="y", mark=-4.0)
    band, curve = parsed(picture).iter("path")
    assert (band.get("class"), curve.get("class")) == ("band arm1 again", "line arm1 again")
    assert len(places(band)) == 8
    assert is_inside(places(band))
    assert is_inside(places(curve))
    mark = next(one for one in parsed(picture).iter("line") if one.get("class") == "mark")
    assert 0 <= float(mark.get("y1")) <= 250


def test_a_logarithmic_axis_is_numbered_by_its_points():
    lines = [Line("a", 0, [(0.001, 2.0), (0.01, 1.0), (0.1, 3.0)]), Line("b", 1, [(0.001, 1.0)]), Line("c", 2, [])]
    picture = line_chart(lines, title="rates", x_label="rate", y_label="loss", log_x=True, legend=True)
    assert {"0.001", "0.01", "0.1", "a", "b"} <= set(texts(picture))
    assert "c" not in texts(picture)
    first, *_ = parsed(picture).iter("path")
    left, middle, right = places(first)[::2]
    assert middle - left == pytest.approx(right - middle, abs=0.2)
    assert len(list(parsed(picture).iter("circle"))) == 4
    alone = line_chart([Line("a", 0, [(5, 1.0)])], title="one", x_label="", y_label="", log_x=True)
    assert float(next(parsed(alone).iter("circle")).get("cx")) == pytest.approx((60 + 390) / 2, abs=1)


def test_a_legend_makes_room_for_itself():
    lines = [Line(f"arm {number}", number, [(1, 1.0)]) for number in range(3)]
    long = [line._replace(name=line.name + " against something else") for line in lines]
    heights = [
        float(parsed(line_chart(found, title="", x_label="", y_label="", legend=True)).get("viewBox").split()[3])
        for found in (lines, long)
    ]
    assert heights == [250 + 2 * 18, 250 + 3 * 18]


def test_intervals_have_their_mean_and_every_value():
    rows = [Interval("a − b", 0, -1.0, -2.0, 0.5, [-3.0, 0.0]), Interval("c − b", 1, 2.0, -math.inf, math.inf, [2.0])]
    picture = interval_chart(rows, title="differences", x_label="loss")
    assert len(list(parsed(picture).iter("circle"))) == 3
    assert {"a − b", "c − b", "loss"} <= set(texts(picture))
    assert "a − b: -1, -2 to 0.5" in picture
    reaches = [one for one in parsed(picture).iter("line") if one.get("class").startswith("reach")]
    assert all(0 <= float(one.get(name)) <= 400 for one in reaches for name in ("x1", "x2"))
    assert "no numbers yet" in interval_chart([], title="", x_label="")


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0005, "0.0005"), (9999, "9999"), (20000, "20k"), (1e6, "1M"), (17.3e6, "17.3M"), (2e9, "2G"), (-5e4, "-50k")],
)
def test_large_numbers_are_short(value, said):
    assert short(value) == said


def test_no_numbers_make_no_picture():
    assert "no numbers yet" in line_chart([Line("a", 0, [])], title="loss", x_label="", y_label="")


def test_bars_are_as_high_as_their_numbers():
    series = [("split_kv", [0.1, 0.4]), ("standard", [0.2, 0.0])]
    picture = bar_chart(["1.1", "1.2"], series, title="kept", y_label="share", mark=0.3)
    heights = [float(bar.get("height")) for bar in parsed(picture).iter("rect")]
    assert heights == pytest.approx([50, 200, 100, 0], abs=0.1)
    assert "standard, 1.1: 0.200" in picture


def test_a_calibration_chart_draws_what_is_in_its_bins():
    bins = [(0, 0.0, 0.0), (3, 0.4, 0.5), (9, 0.9, 1.0)]
    picture = calibration_chart(bins, 1, title="honest")
    bars = list(parsed(picture).iter("rect"))
    assert [float(bar.get("height")) for bar in bars] == pytest.approx([100, 200])
    assert "9 utterances (75%): confidence 0.90, accuracy 1.00" in picture


def test_a_heat_map_has_words_on_both_axes_and_a_shade_for_every_number():
    picture = heat_map([[0.0, 2.0], [4.0, 1.0]], ["a", "b"], ["c", "d"], title="map", most=4, numbers=True)
    shades = [cell.get("style") for cell in parsed(picture).iter("rect")]
    assert shades == ["--shade:0.000", "--shade:0.500", "--shade:1.000", "--shade:0.250"]
    assert texts(picture) == ["c", "d", "a", "2", "b", "4", "1"]
    assert "b / c: 4" in picture


@pytest.mark.parametrize("columns", [1, 2, 40])
def test_a_heat_map_fits(columns):
    words = ["weather in Ἀθῆναι 😀" for _ in range(columns)]
    picture = heat_map([[1.0] * columns] * columns, words, words, title="map")
    box = [float(number) for number in parsed(picture).get("viewBox").split()]
    for cell in parsed(picture).iter("rect"):
        assert float(cell.get("width")) > 0
        assert float(cell.get("x")) + float(cell.get("width")) <= box[2]
        assert float(cell.get("y")) + float(cell.get("height")) <= box[3]
    assert "nan" not in picture
    assert math.isfinite(box[3])


def test_nothing_becomes_markup_that_was_not_meant_to():
    pictures = [
        heat_map([[1.0]], [HOSTILE], [HOSTILE], title=HOSTILE),
        line_chart([Line(HOSTILE, 0, [(1, 1)])], title=HOSTILE, x_label=HOSTILE, y_label=HOSTILE),
        bar_chart([HOSTILE], [(HOSTILE, [0.5])], title=HOSTILE, y_label=HOSTILE, mark=0.1),
        calibration_chart([(1, 0.5, 0.5)], 0, title=HOSTILE),
    ]
    for picture in pictures:
        assert "<script" not in picture
        assert next(parsed(picture).iter("title")).text == HOSTILE
        assert parsed(picture).get("aria-label") == HOSTILE


def test_tag_escapes_texts_and_attributes_and_keeps_markup():
    assert tag("p", "1 < 2", class_='a"b', hidden=None) == '<p class="a&quot;b">1 &lt; 2</p>'
    assert tag("g", tag("a"), stroke_width=1.2345) == '<g stroke-width="1.2"><a></a></g>'
    assert tag("meta", name="viewport") == '<meta name="viewport">'
    assert joined("<", Markup("<b>")) == "&lt;<b>"


def test_long_words_are_shortened():
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abcde…"
