"""The options of a fused call. Here and not in `triton/fused`, because this file does not import triton."""

from typing import NamedTuple

import torch
from torch import Tensor


class KernelOptions(NamedTuple):
    """The options of a call, as the kernels take them."""

    attn_mask: Tensor | None
    segment_ids: Tensor | None
    seed: Tensor | None  # (1,) int64 on the device, for dropout
    window: int | None
    is_causal: bool
    softcap: float | None
    dropout_p: float
    scale: float


def softmax_numbers(attn_mask: Tensor | None) -> int:
    """Numbers kept per row for backward: its log-sum-exp in base 2 and, for a float mask, its shift."""
    return 1 if attn_mask is None or attn_mask.dtype == torch.bool else 2
