"""A text as a bag: which tokens it has, in whatever order."""

from torch import Tensor, nn


class Bag(nn.Embedding):
    """A linear layer over a text's tokens: every token speaks for each label by itself, at first not at all.

    Its weights start at 0 (`TwofoldPreTrainedModel` sees to that); padding says nothing.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(B, labels) of token numbers (B, N)."""
        return super().forward(input).sum(1)
