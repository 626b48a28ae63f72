"""What is in the embedded goal set: counts, every goal with an example, every slot with values.

python examples/goal_set.py
"""

from collections import Counter

from twofold.data.examples import SPLITS
from twofold.data.goals import TEMPLATES, goals, wordings_of
from twofold.data.grammar import letters_and_digits


def counts(splits):
    """The figures of docs/data.md."""
    train = splits.train
    seen = {(slot.name, letters_and_digits(u.value(slot))) for u in train for slot in u.slots}
    asked = [(slot.name, letters_and_digits(u.value(slot))) for u in splits.test for slot in u.slots]
    return {
        "goals": len(TEMPLATES),
        "slots": len({slot.name for u in train for slot in u.slots}),
        "templates": sum(map(len, TEMPLATES.values())),
        "wordings": sum(len(wordings_of(goal)) for goal in TEMPLATES),
        "utterances": ", ".join(f"{name} {len(getattr(splits, name))}" for name in SPLITS),
        "out of scope": ", ".join(f"{name} {sum(u.goal is None for u in getattr(splits, name))}" for name in SPLITS),
        "slot values of test that train never has": f"{sum(one not in seen for one in asked) / len(asked):.0%}",
    }


def main():
    splits = goals()
    for name, figure in counts(splits).items():
        print(f"{name}: {figure}")
    print()
    for goal in TEMPLATES:
        example = max((u for u in splits.train if u.goal == goal), key=lambda u: (len(u.slots), -len(u.text)))
        print(f"{goal}: {example.text}")
    print()
    values = Counter((slot.name, u.value(slot).lower()) for u in splits.train for slot in u.slots)
    for name in sorted({name for name, _ in values}):
        common = [value for (slot, value), _ in values.most_common() if slot == name][:4]
        print(f"{name}: {', '.join(common)}")


if __name__ == "__main__":
    main()
