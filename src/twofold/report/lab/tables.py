"""The report's numbers as rows of text, for the page and for Markdown alike."""

import math
from collections.abc import Callable, Sequence
from statistics import mean, median
from typing import NamedTuple

from twofold.lab.learning_rates import curve_for, spikes
from twofold.lab.pairs import by_budget, paired
from twofold.lab.statistics import Estimate, bootstrap_interval, t_interval
from twofold.lab.verdict import interval_text, number, share
from twofold.report.charts import short
from twofold.report.lab.study import Study

NOTHING = "–"


class Table(NamedTuple):
    """A title, what it shows, and its rows; the first cell of each names it."""

    title: str
    about: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: Sequence[str] = ()
    """Names of the pictures that belong below it."""
    style: str = "numbers"


def tables(study: Study) -> list[Table]:
    """All that have something to show, in the order of the report."""
    found = [
        differences(study),
        budgets(study),
        schedules(study),
        arms(study),
        lengths(study),
        costs(study),
        stability(study),
        environment(study),
    ]
    return [table for table in found if table.rows]


def differences(study: Study) -> Table:
    rows = [
        (
            one.pairs.name,
            said.word,
            str(len(one.pairs.runs)),
            number(one.difference.mean) if one.difference else NOTHING,
            interval_text(one.difference),
            interval_text(bootstrap_interval(one.pairs.differences, one.confidence) if one.difference else None),
            NOTHING if one.p is None else number(one.p),
            NOTHING if one.adjusted_p is None else number(one.adjusted_p),
            number(one.detectable) if math.isfinite(one.detectable) else NOTHING,
        )
        for one, said in zip(study.comparisons, study.verdicts, strict=True)
    ]
    direction = "below" if study.plan.lower_is_better else "above"
    return Table(
        "Differences",
        f"The arm's {study.plan.metric} minus its rival's, the same seed; {direction} zero is a gain. Student's "
        "interval over pairs, beside it that of the paired bootstrap (BCa), which is too narrow where there are few; p "
        "of the exact sign-flip test, then p after Holm over the primary comparisons. The last column is the true "
        "difference that would have been seen in 80 % of such experiments. What is exploratory is not adjusted, and "
        "claims nothing. Bands in pictures are intervals: of gaps for primary comparisons, of curves for their arms or "
        "where there are at most three.",
        (
            "comparison",
            "verdict",
            "pairs",
            "difference",
            f"{_percent(study)} interval",
            "by bootstrap",
            "p",
            "after Holm",
            "detectable",
        ),
        rows,
        figures=("differences", "gap"),
    )


def budgets(study: Study) -> Table:
    rows = []
    if len(study.plan.budgets) > 1:
        for one in study.comparisons:
            for budget, pairs in by_budget(study.records, one.pairs.arm, one.pairs.against).items():
                found = t_interval(pairs.differences, one.confidence) if pairs.differences else None
                middle = number(found.mean) if found else NOTHING
                rows.append((one.pairs.name, short(budget), str(len(pairs.runs)), middle, interval_text(found)))
    return Table(
        "The difference by budget",
        "Each budget is a training of its own, with a schedule made for it: does the gain last?",
        ("comparison", "tokens", "pairs", "difference", f"{_percent(study)} interval"),
        rows,
        figures=("budgets",),
    )


def schedules(study: Study) -> Table:
    rows = []
    for one in study.comparisons:
        if one.shortest is not None:
            at_most = "at most " if one.shortest.is_censored else ""
            numbers = (
                at_most + _amount(one.shortest.tokens, short),
                at_most + _ratio(one.shortest.token_ratio),
                at_most + _amount(one.shortest.seconds, lambda seconds: f"{number(seconds)} s"),
                at_most + _ratio(one.shortest.second_ratio),
            )
            rows.append((one.pairs.name, _level(one.shortest.target), *numbers))
    return Table(
        "The shortest schedule to the rival's end",
        "What an arm needs to reach its rival's final value with a schedule of its own, read off between budgets: the "
        "value lies on a straight line in the logarithm of tokens, which is more than a curve that flattens needs. At "
        "most: the smallest budget is enough. Its time is at the pace of the largest budget. Intervals by drawing "
        "seeds anew, widened for their being few.",
        ("comparison", "to reach", "tokens", "of the rival's", "time", "of the rival's"),
        rows,
    )


def arms(study: Study) -> Table:
    rows = []
    for arm in study.plan.arms:
        runs = study.ends(arm)
        if runs:
            end = t_interval([run.value for run in runs if run.value is not None], 1 - study.plan.threshold)
            tests = [run.test for run in runs if run.test is not None]
            rates = ", ".join(f"{lr:g}" for lr in sorted({run.lr for run in runs}))
            interval = f"{_level(end.low)} to {_level(end.high)}" if end.is_bounded else "unknown"
            row = (arm, rates, str(len(runs)), _level(end.mean), interval)
            rows.append((*row, _level(mean(tests)) if tests else NOTHING))
    return Table(
        "Where the arms ended",
        f"Mean {study.plan.metric} over seeds after {short(study.plan.end)} tokens, at the best learning rate of the "
        f"grid{_found_at(study)}. The test split is read once, and chooses nothing. Curves leave out the first part of "
        "training, where no difference could be seen beside the fall.",
        ("arm", "learning rate", "seeds", "dev", f"{_percent(study)} interval", "test"),
        rows,
        figures=("tokens", "seconds"),
    )


def _found_at(study: Study) -> str:
    """Where rates were chosen, if it was not where arms are compared."""
    end = study.plan.end
    curves = [curve_for(study.rates, arm, end) for arm in study.plan.arms]
    elsewhere = sorted({curve.budget for curve in curves if curve is not None} - {end})
    return f", which was run for {' and '.join(map(short, elsewhere))} tokens" if elsewhere else ""


def lengths(study: Study) -> Table:
    """Arms over pieces longer than in training, and the paired difference to the baseline there."""
    rows, base = [], _beyond(study, study.plan.baseline)
    for arm in study.plan.arms:
        for times, ours in sorted(_beyond(study, arm).items()):
            theirs = base.get(times, {})
            paired = [ours[seed] - theirs[seed] for seed in ours if seed in theirs and arm != study.plan.baseline]
            found = t_interval(paired, 1 - study.plan.threshold) if paired else None
            middle = number(found.mean) if found else NOTHING
            rows.append((arm, f"{times} x", str(len(ours)), _level(mean(ours.values())), middle, interval_text(found)))
    return Table(
        "Beyond the training length",
        f"Mean {study.plan.metric} on the dev split, read in pieces so many times as long as in training, and the "
        f"paired difference to {study.plan.baseline} there: exploratory.",
        ("arm", "length", "seeds", "dev", "difference", f"{_percent(study)} interval"),
        rows,
    )


def costs(study: Study) -> Table:
    rows = []
    for arm in study.plan.arms:
        if runs := study.ends(arm):
            speed = median(run.tokens / run.seconds for run in runs)
            pace = paired(study.records, arm, study.plan.baseline, study.plan.end).pace
            peaks = [run.peak_memory for run in runs if run.peak_memory is not None]
            rows.append(
                (
                    arm,
                    f"{runs[0].parameters:,}",
                    short(round(speed)),
                    _seconds(median(run.seconds for run in runs)),
                    share(pace) if math.isfinite(pace) else NOTHING,
                    f"{max(peaks) / 2**30:.2f}" if peaks else NOTHING,
                )
            )
    return Table(
        "Cost",
        f"Of a run of {short(study.plan.end)} tokens: the median over seeds and, beside it, that of the pairs' ratios, "
        "which need not be the ratio of the medians. Memory is the most that a run took.",
        ("arm", "parameters", "tokens/s", "seconds", f"of {study.plan.baseline}'s, in pairs", "peak memory, GiB"),
        rows,
    )


def stability(study: Study) -> Table:
    rows, lower = [], study.plan.lower_is_better
    for arm in study.plan.arms:
        runs = [run for run in study.records if run.arm == arm]
        curves = [curve for curve in study.rates if curve.arm == arm]
        if not runs:
            continue
        rates = [rate for curve in curves for rate in curve.rates]
        stable = [curve.highest_stable for curve in curves if curve.highest_stable is not None]
        tails = [run.gradient_tail for run in runs if run.gradient_tail is not None]
        rows.append(
            (
                arm,
                # Over budgets, the most cautious.
                f"{min(stable):g}" if stable and len(stable) == len(curves) else NOTHING,
                f"{sum(rate.unstable for rate in rates)} of {sum(len(rate.seeds) for rate in rates)}",
                str(sum(spikes(run, lower_is_better=lower) for run in runs)),
                number(max(tails)) if tails else NOTHING,
            )
        )
    return Table(
        "Stability",
        "The highest learning rate up to which every run of the grid was stable; runs of the grid that were not: they "
        "ended in no number or, at a higher rate than the best, no further than the best was at its first look; jumps "
        "of the dev curve by more than a tenth of the way come, in all runs; the largest gradient over the usual one.",
        ("arm", "highest stable rate", "unstable", "spikes", "gradient tail"),
        rows,
    )


def environment(study: Study) -> Table:
    names = dict.fromkeys(name for run in study.records for name in run.environment)
    rows = []
    for name in names:
        values = sorted({str(run.environment[name]) for run in study.records if name in run.environment})
        # Dates are all different.
        said = f"{values[0]} to {values[-1]}" if name == "date" and len(values) > 1 else ", ".join(values)
        rows.append((name, said))
    return Table("Environment", "Where the runs were made.", ("what", "which"), rows, style="words")


def _beyond(study: Study, arm: str) -> dict[int, dict[int, float]]:
    """By length, then by seed."""
    found: dict[int, dict[int, float]] = {}
    for run in study.ends(arm):
        for times, value in run.beyond:
            found.setdefault(times, {})[run.seed] = value
    return found


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else number(value)


def _level(value: float) -> str:
    """A value itself, in which differences are to be seen."""
    return f"{value:#.5g}"


def _percent(study: Study) -> str:
    return f"{100 * (1 - study.plan.threshold):g} %"


def _amount(estimate: Estimate, shown: Callable[[float], str]) -> str:
    return shown(float(f"{estimate.mean:.3g}")) if math.isfinite(estimate.mean) else "not reached"


def _ratio(estimate: Estimate) -> str:
    if not math.isfinite(estimate.mean):
        return NOTHING
    if not math.isfinite(estimate.low):
        return share(estimate.mean)
    high = share(estimate.high) if math.isfinite(estimate.high) else "not reached"
    return f"{share(estimate.mean)} ({share(estimate.low)} to {high})"
