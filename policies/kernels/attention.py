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


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotates the pairs of x (..., heads, head_width)."""
    cos, sin = rotation
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def split(x: Tensor, heads: int) -> Tensor:
    """(..., width) -> (..., heads, head_width)."""
    return x.view(*x.shape[:-1], heads, -1)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """query (n, Q, heads, d), key and value (n, J, heads, d), mask (n, Q, J) True where seen -> (n, Q, width)."""
    query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None]).transpose(1, 2).flatten(-2)
