"""How a model is trained, in one frozen object that checks itself. Imports no torch: a command reads it for help."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from twofold.tasks.options import check_choices

# What may differ between the lives of one run: it does not change the order of the data, and of the weights only what
# rounding and chance (dropout, hidden words) make of them.
FREE_ON_RESUME = frozenset(
    {
        "log_steps",
        "save_steps",
        "save_seconds",
        "keep",
        "accumulate",
        "device",
        "precision",
        "compile",
        "distribution",
        "workers",
        "report_to",
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How to train: for how long, in which batches, at which rate, and how often to look, save and stop."""

    epochs: float = 10.0
    """Passes over the training data; 0.5 is half a pass. Not read when steps is given."""
    steps: int | None = None
    """Optimizer steps in all, instead of epochs."""
    batch_size: int = 32
    """Examples of a step, over all processes and pieces together."""
    batch_tokens: int | None = None
    """Tokens of a step, padding included, instead of batch_size: many short examples or few long ones."""
    buckets: bool = True
    """Put examples of similar length into one batch, so that little is padding."""
    accumulate: int = 1
    """Pieces in which a process computes its share of a batch, one after the other: less memory, the same step."""

    learning_rate: float = 1e-3
    """The highest rate."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """How the rate falls after the warm-up."""
    warmup: float = 0.05
    """Share of all steps in which the rate rises from 0."""
    final_rate: float = 0.0
    """Where cosine and linear end, as a share of learning_rate."""
    weight_decay: float = 0.01
    """Decay of matrices. Norms, gains and biases never decay."""
    decay_embeddings: bool = False
    """Let embeddings decay as well."""
    betas: tuple[float, float] = (0.9, 0.98)
    """AdamW's two averages."""
    clip: float | None = 1.0
    """Gradients whose norm is above this are scaled down to it; None leaves them as they are."""
    label_smoothing: float = 0.0
    """How much of every label the loss in training spreads over all tokens; only for models that write an answer."""
    seed: int = 0
    """Decides the order of the data, what dropout drops and, where a model is made, its first weights."""

    evaluate_steps: int | None = None
    """Steps between two looks at the dev split; None looks after every epoch."""
    patience: int | None = None
    """Stop after this many looks without a better one; None never does."""
    log_steps: int = 10
    """Steps between two lines of metrics.jsonl."""
    save_steps: int | None = None
    """Steps between two checkpoints; None leaves that to save_seconds."""
    save_seconds: float | None = 300.0
    """Seconds between two checkpoints; None leaves that to save_steps."""
    keep: int = 2
    """Checkpoints kept while the run is unfinished."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train: a GPU if there is one."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """bf16 computes in bfloat16 and keeps weights in float32; auto does so on a GPU that can."""
    compile: bool = False
    """Compile the model first: slow to start, then faster."""
    distribution: Literal["auto", "none", "ddp", "fsdp"] = "auto"
    """ddp: each process has the whole model. fsdp: each has a part. auto: ddp under torchrun."""
    workers: int = 0
    """Processes that prepare batches ahead; 0 prepares them in the training process."""
    report_to: Literal["none", "tensorboard", "trackio"] = "none"
    """Where curves go besides metrics.jsonl."""

    def __post_init__(self) -> None:
        for name in (
            "steps",
            "batch_size",
            "batch_tokens",
            "accumulate",
            "evaluate_steps",
            "patience",
            "log_steps",
            "save_steps",
            "keep",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        for name in ("epochs", "learning_rate", "clip", "save_seconds"):
            value = getattr(self, name)
            if value is not None and not (0 < value < math.inf):
                raise ValueError(f"{name} must be above 0 and finite, got {value}")
        for name, low, high in (
            ("warmup", 0.0, 1.0),
            ("final_rate", 0.0, 1.0),
            ("label_smoothing", 0.0, 1.0),
            ("weight_decay", 0.0, math.inf),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} must be between {low:g} and {high:g}, got {value}")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be two numbers from 0 to below 1, got {self.betas}")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}")
        if self.seed >= 2**64:
            raise ValueError(f"seed must be below 2**64, got {self.seed}")
        if self.workers < 0:
            raise ValueError(f"workers must be at least 0, got {self.workers}")
        check_choices(self)

    def as_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def check_same_run(self, before: Mapping[str, Any]) -> None:
        """Refuse to go on with a run whose steps these settings would have made differently."""
        # A run that began before there was a setting began with what it is unless given.
        now, before = self.as_json(), Settings().as_json() | dict(before)
        changed = [name for name in now if name not in FREE_ON_RESUME and now[name] != before[name]]
        if changed:
            name = changed[0]
            raise ValueError(
                f"{name} must stay as it was when the run began to resume it: {before[name]!r}, got {now[name]!r}"
            )
