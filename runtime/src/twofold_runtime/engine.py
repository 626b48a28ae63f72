"""What runs a model: arrays in, arrays out. `twofold.models.engine` has torch's."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

Arrays = Mapping[str, np.ndarray]


class Engine(Protocol):
    """A model that is ready to answer."""

    def __call__(self, arrays: Arrays) -> Arrays:
        """Outputs by name, float32, for a padded batch of inputs by name."""
        ...


class Writer(Protocol):
    """A model that writes token by token."""

    def write(
        self,
        arrays: Arrays,
        *,
        decoding: Any,
        max_new_tokens: int,
        never: Sequence[int],
        listen: Callable[[Sequence[int]], None] | None = None,
    ) -> list[list[int]]:
        """The ids that follow each row of a padded batch, which end with the end token or at max_new_tokens.

        Args:
            decoding: how tokens are chosen.
            never: ids that are not written.
            listen: is called with new ids of the first row as soon as there are some.
        """
        ...
