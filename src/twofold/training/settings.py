"""How a model is trained, in one frozen object that checks itself. Imports no torch: a command reads it for help."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from twofold_runtime.checked import Count, Seed, above, at_least, at_most, below, check_fields, within

# What may change when a run is resumed: it does not change the order of the data, and the weights only by rounding and
# by what dropout draws.
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
    """How to train: for how long, in which batches, at which rate, and how often to evaluate, save and stop."""

    epochs: Annotated[float, above(0), at_most(1_000_000)] = 10.0
    """Passes over the training data; 0.5 is half a pass. Not read when steps is given."""
    steps: Count | None = None
    """Optimizer steps in all, instead of epochs."""
    batch_size: Count = 32
    """Examples of a step, over all processes and pieces together."""
    batch_tokens: Count | None = None
    """Tokens of a step, padding included, instead of batch_size: many short examples or few long ones."""
    buckets: bool = True
    """Put examples of similar length into one batch, so that little is padding."""
    accumulate: Count = 1
    """Pieces in which a process computes its share of a batch, one after the other: less memory, the same step."""

    learning_rate: Annotated[float, above(0), at_most(1e20)] = 1e-3
    """The highest rate."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """How the rate falls after the warm-up."""
    warmup: Annotated[float, within(0, 1)] = 0.05
    """Share of all steps in which the rate rises from 0."""
    final_rate: Annotated[float, within(0, 1)] = 0.0
    """Where cosine and linear end, as a share of learning_rate."""
    weight_decay: Annotated[float, within(0, 1e20)] = 0.01
    """Decay of matrices. Norms, gains and biases never decay."""
    decay_embeddings: bool = False
    """Let embeddings decay as well."""
    betas: tuple[Annotated[float, at_least(0), below(1)], Annotated[float, at_least(0), below(1)]] = (0.9, 0.98)
    """AdamW's beta1 and beta2."""
    clip: Annotated[float, above(0)] | None = 1.0
    """Gradients whose norm is above this are scaled down to it; None leaves them as they are."""
    label_smoothing: Annotated[float, within(0, 1)] = 0.0
    """How much of every label the loss in training spreads over all tokens; only for models that write an answer."""
    seed: Seed = 0
    """Decides the order of the data, what dropout drops and, where a model is made, its first weights."""

    evaluate_steps: Count | None = None
    """Steps between two evaluations on the dev split; None evaluates after every epoch."""
    patience: Count | None = None
    """Stop after this many evaluations without a better one; None never does."""
    log_steps: Count = 10
    """Steps between two lines of metrics.jsonl."""
    save_steps: Count | None = None
    """Steps between two checkpoints; None leaves that to save_seconds."""
    save_seconds: Annotated[float, above(0)] | None = 300.0
    """Seconds between two checkpoints; None leaves that to save_steps."""
    keep: Count = 2
    """Checkpoints kept while the run is unfinished."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train: a GPU if there is one."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """bf16 computes in bfloat16 and keeps weights in float32; auto does so on a GPU that can."""
    compile: bool = False
    """Compile the model first: slow to start, then faster."""
    distribution: Literal["auto", "none", "ddp", "fsdp"] = "auto"
    """ddp: each process has the whole model. fsdp: each has a part. auto: ddp under torchrun."""
    workers: Annotated[int, within(0, 1024)] = 0
    """Processes that prepare batches ahead; 0 prepares them in the training process."""
    report_to: Literal["none", "tensorboard", "trackio"] = "none"
    """Where curves go besides metrics.jsonl."""

    def __post_init__(self) -> None:
        check_fields(self)

    def as_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def check_same_run(self, before: Mapping[str, Any]) -> None:
        """Refuse to resume a run that began with settings under which its steps would have been others."""
        # A run that is older than a setting began with its default.
        now, before = self.as_json(), Settings().as_json() | dict(before)
        changed = [name for name in now if name not in FREE_ON_RESUME and now[name] != before[name]]
        if changed:
            name = changed[0]
            raise ValueError(
                f"{name} must stay as it was when the run began to resume it: {before[name]!r}, got {now[name]!r}"
            )
