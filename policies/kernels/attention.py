"""Multi-head attention with rotary positions (arXiv:2104.09864) in torch, cut so that keys and values can come from a
memory."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

ROTARY_BASE = 1000.0
"""Longest rotary wavelength is about 2 pi times this many tokens."""


def rotation_at(positions: Tensor, head_width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin (..., 1, head_width / 2) of the rotary angles at `positions` (...), in float32 for smaller types."""
    dtype = torch.promote_types(dtype, torch.float32)  # bf16 cannot tell the later positions apart
    half = head_width // 2
    frequency = ROTARY_BASE ** (-torch.arange(half, device=positions.device, dtype=dtype) / half)
    angle = (positions.to(dtype)[..., None] * frequency)[..., None, :]
    return angle.cos(), angle.sin()


def widened(rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """cos and sin (..., head_width), as `rotate` takes them: worked out once for all layers."""
    cos, sin = rotation
    return torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotates the pairs of x (..., heads, head_width): feature i with feature i + head_width / 2.

    rotation: `widened`.
    """
    cos, sin = rotation
    return x * cos + x.roll(x.shape[-1] // 2, -1) * sin


def rotated(query: Tensor, key: Tensor, rotation: tuple[Tensor, Tensor], heads: int) -> tuple[Tensor, Tensor]:
    """Queries (..., Q, width), or (Q, width) for all, and the key (..., width) rotated and split into heads.

    One query is rotated in one call with its key.
    """
    cos, sin = (x[..., None, :, :] for x in rotation)
    if query.shape == (*key.shape[:-1], 1, key.shape[-1]):
        both = rotate(split(torch.cat([query, key[..., None, :]], -2), heads), (cos, sin))
        return both[..., :1, :, :], both[..., 1, :, :]
    return rotate(split(query, heads), (cos, sin)), rotate(split(key, heads), rotation)


def split(x: Tensor, heads: int) -> Tensor:
    """(..., width) -> (..., heads, head_width)."""
    return x.view(*x.shape[:-1], heads, -1)


def hiding(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to the scores: 0 where seen, minus infinity elsewhere; worked out once for all layers."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, -torch.inf)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """query (n, Q, heads, d), key and value (n, J, heads, d) -> (n, Q, width).

    mask: (n, Q, J), True where seen, or as `hiding` gives it.
    """
    query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None]).transpose(1, 2).flatten(-2)
