"""The page about two runs of goals: what they score, how they got there, where they err, what they attend to."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twofold.report.charts import Line, bar_chart, calibration_chart, heat_map, line_chart
from twofold.report.goals_runs import OUTSIDE, Arm, Comparison, Look, calibration, confusions, most_confused
from twofold.report.markup import Markup, joined, shortened, tag
from twofold.report.page import card, grid, page, section, table

# How a score is called, how many digits it has, and what it means.
SCORES = {
    "exact_match": ("exact match, %", 1, "goal and every slot right; what is out of scope rejected"),
    "goal_accuracy": ("goal accuracy, %", 1, "of what is in scope"),
    "slot_f1": ("slot F1, %", 1, "of what is in scope"),
    "out_of_scope_auroc": ("out-of-scope AUROC", 3, "how well it is told what is out of scope; 1 is best"),
    "calibration_error": ("calibration error", 3, "how far confidence is from accuracy; 0 is best"),
}
CONFUSED = 9
# Utterances whose self weights are shown, and tokens of the one whose maps are.
SHOWN, WIDEST = 3, 16
# Characters of an utterance in a heading.
LONGEST = 80


def verdict(comparison: Comparison) -> str:
    """Who scored what, in plain words, and what that is worth."""
    first, second = comparison.arms
    ours, theirs = first.test["exact_match"], second.test["exact_match"]
    count, (one, other) = len(comparison.test), comparison.alone
    gap = round(ours - theirs, 1)
    better = f"{abs(gap):.1f} points {'more' if gap > 0 else 'less'}" if gap else "no difference"
    before = [arm.dev["exact_match"] for arm in comparison.arms]
    turned = gap * (before[0] - before[1]) < 0
    dev = f"On dev it is the other way round, {before[0]:.1f} % and {before[1]:.1f} %. " if turned else ""
    return (
        f"Of {count:,} test utterances {first.name} got {ours:.1f} % entirely right and {second.name} {theirs:.1f} %: "
        f"{better}. {one} were right with {first.name} alone, {other} with {second.name} alone. "
        f"{dev}This is one seed, and one seed proves nothing: another may turn the result round."
    )


def goals_page(comparison: Comparison, made: Mapping[str, Any], following: Sequence[str]) -> str:
    """The whole page. made: on which machine and when; following: commands to try next."""
    first, second = comparison.arms
    title = f"{first.name} against {second.name}: from an utterance to its goal"
    header = tag(
        "header",
        tag(
            "div",
            tag(
                "p",
                f"Twofold report · {comparison.data or 'the embedded goals'} · seed {comparison.settings['seed']}",
                class_="eyebrow",
            ),
            tag("h1", title),
            tag("p", verdict(comparison), class_="verdict"),
        ),
    )
    parts = [
        _numbers(comparison),
        _answers(comparison),
        _curves(comparison),
        _calibration(comparison),
        _confusion(comparison),
        _self_weights(comparison),
        _maps(comparison),
        _next(following),
    ]
    told = " · ".join(f"{name} {value}" for name, value in made.items() if value is not None)
    return page(title, header, tag("main", *parts), tag("footer", told))


def _numbers(comparison: Comparison) -> Markup:
    first, second = comparison.arms
    about = (
        "Both models are trained on the same utterances in the same order for as many steps; the feed-forward of "
        f"{first.name} is narrower, so that it has no more parameters. The test split was read after both had "
        "finished, and nothing was chosen by it."
    )
    if comparison.data is None:
        about += " Its wordings and values are others than those of training."
    cards = [
        tag(
            "div",
            tag("span", arm.name, class_="name"),
            tag("div", f"{arm.test['exact_match']:.1f} %", class_="big"),
            tag("span", f"entirely right on test, trained in {arm.end['seconds']:.0f} s", class_="quiet"),
            class_=f"card arm{place}",
        )
        for place, arm in enumerate(comparison.arms)
    ]
    times = [
        _row(comparison, "training, s", "looks at dev included", lambda arm: arm.end["seconds"], 0),
        _row(comparison, "prediction, ms", "one utterance, median", lambda arm: arm.milliseconds, 1),
        _row(comparison, "parameters", "", lambda arm: arm.parameters, 0),
        _row(comparison, "steps", "", lambda arm: arm.end["step"], 0),
        _row(
            comparison, "best step", "by exact match on dev; its weights are kept", lambda arm: arm.end["best_step"], 0
        ),
    ]
    heads = ("", first.name, second.name, "difference")
    test, dev = (
        [
            _row(
                comparison,
                f"{split}: {called}",
                means,
                lambda arm, split=split, name=name: getattr(arm, split)[name],
                n,
            )
            for name, (called, n, means) in SCORES.items()
            if all(name in getattr(arm, split) for arm in comparison.arms)
        ]
        for split in ("test", "dev")
    )
    more = tag("details", tag("summary", "The same on the dev split"), table(heads, dev, "stack"))
    return section("Scores and times", about, grid(*cards), table(heads, [*test, *times], "stack"), more)


def _row(comparison: Comparison, name: str, means: str, value: Callable[[Arm], float], digits: int) -> Sequence[str]:
    one, other = (value(arm) for arm in comparison.arms)
    label = joined(name, tag("span", means, class_="small") if means else "")
    difference = f"{one - other:+,.{digits}f}".replace("-", "−") if round(one - other, digits) else "0"
    return (label, f"{one:,.{digits}f}", f"{other:,.{digits}f}", difference)


def _answers(comparison: Comparison) -> Markup:
    first, second = comparison.arms
    cards = [
        _answer(ours, theirs, second.name)
        for ours, theirs in zip(first.predictions, second.predictions, strict=True)
    ]  # fmt: skip
    about = f"What {first.name} makes of sentences, with its slots marked, and where {second.name} says otherwise."
    return section("Utterances and their goals", about, grid(*cards))


def _answer(ours: Mapping[str, Any], theirs: Mapping[str, Any], other: str) -> Markup:
    confidence = f"{ours['confidence']:.0%} sure"
    sure = tag("div", tag("span", style=f"width:{ours['confidence']:.1%}"), class_="meter", aria_hidden="true")
    lines = [
        tag("p", _marked(ours), class_="utterance"),
        tag("div", tag("span", ours["goal"] or OUTSIDE, class_="goal"), f" · {confidence}"),
        sure,
    ]
    if "action" in ours:
        lines.append(tag("div", f"Action: {ours['action'] or 'none'}", class_="quiet action"))
    if _said(ours) != _said(theirs):
        lines.append(tag("div", f"{other}: {_said(theirs)} ({theirs['confidence']:.0%})", class_="quiet"))
    return tag("div", *lines, class_="card")


def _marked(prediction: Mapping[str, Any]) -> Markup:
    """The text with its slots in it."""
    text, pieces, past = prediction["text"], [], 0
    for slot in prediction["slots"]:
        pieces.append(text[past : slot["start"]])
        pieces.append(tag("mark", text[slot["start"] : slot["end"]], tag("small", slot["name"])))
        past = slot["end"]
    return joined(*pieces, text[past:])


def _said(prediction: Mapping[str, Any]) -> str:
    slots = ", ".join(f"{slot['name']} = {slot['value']}" for slot in prediction["slots"])
    return (prediction["goal"] or OUTSIDE) + (f" with {slots}" if slots else "")


def _curves(comparison: Comparison) -> Markup:
    def lines(kind: str, name: str) -> list[Line]:
        return [
            Line(arm.name, place, [(one["step"], one[name]) for one in arm.lines if one["kind"] == kind])
            for place, arm in enumerate(comparison.arms)
        ]

    looks = line_chart(
        lines("evaluation", "exact_match"), title="Exact match on dev", x_label="steps", y_label="exact match, %"
    )
    losses = line_chart(lines("step", "loss"), title="Training loss", x_label="steps", y_label="loss")
    about = "The weights that did best on dev are kept. The loss is that of training, on texts with some tokens hidden."
    return section(
        "Learning curves",
        about,
        _legend(comparison),
        grid(card("Exact match on dev", looks), card("Training loss", losses)),
    )


def _legend(comparison: Comparison) -> Markup:
    entries = [
        tag("span", tag("span", class_=f"key arm{place}"), arm.name) for place, arm in enumerate(comparison.arms)
    ]
    return tag("div", *entries, class_="legend")


def _calibration(comparison: Comparison) -> Markup:
    cards = []
    for place, arm in enumerate(comparison.arms):
        title = f"{arm.name}: confidence against accuracy"
        if "calibration_error" in arm.test:
            title += f", error {arm.test['calibration_error']:.3f}"
        cards.append(card(title, calibration_chart(calibration(comparison, place), place, title=title)))
    about = (
        "Test utterances that are in scope, in bins of confidence. Of what a model is 80 % sure of it should get 80 % "
        "right: then a bar reaches the dashed line. Pale bars hold few utterances; a dot is a bin's mean."
    )
    return section("Is it as sure as it should be?", about, grid(*cards))


def _confusion(comparison: Comparison) -> Markup:
    names = most_confused(comparison, CONFUSED)
    if not names:
        return section("Which goals are mistaken for which?", "On the test split no goal was.")
    counts = [confusions(comparison, place) for place in range(len(comparison.arms))]
    wrong = [{pair: n for pair, n in found.items() if pair[0] != pair[1]} for found in counts]
    most = max(n for found in wrong for n in found.values())
    cards = []
    for arm, found in zip(comparison.arms, wrong, strict=True):
        title = f"{arm.name}: {sum(found.values())} of {len(comparison.test):,} goals wrong"
        values = [[found.get((truth, guess), 0) for guess in names] for truth in names]
        cards.append(card(title, heat_map(values, names, names, title=title, most=most, numbers=True)))
    about = (
        "The goals that take part in most errors on test, with the number of times each (row) was taken for another "
        "(column). Below, the commonest confusions of both models, each with an utterance."
    )
    pairs = sorted({*wrong[0], *wrong[1]}, key=lambda pair: (-wrong[0].get(pair, 0) - wrong[1].get(pair, 0), pair))
    rows = [
        (truth, guess, _example(comparison, truth, guess), *(str(found.get((truth, guess), 0)) for found in wrong))
        for truth, guess in pairs[:6]
    ]
    heads = ("goal", "taken for", "for example", *(arm.name for arm in comparison.arms))
    return section("Which goals are mistaken for which?", about, grid(*cards), table(heads, rows, "words"))


def _example(comparison: Comparison, truth: str, guess: str) -> str:
    """A test utterance that one of the arms confused so."""
    for arm in comparison.arms:
        for one, answer in zip(comparison.test, arm.answers, strict=True):
            taken = answer.goal or OUTSIDE
            if (one.goal or OUTSIDE, taken) == (truth, guess):
                return one.text
    return ""


def _self_weights(comparison: Comparison) -> Markup:
    first = comparison.arms[0]
    layers, heads = first.kept.shape
    names = [f"{layer + 1}.{head + 1}" for layer in range(layers) for head in range(heads)]
    series = [(arm.name, arm.kept.flatten().tolist()) for arm in comparison.arms]
    means = ", ".join(f"{arm.name} {arm.kept.mean():.2f}" for arm in comparison.arms)
    title = "Mean self weight by layer.head on dev"
    chart = bar_chart(names, series, title=title, y_label="self weight", mark=comparison.uniform)
    about = (
        "A token's self weight is the share of its attention that stays with its own key and value. The dashed line is "
        f"the share if all tokens were attended to alike ({comparison.uniform:.2f}). Mean over all heads: {means}."
    )
    cards = [
        _kept_card(arm, arm.looks[place], names)
        for place in range(min(SHOWN, len(first.looks)))
        for arm in comparison.arms
    ]
    return section(
        "What a token keeps of itself",
        about,
        card(title, _legend(comparison), chart),
        tag("div", *cards, class_="pairs"),
    )


def _kept_card(arm: Arm, look: Look, names: Sequence[str]) -> Markup:
    values = [head[:WIDEST].tolist() for layer in look.kept for head in layer]
    title = f"{arm.name}: “{shortened(look.text, LONGEST)}”"
    return card(title, heat_map(values, names, look.tokens[:WIDEST], title=f"Self weights, {title}"))


def _maps(comparison: Comparison) -> Markup:
    first = comparison.arms[0]
    # The first that fits as a whole, else the shortest.
    sizes = [len(look.tokens) for look in first.looks]
    place = next((place for place, size in enumerate(sizes) if size <= WIDEST), sizes.index(min(sizes)))
    text = shortened(first.looks[place].text, LONGEST)
    shown = "" if sizes[place] <= WIDEST else f" (its first {WIDEST} tokens)"
    about = (
        f"Every head of every layer on “{text}”{shown}: each row says where one token looks, and adds up to 1. The "
        "diagonal is what it keeps of itself."
    )
    return section(
        "Attention maps of an utterance",
        about,
        tag("h3", first.name),
        _map_strip(first, first.looks[place]),
        *(
            tag("details", tag("summary", f"The same for {arm.name}"), _map_strip(arm, arm.looks[place]))
            for arm in comparison.arms[1:]
        ),
    )


def _map_strip(arm: Arm, look: Look) -> Markup:
    words = look.tokens[:WIDEST]
    cards = []
    for layer, weights in enumerate(look.maps):
        for head, rows in enumerate(weights):
            title = f"layer {layer + 1}, head {head + 1}"
            values = rows[:WIDEST, :WIDEST].tolist()
            cards.append(card(title, heat_map(values, words, words, title=f"{arm.name}, {title}", width=270)))
    return tag("div", *cards, class_="strip")


def _next(following: Sequence[str]) -> Markup:
    return section("What to try next", "Every line is a command.", tag("pre", "\n".join(following)))
