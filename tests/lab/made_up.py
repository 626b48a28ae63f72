"""Records of experiments that never were, with an answer that is known."""

import math

import numpy as np

from twofold.lab.plan import Plan
from twofold.lab.records import Point, Record, SelfWeight

ARMS = ("standard", "exclusive", "split_kv matched")
RATES = (5e-4, 1e-3, 2e-3, 4e-3)
BUDGETS = (1_000_000, 5_000_000, 20_000_000)
ENVIRONMENT = {
    "date": "2026-11-20T10:00:00+00:00", "commit": "0123456789ab", "data": "fedcba9876543210",
    "gpu": "NVIDIA H200", "torch": "2.11.0",
}  # fmt: skip
# What an arm's loss is below that of standard, the best rate, and seconds per million tokens.
TRUTH = {"standard": (0.0, 1e-3, 1.0), "exclusive": (0.005, 2e-3, 1.05), "split_kv matched": (0.03, 2e-3, 1.02)}


def plan(**changes):
    told = {
        "experiment": "made up",
        "question": "Does the gain last?",
        "hypothesis": "The matched split ends below standard.",
        "task": "lm",
        "data": "nothing at all",
        "metric": "loss",
        "lower_is_better": True,
        "arms": ARMS,
        "baseline": "standard",
        "primary": (("split_kv matched", "standard"), ("split_kv matched", "exclusive")),
        "seeds": tuple(range(8)),
        "lrs": RATES,
        "budgets": BUDGETS,
        "analysis": "As the protocol has it.",
        "stop_rule": "After all runs.",
    }
    return Plan(**told | changes)


def loss(arm, tokens, lr):
    gain, best, _ = TRUTH[arm]
    return 2.0 + 8.0 * (tokens / 1e4) ** -0.4 - gain + 0.05 * math.log2(lr / best) ** 2


def record(arm="standard", seed=0, lr=1e-3, budget=20_000_000, phase="final", noise=0.004, **changes):
    shared, own = np.random.default_rng((seed, budget)), np.random.default_rng((seed, budget, ARMS.index(arm), 1))
    shift = noise * (3 * shared.normal() + own.normal())
    speed = TRUTH[arm][2]
    points = [
        Point(tokens, tokens / 1e6 * speed, loss(arm, tokens, lr) + shift * (1 + 2 * (1 - tokens / budget)))
        for tokens in sorted({max(1, budget * part // 20) for part in range(1, 21)})
    ]
    weights = [
        SelfWeight(point.tokens, tuple(0.2 / layer + 0.1 * place / 4 for layer in (1, 2, 3)))
        for place, point in enumerate(points[4::5])
    ]
    told = {
        "experiment": "made up", "phase": phase, "arm": arm, "seed": seed, "lr": lr, "budget": budget,
        "parameters": 10_000_000, "metric": "loss", "value": points[-1].value, "tokens": budget,
        "seconds": points[-1].seconds, "curve": points, "peak_memory": 3 << 30, "gradient_tail": 4.0,
        "self_weights": weights, "uniform_self_weight": 0.01,
        "environment": dict(ENVIRONMENT),
    }  # fmt: skip
    # A curve ends with the value, whichever of the two is given.
    if "curve" not in changes and changes.get("value") is not None:
        told["curve"] = [*points[:-1], points[-1]._replace(value=changes["value"])]
    if "value" not in changes and changes.get("curve"):
        told["value"] = changes["curve"][-1][2]
    return Record(**told | changes)


def records(plan):
    """Every run of a plan."""
    grid = [
        record(arm, seed, lr, budget, "grid")
        for arm in plan.arms
        for seed in plan.grid_seeds
        for lr in plan.lrs
        for budget in plan.grid_budgets
    ]
    finals = [
        record(arm, seed, TRUTH[arm][1], budget) for seed in plan.seeds for budget in plan.budgets for arm in plan.arms
    ]
    return grid + finals
