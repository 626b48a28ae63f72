"""What a run knows besides its tensors: where it is, how it has gone, which model was best. Plain numbers, for JSON."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(kw_only=True, slots=True)
class State:
    step: int = 0
    epoch: int = 0
    # The next batch of the epoch.
    batch: int = 0
    tokens: int = 0
    seconds: float = 0.0
    # Since the last line of metrics.jsonl.
    untold: int = 0
    loss: float = 0.0
    gradient_norm: float = 0.0
    largest_gradient_norm: float = 0.0
    # Looks at the dev split since the best one.
    worse: int = 0
    best_step: int = 0
    best: dict[str, float] = field(default_factory=dict)

    def add(self, loss: float, gradient_norm: float) -> None:
        self.untold += 1
        self.loss += loss
        self.gradient_norm += gradient_norm
        self.largest_gradient_norm = max(self.largest_gradient_norm, gradient_norm)

    def tell(self) -> dict[str, float]:
        """Means of loss and gradient norm since the last call, and the largest norm."""
        told = {
            "loss": self.loss / self.untold,
            "gradient_norm": self.gradient_norm / self.untold,
            "largest_gradient_norm": self.largest_gradient_norm,
        }
        self.untold, self.loss, self.gradient_norm, self.largest_gradient_norm = 0, 0.0, 0.0, 0.0
        return told

    def look(self, numbers: dict[str, float], metric: str | None, higher_is_better: bool) -> bool:
        """Take note of an evaluation; whether its weights are to be kept, as the best so far. A NaN is never better.

        Without a metric no look is better than another, and the numbers of the last one stay.
        """
        if taken := numbers.keys() & {"kind", "step"}:
            raise ValueError(f"evaluate must name its numbers otherwise than {taken.pop()!r}, which metrics.jsonl uses")
        if metric is None:
            self.best = numbers
            return False
        if metric not in numbers:
            raise ValueError(f"metric must be one that evaluate gives ({', '.join(sorted(numbers))}), got {metric!r}")
        value, best = numbers[metric], self.best.get(metric)
        is_better = not math.isnan(value) and (best is None or (value > best if higher_is_better else value < best))
        self.worse = 0 if is_better else self.worse + 1
        if is_better:
            self.best_step, self.best = self.step, numbers
        return is_better

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
