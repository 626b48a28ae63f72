"""From an input to a model's arrays, and from its arrays to an answer. Needs numpy alone."""

__version__ = "0.1.0"
