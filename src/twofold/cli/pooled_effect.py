"""`twofold compare --pool`: the mean effect of several comparisons, each in units of its own spread."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twofold.cli import printable, say, say_json


def pool(folders: Sequence[Path], *, as_json: bool) -> int:
    """Of each folder the first primary comparison, all of the same two arms; what was not judged is left out."""
    from twofold.lab.registration import read_registration
    from twofold.lab.statistics import t_interval

    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ValueError("--pool names a folder twice")
    plans = [(plan.sha256, plan.registered) for plan in map(read_registration, folders)]
    if len(set(plans)) < len(plans):
        raise ValueError("--pool names a folder and its copy: they are one experiment")
    comparisons = [_comparison(folder) for folder in folders]
    names = sorted({(each["arm"], each["against"]) for each in comparisons})
    if len(names) > 1:
        pairs = ", ".join(f"{arm} against {against}" for arm, against in names)
        raise ValueError(f"--pool must be of comparisons of the same two arms, got {pairs}")
    effects = [each["effect"] for each in comparisons if each["effect"] is not None]
    if len(effects) < 2:
        raise ValueError(f"--pool needs at least two comparisons that can be judged, got {len(effects)}")
    # All experiments have the same weight. Weights by inverse variance assume one true effect for all, and with few
    # pairs an experiment's variance is itself an estimate that falls with its effect.
    interval = t_interval(effects)
    pooled = {"effect": interval.mean, "low": interval.low, "high": interval.high, "experiments": interval.count}
    if as_json:
        say_json({"comparisons": comparisons, "pooled": pooled})
        return 0
    _show(comparisons)
    [(arm, against)] = names
    say(
        f"{arm} against {against}, over {interval.count} experiments: {interval.mean:+.2f} standard deviations of a "
        f"paired difference (95 % interval {interval.low:+.2f} to {interval.high:+.2f}); above zero is a gain."
    )
    return 0


def _comparison(folder: Path) -> dict[str, Any]:
    """The first primary comparison of a folder, with its effect where it was judged."""
    from twofold.lab.statistics import standardised_effect
    from twofold.lab.verdict import Word
    from twofold.report.lab.study import read_study

    study = read_study(folder)
    if not study.primary:
        raise ValueError(f"{folder} has a plan without a primary comparison, of which nothing is claimed")
    comparison, verdict = study.primary[0]
    sign = -1 if study.plan.lower_is_better else 1
    gains = [sign * difference for difference in comparison.pairs.differences]
    is_judged = verdict.word not in (Word.NOT_JUDGED, Word.EXPLORATORY)
    try:
        effect = standardised_effect(gains) if is_judged else None
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error
    return {
        "experiment": study.plan.experiment,
        "arm": comparison.pairs.arm,
        "against": comparison.pairs.against,
        "metric": study.plan.metric,
        "pairs": len(gains),
        "gain": sum(gains) / len(gains) if gains else None,
        "effect": effect,
        "verdict": verdict.sentence,
    }


def _show(comparisons: Sequence[dict[str, Any]]) -> None:
    from rich.table import Table

    from twofold.cli.tables import show

    table = Table(box=None)
    for name in ("experiment", "metric", "pairs", "gain", "effect", "verdict"):
        # A name that is cut short may be that of two experiments.
        table.add_column(name, justify="right" if name in ("pairs", "gain", "effect") else "left", overflow="fold")
    for each in comparisons:
        gain, effect = (f"{each[name]:+.3g}" if each[name] is not None else "–" for name in ("gain", "effect"))
        word = each["verdict"].partition(":")[0] + ("" if each["effect"] is not None else ", left out")
        table.add_row(printable(each["experiment"]), printable(each["metric"]), str(each["pairs"]), gain, effect, word)
    show(table)
