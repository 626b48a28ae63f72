"""A share of a training split: of the size asked for, always the same, and with every label."""

import tomllib

import pytest

from tests.lab.quick import TOML
from twofold.data.examples import Labelled
from twofold.lab.options import options_of
from twofold.lab.plan import Plan
from twofold.lab.subset import subset
from twofold.lab.trial import Laboratory

TRAIN = [Labelled(f"text {number}", "rare" if number == 77 else "usual") for number in range(200)]


def labels(example):
    return [example.label]


@pytest.mark.parametrize(("share", "size"), [(0.1, 20), (0.101, 21), (0.001, 2), (1.0, 200)])
def test_has_its_size_every_label_and_the_order_of_the_whole(share, size):
    found = subset(TRAIN, share, labels)
    assert len(found) == size
    assert {example.label for example in found} == {"rare", "usual"}
    assert found == sorted(found, key=TRAIN.index)
    assert found == subset(TRAIN, share, labels)


def test_a_larger_part_holds_the_smaller_one():
    small, large = (subset(TRAIN, share, labels) for share in (0.1, 0.25))
    assert {one.text for one in small} < {one.text for one in large}


def test_examples_without_labels_are_drawn_by_chance_alone():
    found = subset(range(100), 0.25, lambda _: ())
    assert len(found) == 25
    assert found != list(range(25))


def test_a_single_text_has_no_part():
    assert subset(["all of it"], 1.0, lambda _: ()) == ["all of it"]
    with pytest.raises(ValueError, match=r"share must be 1 where training has a single text, got 0\.5"):
        subset(["all of it"], 0.5, lambda _: ())


@pytest.mark.parametrize("share", [0, -0.1, 1.5, float("nan")])
def test_a_share_is_one(share):
    with pytest.raises(ValueError, match="share must be"):
        options_of("goals", {"share": share})


def test_a_laboratory_learns_from_it():
    told = tomllib.loads(TOML) | {"task": "classification", "metric": "accuracy", "lower_is_better": False}
    size = {"width": 16, "layers": 1, "heads": 2, "evaluations": 1}
    told |= {"size": size, "exploratory": True}
    whole, part = (Laboratory(Plan.from_json(told | {"size": size | {"share": share}})) for share in (1.0, 0.1))
    assert len(part.rows) == -(-len(whole.rows) // 10)
    assert part.splits.dev == whole.splits.dev
    # Words that only the rest has are new to it.
    assert len(part.task.tokenizer) < len(whole.task.tokenizer)
    assert part.steps(10_000) > 0
