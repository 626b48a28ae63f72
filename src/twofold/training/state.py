"""What a run knows besides its tensors: where it is, how it has gone, which model was best. Plain numbers, for JSON."""

import math
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from torch import Tensor

from twofold.training.checkpoints import Checkpoint
from twofold_runtime.checked import at_least, check_fields, from_mapping

Whole = Annotated[int, at_least(0)]


@dataclass(kw_only=True, slots=True)
class State:
    step: Whole = 0
    epoch: Whole = 0
    # The next batch of the epoch.
    batch: Whole = 0
    tokens: Whole = 0
    seconds: float = 0.0
    # Since the last line of metrics.jsonl.
    untold: Whole = 0
    loss: float = 0.0
    gradient_norm: float = 0.0
    largest_gradient_norm: float = 0.0
    # Evaluations since the best one.
    worse: Whole = 0
    best_step: Whole = 0
    best: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)
        self.best = {name: float(value) for name, value in self.best.items()}

    def add(self, loss: float, gradient_norm: float) -> None:
        self.untold += 1
        self.loss += loss
        self.gradient_norm += gradient_norm
        self.largest_gradient_norm = max(self.largest_gradient_norm, gradient_norm)

    def averages(self) -> dict[str, float]:
        """Means of loss and gradient norm since the last call, and the largest norm."""
        averages = {
            "loss": self.loss / self.untold,
            "gradient_norm": self.gradient_norm / self.untold,
            "largest_gradient_norm": self.largest_gradient_norm,
        }
        self.untold, self.loss, self.gradient_norm, self.largest_gradient_norm = 0, 0.0, 0.0, 0.0
        return averages

    def evaluated(self, numbers: dict[str, float], metric: str | None, higher_is_better: bool) -> bool:
        """Take note of an evaluation; whether its weights are to be kept, as the best so far. A NaN is never better.

        Without a metric no evaluation is better than another, and the numbers of the last one stay.
        """
        if reserved := numbers.keys() & {"kind", "step"}:
            name = reserved.pop()
            raise ValueError(f"evaluate must name its numbers otherwise than {name!r}, which metrics.jsonl uses")
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


def read_saved(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
    """What a run wrote into a checkpoint: `state` as in JSON, with `settings` and `examples` beside it; the tensors."""
    content = dict(checkpoint.state())
    settings, examples = dict(content.pop("settings")), content.pop("examples")
    state = from_mapping(State, content)
    names = ["model", "optimizer", "random", *(["best"] if state.best_step not in (0, state.step) else [])]
    tensors = {name: checkpoint.tensors(name) for name in names}
    return {"settings": settings, "examples": examples, "state": state.as_json()}, tensors
