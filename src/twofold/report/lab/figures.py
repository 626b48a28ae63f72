"""The report's pictures."""

from collections.abc import Sequence
from typing import NamedTuple

from twofold.lab.analysis import Comparison
from twofold.lab.pairs import Spot, by_budget, gap_curve, mean_curve, seconds_at
from twofold.lab.statistics import t_interval
from twofold.report.charts import Interval, Line, heat_map, interval_chart, line_chart, short
from twofold.report.lab.study import Study
from twofold.report.markup import Markup

# Curves begin after this share of the tokens; before it they fall so far that no difference could be seen.
LEFT_OUT = 0.15
# Heat maps of self weights have at most so many columns.
COLUMNS = 8


class Figure(NamedTuple):
    """A picture, with a name for its file."""

    name: str
    title: str
    picture: Markup


def figures(study: Study) -> list[Figure]:
    """All that have something to show, in the order of the report."""
    found = [_differences(study), _gap(study), *_budgets(study), _against_tokens(study), _against_seconds(study)]
    return [figure for figure in [*found, *_rates(study), *_self_weights(study)] if figure.picture.startswith("<svg")]


def _differences(study: Study) -> Figure:
    title = "The difference, seed by seed"
    rows = [
        Interval(
            one.pairs.name,
            study.place(one.pairs.arm),
            one.difference.mean,
            one.difference.low,
            one.difference.high,
            one.pairs.differences,
        )
        for one in study.comparisons
        if one.difference is not None
    ]
    picture = interval_chart(rows, title=title, x_label=f"difference in {study.plan.metric}")
    return Figure("differences", title, picture)


def _gap(study: Study) -> Figure:
    title = "The gap against tokens"
    lines = [_between(study, one, _late(gap_curve(one.pairs))) for one in study.comparisons]
    return Figure("gap", title, _gaps(study, lines, title))


def _budgets(study: Study) -> list[Figure]:
    """The gap at the ends of own schedules, where there are several budgets."""
    title = "The gap at the end of each budget's own schedule"
    if len(study.plan.budgets) < 2:
        return []
    lines = []
    for one in study.comparisons:
        ends = by_budget(study.records, one.pairs.arm, one.pairs.against)
        gaps = [
            Spot(budget, t_interval(pairs.differences, one.confidence))
            for budget, pairs in ends.items()
            if pairs.differences
        ]
        lines.append(_between(study, one, gaps))
    return [Figure("budgets", title, _gaps(study, lines, title, log_x=True))]


def _between(study: Study, one: Comparison, gaps: Sequence[Spot]) -> Line:
    """The line of a comparison. That of a rival which is not the baseline has another colour than the arm's own."""
    pairs = one.pairs
    apart = 0 if pairs.against == study.plan.baseline else len(study.plan.arms)
    is_primary = (pairs.arm, pairs.against) in study.plan.primary
    return _line(pairs.name, study.place(pairs.arm) + apart, gaps, is_banded=is_primary)


def _gaps(study: Study, lines: Sequence[Line], title: str, *, log_x: bool = False) -> Markup:
    return _chart(study, lines, title, "tokens", mark=0.0, y_label=f"gap in {study.plan.metric}", log_x=log_x)


def _against_tokens(study: Study) -> Figure:
    title = f"{study.plan.metric} against tokens"
    lines = [
        _line(arm, study.place(arm), _late(mean_curve(study.ends(arm))), is_banded=study.is_in_focus(arm))
        for arm in study.plan.arms
    ]
    return Figure("tokens", title, _chart(study, lines, title, "tokens"))


def _against_seconds(study: Study) -> Figure:
    title = f"{study.plan.metric} against seconds"
    lines = []
    for arm in study.plan.arms:
        runs = study.ends(arm)
        spots = _late(mean_curve(runs))
        times = seconds_at(runs, [spot.at for spot in spots])
        timed = [Spot(time, spot.value) for time, spot in zip(times, spots, strict=True)]
        lines.append(_line(arm, study.place(arm), timed, is_banded=study.is_in_focus(arm)))
    return Figure("seconds", title, _chart(study, lines, title, "seconds"))


def _rates(study: Study) -> list[Figure]:
    found = []
    for budget in sorted({curve.budget for curve in study.rates}):
        title = f"Learning rates, {short(budget)} tokens"
        lines = []
        for curve in study.rates:
            if curve.budget == budget and curve.arm in study.plan.arms:
                spots = [Spot(rate.lr, rate.value) for rate in curve.rates if rate.value is not None]
                lines.append(_line(curve.arm, study.place(curve.arm), spots, is_banded=study.is_in_focus(curve.arm)))
        found.append(Figure(f"rates-{budget}", title, _chart(study, lines, title, "learning rate", log_x=True)))
    return found


def _self_weights(study: Study) -> list[Figure]:
    """A map for each arm that has them, of its first seed; all with the same shades."""
    first = {arm: run for arm in study.plan.arms for run in study.ends(arm)[:1] if run.self_weights}
    if not first:
        return []
    most = max(weight for run in first.values() for point in run.self_weights for weight in point.layers)
    found = []
    for arm, run in first.items():
        points = run.self_weights[:: -(-len(run.self_weights) // COLUMNS)]
        uniform = f" (uniform: {run.uniform_self_weight:.3g})" if run.uniform_self_weight is not None else ""
        title = f"Self weight by layer, {arm}{uniform}"
        layers = [f"layer {number}" for number in range(1, len(points[0].layers) + 1)]
        values = [[round(point.layers[layer], 2) for point in points] for layer in range(len(layers))]
        columns = [short(point.tokens) for point in points]
        picture = heat_map(values, layers, columns, title=title, most=most, numbers=True)
        found.append(Figure(f"self-weight-{study.place(arm)}", title, picture))
    return found


def _late(spots: Sequence[Spot]) -> list[Spot]:
    last = spots[-1].at if spots else 0
    return [spot for spot in spots if spot.at >= LEFT_OUT * last]


def _line(name: str, place: int, spots: Sequence[Spot], *, is_banded: bool) -> Line:
    band = [(spot.at, spot.value.low, spot.value.high) for spot in spots if is_banded and spot.value.is_bounded]
    return Line(name, place, [(spot.at, spot.value.mean) for spot in spots], band)


def _chart(
    study: Study,
    lines: Sequence[Line],
    title: str,
    x_label: str,
    *,
    mark: float | None = None,
    y_label: str | None = None,
    log_x: bool = False,
) -> Markup:
    label = y_label or study.plan.metric
    return line_chart(lines, title=title, x_label=x_label, y_label=label, mark=mark, log_x=log_x, legend=True)
