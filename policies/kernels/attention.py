"""Multi-head attention with rotary positions (arXiv:2104.09864) in torch, cut so that keys and values can come from a
memory."""

from __future__ import annotations

import functools
from typing import Any

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


@functools.cache
def _frequencies(head_width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(2, 3, 1, head_width): what `turning` multiplies positions by, for cos and for sin.

    Made once for each device, in the first call there, so that later ones can be captured.
    """
    half = head_width // 2
    frequency = ROTARY_BASE ** (-torch.arange(half, dtype=dtype) / half)
    still = torch.zeros(head_width, dtype=dtype)
    both = torch.cat([frequency, frequency]), torch.cat([-frequency, frequency])
    return torch.stack([torch.stack([x, x, still]) for x in both])[:, :, None].to(device)


def turning(positions: Tensor, head_width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin (..., 3, 1, head_width), as `rotate` takes them for queries, keys and values at `positions` (...).

    Values are left as they are: theirs are 1 and 0. In float32 for smaller types.
    """
    dtype = torch.promote_types(dtype, torch.float32)  # bf16 cannot tell the later positions apart
    lead = positions.dim()
    angle = positions.view(*positions.shape, 1, 1, 1, 1) * _frequencies(head_width, dtype, positions.device)
    cos, sin = angle.unbind(lead)
    return cos.cos(), sin.sin()


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotates the pairs of x (..., head_width): feature i with feature i + head_width / 2.

    rotation: cos and sin (..., head_width), the sine of the first half negated.
    """
    result: Tensor = _Rotate.apply(x, *rotation)  # type: ignore[no-untyped-call]
    return result


class _Rotate(torch.autograd.Function):
    """Its gradient is the rotation back, in as few operators."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        ctx.shape, ctx.dtype = x.shape, x.dtype
        return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,), (cos, sin) = gradients, ctx.saved_tensors
        half = gradient.shape[-1] // 2
        found = torch.addcmul(gradient * cos, gradient.roll(half, -1), sin, value=-1)
        return found.sum_to_size(ctx.shape).to(ctx.dtype), None, None


def rotated(
    tokens: Tensor, queries: Tensor | None, rotation: tuple[Tensor, Tensor], heads: int
) -> tuple[Tensor, Tensor]:
    """Queries (..., Q, heads, d) rotated, and keys beside values (..., 2, heads, d), of which the keys are.

    tokens (..., 3 width), or with `queries` (Q, width), which all tokens share, (..., 2 width); rotation: `turning`.
    """
    if queries is None:
        query, both = rotate(tokens.view(*tokens.shape[:-1], 3, heads, -1), rotation).split_with_sizes([1, 2], -3)
        return query, both
    (cos, cos_both), (sin, sin_both) = (x.split_with_sizes([1, 2], -3) for x in rotation)
    both = rotate(tokens.view(*tokens.shape[:-1], 2, heads, -1), (cos_both, sin_both))
    return rotate(split(queries, heads), (cos, sin)), both


def parts_of(tokens: Tensor, queries: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (..., Q, width), or (Q, width) for all, keys and values (..., width), of what `rotated` takes."""
    if queries is None:
        query, key, value = tokens.chunk(3, -1)
        return query[..., None, :], key, value
    key, value = tokens.chunk(2, -1)
    return queries.float(), key, value


def split(x: Tensor, heads: int) -> Tensor:
    """(..., width) -> (..., heads, head_width)."""
    return x.view(*x.shape[:-1], heads, -1)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """query (n, Q, heads, d), key and value (n, J, heads, d) -> (n, Q, width).

    mask: (n, Q, J), True where seen, or what is added to the scores: minus infinity where not.
    """
    query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None]).transpose(1, 2).flatten(-2)
