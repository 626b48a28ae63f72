"""From model width to heads and back."""

from torch import Tensor


def check_heads(width: int, heads: int, kv_heads: int | None, head_width: int | None) -> tuple[int, int, int]:
    """heads, kv_heads and head_width with their defaults filled in, or a ValueError."""
    if width < 1:
        raise ValueError(f"width must be at least 1, got {width}")
    if heads < 1:
        raise ValueError(f"heads must be at least 1, got {heads}")
    if head_width is None:
        if width % heads:
            raise ValueError(f"heads must divide width {width} unless head_width is given, got {heads}")
        head_width = width // heads
    elif head_width < 1:
        raise ValueError(f"head_width must be at least 1, got {head_width}")
    kv_heads = heads if kv_heads is None else kv_heads
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"kv_heads must divide heads {heads}, got {kv_heads}")
    return heads, kv_heads, head_width


def split(x: Tensor, heads: int) -> Tensor:
    """(B, T, heads * D) -> (B, heads, T, D), a view."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merged(x: Tensor) -> Tensor:
    """(B, H, T, D) -> (B, T, H * D)."""
    return x.transpose(1, 2).flatten(-2)
