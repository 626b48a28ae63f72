"""Which extra of this package brings which library, and what to say where one is missing. Imports nothing."""

# A library, by the name it is imported by, and the extra that is sure to bring it to whoever runs a command.
OF_LIBRARIES = {"tyro": "cli", "rich": "cli", "scipy": "lab", "hassil": "hassil", "yaml": "train"} | dict.fromkeys(
    (
        "transformers",
        "safetensors",
        "tokenizers",
        "sklearn",
        "seqeval",
        "sacrebleu",
        "rouge_score",
        "ir_measures",
        "PIL",
    ),
    "train",
)
# Public names of `twofold` that need more than torch: less than a command does.
OF_NAMES = {"convert": "models", "load": "models", "open_run": "train", "train": "train"}


def library_of(error: ModuleNotFoundError) -> str:
    """The name of the library that was not found."""
    return (error.name or "").partition(".")[0]


def not_installed(library: str, extra: str) -> str:
    """What to tell a user."""
    return f"{library} is not installed: pip install '.[{extra}]' in Twofold's sources"
