"""FlexAttention as a rival in `twofold bench attention`: torch's compiled attention, without code of ours.

A mask hides the own slot, and the log-sum-exp merges it back:

    o_i = sigmoid(L_i - l_i) o_i(others) + sigmoid(l_i - L_i) v'_i,   l_i own logit, L_i log-sum-exp of the others
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention

NAME = "flex"


def why_not(device: torch.device, dtype: str) -> str | None:
    """Why it cannot be measured here, or None."""
    if device.type != "cuda":
        return f"FlexAttention has gradients on GPUs only, got {device.type}"
    if dtype == "float64":
        return "compiled FlexAttention does not take float64"
    return None


def compiled(tokens: int, causal: bool, device: torch.device) -> Callable[..., Tensor]:
    """The function of query, key, value, self_key and self_value for this length.

    torch.compile gives up after eight shapes and then runs eagerly, some 50 times slower: the caller resets it between
    shapes (`torch.compiler.reset`), and `fullgraph` makes giving up an error.
    """

    def sees(_batch: Tensor, _head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return row > column if causal else row != column

    mask = create_block_mask(sees, None, None, tokens, tokens, device=device)

    def attend_compiled(*tensors: Any) -> Tensor:
        return attend(mask, *tensors)

    return torch.compile(attend_compiled, fullgraph=True, dynamic=False)


def attend(
    mask: BlockMask, query: Tensor, key: Tensor, value: Tensor, self_key: Tensor | None, self_value: Tensor | None
) -> Tensor:
    """Split attention over (B, H, T, D). `mask` hides every query's own slot."""
    groups = query.shape[1] // key.shape[1]
    attended = flex_attention(
        query, key, value, block_mask=mask, enable_gqa=groups > 1, return_aux=AuxRequest(lse=True)
    )
    others, lse = attended[0], attended[1].lse
    own_key, own_value = (
        tensor.repeat_interleave(groups, dim=1).float()
        for tensor in (key if self_key is None else self_key, value if self_value is None else self_value)
    )
    own = (query.float() * own_key).sum(-1) * query.shape[-1] ** -0.5
    shares = torch.sigmoid(lse - own)[..., None], torch.sigmoid(own - lse)[..., None]
    return (others * shares[0] + own_value * shares[1]).to(query.dtype)
